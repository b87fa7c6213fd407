"""The writer's lock is held only to swap generations: nothing is read, encoded or removed meanwhile."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection import changes
from indexer.collection.changes import publish_pending
from indexer.collection.delete import delete_papers
from indexer.collection.growth import Bounds
from indexer.collection.maintenance.upgrade import upgrade
from indexer.collection.merging import Tiers, compact, merge
from indexer.collection.purge import purge_papers
from indexer.collection.reindex import prepare, publish_prepared
from indexer.collection.rollback import rollback
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.files.durable import writer_lock
from indexer.snapshot import folder as snapshot_files
from indexer.snapshot.folder import read_manifest
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import BuildLockedError
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, quiet, write_corpus

Command = Callable[[Path, Catalog], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of two segments with some papers deleted; treat it as read-only."""
    folder = tmp_path_factory.mktemp("made")
    for n in (12, 24):
        build_quietly(write_corpus(folder / f"{n}.jsonl", many_papers(n)), folder / "data", hashing)
    with Catalog.open(folder / "data" / CATALOG_FILE) as catalog:
        delete_papers(folder / "data", ["p1", "p15"], catalog, keep=KEEP)
    return folder / "data"


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the collection without the record of verified files."""
    copy = Path(shutil.copytree(made, tmp_path / "data"))
    DataFolder(copy).verified.unlink(missing_ok=True)
    return copy


@pytest.fixture
def under_lock(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return a list that gets the files and versions read, removed or restored while the lock is held."""
    seen: list[str] = []
    one_at_a_time = threading.Lock()  # files are compared in threads, which would see each other's probes

    def watch(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def watching(path: Path, *given: object, **named: object) -> object:
            try:
                with one_at_a_time, writer_lock(data / "LOCK"):
                    pass
            except BuildLockedError:
                if path != DataFolder(data).next_snapshot:  # small files of a killed process
                    seen.append(f"{name} {path}")
            return original(path, *given, **named)

        monkeypatch.setattr(owner, name, watching)

    watch(snapshot_files, "compare_file")
    watch(shutil, "rmtree")
    watch(Catalog, "restore")
    watch(Catalog, "current_hashes")
    watch(changes, "differing_papers")
    return seen


def replaced(data: Path, catalog: Catalog, n_papers: int = 8) -> None:
    """Put a corpus in place of the collection, four papers in each segment."""
    corpus = write_corpus(data.parent / "new.jsonl", many_papers(n_papers))
    build_quietly(corpus, data, hashing_annotator().encoder, replace=True, bounds=Bounds(part=4, most_rows=1))


def reindexed(data: Path, catalog: Catalog) -> None:
    """Encode all papers again, and publish the result."""
    arguments = BuildArguments(encoder="hashing", backend="exact", device="cpu")
    prepared = prepare(data, hashing_annotator(), catalog, arguments=arguments, on_progress=quiet)
    publish_prepared(data, prepared, hashing_annotator(), catalog, keep=1)


def published_changes(data: Path, catalog: Catalog) -> None:
    """Publish two papers, one of them added to the catalog while the first is encoded."""
    given = list(catalog.versions(catalog.current_hashes(["p3", "p4"]).values()))
    catalog.add([replace(given[0], id="first")])
    last_change = catalog.last_change

    def then_another() -> int:
        catalog.last_change = last_change  # type: ignore[method-assign]
        change = last_change()
        catalog.add([replace(given[1], id="second")])
        return change

    catalog.last_change = then_another  # type: ignore[method-assign]
    publish_pending(data, hashing_annotator(), catalog, on_progress=quiet, keep=1)


COMMANDS: dict[str, Command] = {
    "publish_pending": published_changes,
    "delete": lambda data, catalog: delete_papers(data, ["p2"], catalog, keep=1),
    "rollback": lambda data, catalog: rollback(data, catalog=catalog),
    "merge": lambda data, _: merge(data, tiers=Tiers(fewest=2), keep=1),
    "compact": lambda data, _: compact(data, open_snapshot(data, reread=False), device="cpu", keep=1),
    "purge": lambda data, catalog: purge_papers(data, ["p3", "p16"], catalog),
    "reindex": reindexed,
    "upgrade": lambda data, _: upgrade(data, data / CATALOG_FILE, keep=1),
}
# Without these, no new files would be served: a rollback serves old ones, and there are words already.
WRITING: dict[str, Command] = {
    name: command for name, command in COMMANDS.items() if name not in {"rollback", "upgrade"}
} | {"replace": replaced}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_file_is_read_or_removed_while_others_wait(data: Path, name: str, under_lock: list[str]) -> None:
    """Files are compared and versions restored before the lock is taken, and old files removed after it."""
    before = len(DataFolder(data).generations())
    with Catalog.open(data / CATALOG_FILE) as catalog:
        COMMANDS[name](data, catalog)
    assert [] == under_lock
    assert name in {"rollback", "upgrade"} or len(DataFolder(data).generations()) < before


def test_the_changes_of_hours_are_read_before_the_lock(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A re-index reads and encodes what others added meanwhile before it takes the lock."""
    arguments = BuildArguments(encoder="hashing", backend="exact", device="cpu")
    n_read: list[int] = []

    def changed_since(self: Catalog, change: int) -> dict[str, str | None]:
        changed = read(self, change)
        try:
            with writer_lock(data / "LOCK"):
                pass
        except BuildLockedError:
            n_read.append(len(changed))
        return changed

    with Catalog.open(data / CATALOG_FILE) as catalog:
        prepared = prepare(data, hashing_annotator(), catalog, arguments=arguments, on_progress=quiet)
        given = list(catalog.versions(catalog.current_hashes(["p3"]).values()))
        catalog.add([replace(given[0], id=f"new{number}") for number in range(9)])
        read = Catalog.changed_since
        monkeypatch.setattr(Catalog, "changed_since", changed_since)
        publish_prepared(data, prepared, hashing_annotator(), catalog, keep=1)
    assert [0] == n_read


class Flushes:
    """What was flushed to the device, and when in the order of all flushes and renames."""

    def __init__(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.under_lock = 0
        self.unsafe: list[str] = []
        self.n_swaps = 0
        self._data = data
        self._clock = count()
        self._flushed: dict[int, tuple[int, int, int]] = {}  # by inode: when, size, time of modification
        self._renamed: dict[Path, int] = {}  # by the folder that got the name
        self._before = {path.name for path in DataFolder(data).segments.iterdir()}
        # Files that are linked into a new generation were flushed with an older one.
        self._of_older = {path.stat().st_ino for path in DataFolder(data).snapshots.glob("*/*")}
        fsync, rename, swap = os.fsync, os.rename, os.replace

        def flush(descriptor: int) -> None:
            fsync(descriptor)
            stat = os.fstat(descriptor)
            self._flushed[stat.st_ino] = (next(self._clock), stat.st_size, stat.st_mtime_ns)
            try:
                with writer_lock(data / "LOCK"):
                    pass
            except BuildLockedError:
                self.under_lock += 1

        def move(source: Path, target: Path) -> None:
            rename(source, target)
            self._renamed[Path(target).parent] = next(self._clock)

        def point(source: Path, target: Path) -> None:
            if Path(target) == DataFolder(data).current:
                self.n_swaps += 1
                self._compare(Path(source).read_text(encoding="utf-8").split()[-1])
            swap(source, target)

        monkeypatch.setattr("os.fsync", flush)
        monkeypatch.setattr("os.rename", move)
        monkeypatch.setattr("os.replace", point)

    def _compare(self, generation: str) -> None:
        """Note what a crash of the machine could lose of a generation that is about to be served."""
        folder = DataFolder(self._data)
        names = [entry.name for entry in read_manifest(self._data, generation).segments]
        new = [folder.segment(name) for name in names if name not in self._before]
        for place in [folder.snapshot(generation), *new]:
            if self._flushed_at(place.parent) < self._renamed[place.parent]:
                self.unsafe.append(f"the name of {place}")
            files = [path for path in place.iterdir() if path.stat().st_ino not in self._of_older]
            self.unsafe += [str(path) for path in files if not self._is_flushed(path)]
            if self._flushed_at(place) < 0:
                self.unsafe.append(str(place))

    def _flushed_at(self, folder: Path) -> int:
        return self._flushed.get(folder.stat().st_ino, (-1, 0, 0))[0]

    def _is_flushed(self, path: Path) -> bool:
        stat = path.stat()
        return self._flushed.get(stat.st_ino, ())[1:] == (stat.st_size, stat.st_mtime_ns)


@pytest.mark.parametrize("name", WRITING)
def test_what_is_served_survives_a_crash_of_the_machine(
    data: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before CURRENT names a generation, its new files, their folders and their names are flushed."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        flushes = Flushes(data, monkeypatch)
        WRITING[name](data, catalog)
    assert flushes.n_swaps
    assert [] == flushes.unsafe


def test_many_segments_are_flushed_before_others_wait(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the lock, as much is flushed for twenty segments as for two."""
    flushed = []
    with Catalog.open(data / CATALOG_FILE) as catalog:
        for n_papers in (8, 80):
            with monkeypatch.context() as patched:
                flushes = Flushes(data, patched)
                patched.setattr("indexer.collection.build.merge", lambda *_, **__: None)
                replaced(data, catalog, n_papers)
            assert n_papers // 4 == len(open_snapshot(data).segments)
            flushed.append(flushes.under_lock)
    assert flushed[0] == flushed[1]


def test_a_deletion_writes_no_file_of_other_segments(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the lock, as much is flushed with deleted papers in twenty segments as with some in two."""
    flushed = []
    monkeypatch.setattr("indexer.collection.build.merge", lambda *_, **__: None)
    with Catalog.open(data / CATALOG_FILE) as catalog:
        for n_papers in (8, 80):
            replaced(data, catalog, n_papers)
            delete_papers(data, [f"p{number}" for number in range(0, n_papers, 4)], catalog, keep=KEEP)
            with monkeypatch.context() as patched:
                flushes = Flushes(data, patched)
                manifest = delete_papers(data, ["p1"], catalog, keep=KEEP).manifest
            assert [2, *[1] * (n_papers // 4 - 1)] == [entry.n_deleted for entry in manifest.segments]
            assert [] == flushes.unsafe
            flushed.append(flushes.under_lock)
    assert flushed[0] == flushed[1]
    open_snapshot(data)  # compares every file with its checksum
