"""Unfinished work that was damaged while it waited: done again, never published, never in the way."""

from pathlib import Path

import numpy as np
import pytest

from indexer.build import KEEP, BuildArguments
from indexer.catalog import CATALOG_FILE, Catalog
from indexer.changes import absorb
from indexer.reading import PartBounds
from indexer.reindex import prepare, publish_prepared
from indexer.snapshot import open_snapshot
from models.encoder import Encoder
from models.types import Paper, Sentence
from tests.support.annotators import annotated
from tests.support.builds import Counting, build_quietly, many_papers, published_files, quiet, write_corpus
from tests.support.trials.damage import DAMAGE, flip

TWENTIES = PartBounds(20)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Sixty papers."""
    return write_corpus(tmp_path / "c.jsonl", many_papers(60))


@pytest.fixture
def data(corpus: Path, tmp_path: Path, hashing: Encoder) -> Path:
    """The collection."""
    build_quietly(corpus, tmp_path / "data", hashing, parts=TWENTIES)
    return tmp_path / "data"


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize(
    "pattern",
    ["read.json", "part-00000.arrow", "*/rows.npy", "*/offsets.npy", "*/facets.npy", "*/files.json"],
)
def test_a_damaged_part_is_made_again(
    corpus: Path, data: Path, tmp_path: Path, hashing: Encoder, pattern: str, kind: str
) -> None:
    """Whatever happened to the files of an interrupted build, it ends as one that was never interrupted."""
    with pytest.raises(KeyboardInterrupt):
        build_quietly(corpus, tmp_path / "cut", Counting(hashing, stop_after=45), parts=TWENTIES)
    DAMAGE[kind](next((tmp_path / "cut" / "building" / "corpus").glob(pattern)))
    build_quietly(corpus, tmp_path / "cut", hashing, parts=TWENTIES)
    assert published_files(data) == published_files(tmp_path / "cut")


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("pattern", ["begun.json", "read.json", "segment.json", "*/rows.npy"])
def test_a_damaged_preparation_is_made_again(data: Path, hashing: Encoder, pattern: str, kind: str) -> None:
    """What `akin reindex --compare-only` left is taken up where it is whole, and made again where not."""
    before, annotator = published_files(data), annotated(hashing)
    arguments = BuildArguments("hashing", device="cpu")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepare(data, annotator, catalog, arguments=arguments, on_progress=quiet, bounds=TWENTIES)
        for path in (data / "building" / "reindex").glob(pattern):
            DAMAGE[kind](path)
        prepared = prepare(data, annotator, catalog, arguments=arguments, on_progress=quiet, bounds=TWENTIES)
        publish_prepared(data, prepared, annotator, catalog, on_progress=quiet, keep=KEEP)
    assert {name.replace("000001", "000002"): content for name, content in before.items()} == published_files(
        data
    )


def test_a_damaged_addition_is_encoded_again(
    data: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the service had encoded when it ended is compared before it is published."""
    annotator = annotated(hashing)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.add([Paper("whales", "Whales", "Whales sing.", (Sentence("Whales sing.", 0, 12),))])

        def die(*given: object, **named: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("indexer.changes.grow", die)
            with pytest.raises(KeyboardInterrupt):
                absorb(data, annotator, catalog, on_progress=quiet, keep=KEEP)
        flip(next((data / "building" / "changes").glob("*/rows.npy")))
        absorb(data, annotator, catalog, on_progress=quiet, keep=KEEP)
    snapshot = open_snapshot(data)
    (encoded,) = hashing.encode([snapshot.paper(snapshot.position("whales"))])
    np.testing.assert_allclose(snapshot.vectors(snapshot.position("whales")), encoded.sentences, atol=1e-3)
