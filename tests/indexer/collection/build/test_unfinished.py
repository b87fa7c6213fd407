"""Unfinished work that was damaged is done again, and never published."""

from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.files.data_folder import KEEP, CATALOG_FILE
from indexer.collection.growth import Bounds
from indexer.encoding.arguments import BuildArguments
from indexer.collection.changes import publish_pending
from indexer.collection.reindex import prepare, publish_prepared
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.types import Paper, Sentence
from tests.support.annotators import annotated
from tests.support.builds import Counting, build_quietly, many_papers, published_files, quiet, write_corpus
from tests.support.trials.damage import DAMAGE, flip

FOURS = Bounds(part=4)
ARGUMENTS = BuildArguments("hashing", device="cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a corpus of twelve papers."""
    return write_corpus(tmp_path_factory.mktemp("corpus") / "c.jsonl", many_papers(12))


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return the collection of the corpus; treat it as read-only."""
    data = tmp_path_factory.mktemp("whole")
    build_quietly(corpus, data, hashing, bounds=FOURS)
    return data


@pytest.fixture(scope="module")
def stopped(corpus: Path, tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return the data folder of a build interrupted in its third part; treat it as read-only."""
    data = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        build_quietly(corpus, data, Counting(hashing, stop_after=9), bounds=FOURS)
    return data


@pytest.fixture(scope="module")
def compared(whole: Path, tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection after `akin reindex --compare-only`; treat it as read-only."""
    data = copytree(whole, tmp_path_factory.mktemp("compared") / "data")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepare(data, annotated(hashing), catalog, arguments=ARGUMENTS, on_progress=quiet, bounds=FOURS)
    return data


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize(
    "pattern",
    ["*/papers.arrow", "*/vectors.npy", "*/offsets.npy", "*/ids.npy", "*/kept.json"],
)
def test_a_damaged_part_is_made_again(
    corpus: Path, whole: Path, stopped: Path, tmp_path: Path, hashing: Encoder, pattern: str, kind: str
) -> None:
    """An interrupted build with a damaged file ends with the same bytes as an uninterrupted one."""
    data = copytree(stopped, tmp_path / "data")
    DAMAGE[kind](next((data / "building" / "corpus").glob(pattern)))
    build_quietly(corpus, data, hashing, bounds=FOURS)
    assert published_files(whole) == published_files(data)


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize(
    "pattern", ["prepared.json", "segment-*/vectors.npy", "segment-*/kept.json", "part-*/ids.npy"]
)
def test_a_damaged_preparation_is_made_again(
    whole: Path, compared: Path, tmp_path: Path, hashing: Encoder, pattern: str, kind: str
) -> None:
    """Damaged files of a prepared re-index are made again before it is published."""
    data, annotator = copytree(compared, tmp_path / "data"), annotated(hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        for path in (data / "building" / "reindex").glob(pattern):
            DAMAGE[kind](path)
        prepared = prepare(data, annotator, catalog, arguments=ARGUMENTS, on_progress=quiet, bounds=FOURS)
        publish_prepared(data, prepared, annotator, catalog, keep=KEEP)
    before = published_files(whole)
    assert {name.replace("000001", "000002"): content for name, content in before.items()} == published_files(
        data
    )


def test_a_damaged_addition_is_encoded_again(
    whole: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If papers encoded by an interrupted service were damaged since, they are encoded again."""
    data, annotator = copytree(whole, tmp_path / "data"), annotated(hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([Paper("whales", "Whales", "Whales sing.", (Sentence("Whales sing.", 0, 12),))])

        def die(*given: object, **named: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("indexer.collection.growth.publish_added", die)
            with pytest.raises(KeyboardInterrupt):
                publish_pending(data, annotator, catalog, on_progress=quiet, keep=KEEP)
        flip(next((data / "building" / "changes").glob("part-*/vectors.npy")))
        publish_pending(data, annotator, catalog, on_progress=quiet, keep=KEEP)
    snapshot = open_snapshot(data)
    (encoded,) = hashing.encode([snapshot.paper(snapshot.position("whales"))])
    np.testing.assert_allclose(snapshot.vectors(snapshot.position("whales")), encoded.sentences, atol=1e-3)
