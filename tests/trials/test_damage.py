"""Tests that damage to any file of a collection is found before it is served."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.snapshot.folder import current_generation
from indexer.snapshot.opening import open_snapshot, served_snapshot
from models.encoder import load_encoder
from models.errors import SnapshotCorruptError, SnapshotError
from tests.support.annotators import FirstColumns
from tests.support.builds import build_quietly, files_of, many_papers, write_corpus
from tests.support.examples.models.tiny_bert import write_tiny_bert
from tests.support.trials.settings import SEED, print_figure, trials

RESTED_S = 2.1  # a file unchanged for this long is remembered as verified
# Each file is damaged a few times, and many times in the long trial.
TIMES = pytest.mark.parametrize("n_times", [100, pytest.param(trials(5_000), marks=pytest.mark.trial)])
# Every kind of file that a generation may have.
KINDS = {
    "vectors.npy",
    "offsets.npy",
    "papers.arrow",
    "ids.npy",
    "words.arrow",
    "index.bin",
    "functions.npy",
    "functions.bin",
    "manifest.json",
    "CURRENT",
    "deleted-000001.npy",
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a collection of two segments with index files, function vectors and deleted papers."""
    folder = tmp_path_factory.mktemp("damage")
    encoder = load_encoder(str(write_tiny_bert(folder / "tiny")), device="cpu")
    functions = FirstColumns(encoder.spec.fingerprint)
    with pytest.MonkeyPatch.context() as patched:
        # As if there were enough function vectors for an index with a file.
        patched.setattr("indexer.snapshot.segment_writer.choose_backend", lambda n_rows: "hnsw")
        for papers in (many_papers(12), many_papers(16)[12:]):
            corpus = write_corpus(folder / "c.jsonl", papers)
            build_quietly(corpus, folder / "data", encoder, functions=functions, backend="hnsw")
    with Catalog.open(folder / "data" / CATALOG_FILE) as catalog:
        delete_papers(folder / "data", ["p3", "p4"], catalog, keep=KEEP)
    return folder / "data"


@pytest.fixture
def data(collection: Path, tmp_path: Path) -> Path:
    """Return a copy of the collection to be damaged, with all files remembered as verified."""
    shutil.copytree(collection, tmp_path / "data")
    time.sleep(RESTED_S)
    open_snapshot(tmp_path / "data")
    return tmp_path / "data"


def in_turn(data: Path, n_times: int) -> Iterator[tuple[Path, bytes]]:
    """Yield the files with their content in turn, ``n_times`` in all, and restore each afterwards."""
    files = [*files_of(data, current_generation(data)), data / "CURRENT"]
    assert {path.name for path in files} >= KINDS
    contents = {path: path.read_bytes() for path in files}
    for number in range(n_times):
        path = files[number % len(files)]
        yield path, contents[path]
        path.write_bytes(contents[path])


def assert_found(data: Path, damaged: Path) -> None:
    """Check that the collection is refused, with all files or only changed files read again."""
    for reread in (True, False):
        # The generation that CURRENT names may not exist then.
        with pytest.raises(SnapshotError if damaged.name == "CURRENT" else SnapshotCorruptError):
            open_snapshot(data, reread=reread)


@TIMES
def test_a_flipped_bit_is_found(data: Path, n_times: int) -> None:
    """One flipped bit anywhere in any file is found."""
    rng = np.random.default_rng([0, SEED])
    for path, content in in_turn(data, n_times):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        assert_found(data, path)
    assert 14 == len(open_snapshot(data))
    print_figure(f"{n_times:,} flipped bits: all found")


@TIMES
def test_a_file_cut_short_is_found(data: Path, n_times: int) -> None:
    """A file truncated at any place, including its start and last byte, is found."""
    rng = np.random.default_rng([1, SEED])
    for number, (path, content) in enumerate(in_turn(data, n_times)):
        end = (0, len(content) - 1, int(rng.integers(len(content))))[min(number // 25, 2)]
        path.write_bytes(content[:end])
        assert_found(data, path)
    assert 14 == len(open_snapshot(data))
    print_figure(f"{n_times:,} files cut short: all found")


def test_missing_exchanged_and_longer_files_are_found(data: Path) -> None:
    """A file that is missing, longer, or has the content of another file is found."""
    files = [*files_of(data, current_generation(data)), data / "CURRENT"]
    for path in files:
        content = path.read_bytes()
        for other in files:
            if other != path and other.read_bytes() != content:
                path.write_bytes(other.read_bytes())
                assert_found(data, path)
        path.write_bytes(content + b"\0")
        assert_found(data, path)
        path.unlink()
        assert_found(data, path)
        path.write_bytes(content)
    assert 14 == len(open_snapshot(data))


def test_a_pointer_to_another_generation_is_found(data: Path) -> None:
    """If CURRENT names an older generation it is refused, and a plain name mends it."""
    served = current_generation(data)
    older = {name for name in DataFolder(data).generations() if name != served}
    pointer = (data / "CURRENT").read_bytes()
    assert older
    for name in older:
        (data / "CURRENT").write_bytes(pointer.replace(served.encode(), name.encode()))
        for read in (open_snapshot, current_generation, served_snapshot):
            with pytest.raises(SnapshotCorruptError, match="CURRENT"):
                read(data)
        with Catalog.open(data / CATALOG_FILE) as catalog, pytest.raises(SnapshotCorruptError):
            rollback(data, catalog=catalog)
    (data / "CURRENT").write_text(f"{served}\n")  # the format of older versions
    assert 14 == len(open_snapshot(data))
