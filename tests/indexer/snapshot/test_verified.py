"""Commands do not read verified files again, unless they changed."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.snapshot import folder
from indexer.snapshot.checksum_record import ChecksumRecord, stamp_of
from indexer.snapshot.folder import verify
from indexer.snapshot.opening import open_snapshot
from models.checksums import sha256_of
from models.encoder import Encoder
from models.errors import SnapshotCorruptError
from service.cache.store import open_cache
from service.collection.generations import open_engine, open_warm_engine
from service.settings import Settings
from tests.support.builds import build_quietly, many_papers, write_corpus

RESTED_S = 2.1  # how long a file must be unchanged before it is noted


@pytest.fixture(scope="module")
def rested(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection that was opened once its files were no longer new."""
    data = tmp_path_factory.mktemp("rested") / "data"
    build_quietly(write_corpus(data.parent / "c.jsonl", many_papers(20)), data, hashing)
    time.sleep(RESTED_S)
    open_snapshot(data)
    return data


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of names of files that are read for comparison."""
    names: list[str] = []

    def reading(path: Path) -> str:
        names.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(folder, "sha256_of", reading)
    return names


def compared(read: list[str]) -> set[str]:
    """Return the names that are files of a segment."""
    return {name for name in read if name.endswith((".npy", ".arrow", ".bin"))}


def test_no_file_is_read_twice(rested: Path, read: list[str]) -> None:
    """Opening a verified collection for commands or a service reads no segment; a full check reads all."""
    settings = Settings(data=rested, device="cpu")
    open_snapshot(rested, reread=False)
    open_engine(settings)
    open_warm_engine(settings, open_cache(settings))
    assert set() == compared(read)
    open_snapshot(rested)
    assert {"vectors.npy", "papers.arrow"} <= compared(read)


def test_deletions_and_a_rollback_read_no_segment(rested: Path, tmp_path: Path, read: list[str]) -> None:
    """Deletions and a rollback read no segment, at most the file that a deletion wrote."""
    data = Path(shutil.copytree(rested, tmp_path / "data"))
    time.sleep(RESTED_S)
    open_snapshot(data)
    read.clear()
    with Catalog.open(data / CATALOG_FILE) as catalog:
        for paper_id in ("p3", "p4"):
            delete_papers(data, [paper_id], catalog, keep=KEEP)
    assert compared(read) <= {"deleted-000001.npy"}
    assert 18 == len(open_snapshot(data))
    read.clear()
    with Catalog.open(data / CATALOG_FILE) as catalog:
        assert 20 == rollback(data, "000001", catalog=catalog).manifest.n_papers
    assert set() == compared(read)


def flip(path: Path) -> None:
    """Flip one bit, and restore the file's times."""
    times, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def cut(path: Path) -> None:
    """Cut off the last byte."""
    os.truncate(path, path.stat().st_size - 1)


def exchange(path: Path) -> None:
    """Replace the file by another."""
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[::-1])
    other.replace(path)


@pytest.mark.parametrize("harm", [flip, cut, exchange, Path.unlink])
def test_what_changed_since_is_read_again(
    rested: Path, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    """A changed file is found to be damaged, even if its size and times are unchanged."""
    data = Path(shutil.copytree(rested, tmp_path / "data"))
    time.sleep(RESTED_S)
    verify(data, "000001")
    harm(data / "segments" / "000001" / "vectors.npy")
    with pytest.raises(SnapshotCorruptError, match=r"vectors\.npy"):
        verify(data, "000001", reread=False)


def test_a_damaged_note_is_worth_nothing(rested: Path, tmp_path: Path, read: list[str]) -> None:
    """With a damaged record of verified files, and in a copied collection, all files are compared."""
    data = Path(shutil.copytree(rested, tmp_path / "data"))
    verify(data, "000001", reread=False)
    assert {"vectors.npy", "papers.arrow"} <= compared(read)
    note = data / "building" / "verified.json"
    note.write_bytes(note.read_bytes()[:-9])
    read.clear()
    verify(data, "000001", reread=False)
    assert {"vectors.npy", "papers.arrow"} <= compared(read)


def test_what_two_processes_have_seen_is_remembered(tmp_path: Path) -> None:
    """Two processes that save the record keep each other's entries."""
    files = [tmp_path / "one", tmp_path / "two"]
    for path in files:
        path.write_bytes(b"same")
    DataFolder(tmp_path).building.mkdir()
    time.sleep(RESTED_S)
    both = [ChecksumRecord(tmp_path), ChecksumRecord(tmp_path)]
    for path, each in zip(files, both, strict=True):
        each.remember(path, "digest", stamp_of(path))
        each.save()
    assert all(ChecksumRecord(tmp_path).holds(path, "digest") for path in files)


def test_what_another_process_has_forgotten_stays_forgotten(tmp_path: Path) -> None:
    """Saving the record does not bring back an entry that another process removed."""
    damaged, other = tmp_path / "damaged", tmp_path / "other"
    for path in (damaged, other):
        path.write_bytes(b"same")
    DataFolder(tmp_path).building.mkdir()
    time.sleep(RESTED_S)
    first = ChecksumRecord(tmp_path)
    first.remember(damaged, "digest", stamp_of(damaged))
    first.save()
    before = ChecksumRecord(tmp_path)
    ChecksumRecord(tmp_path).forget(damaged)
    before.remember(other, "digest", stamp_of(other))
    before.save()
    after = ChecksumRecord(tmp_path)
    assert (False, True) == (after.holds(damaged, "digest"), after.holds(other, "digest"))
