"""The status of a collection: papers, segments, pending work, generations and disk use."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from indexer.catalog.catalog import Catalog
from indexer.catalog.database import sqlite_file
from indexer.catalog.quarantine import Quarantine
from indexer.collection.changes import count_pending, expect_own_catalog
from indexer.collection.growth import runs_that_fit
from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from indexer.snapshot.folder import current_generation, read_manifest, read_manifests
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.opening import open_snapshot
from models.errors import SnapshotError

NAMED: Final = 10  # quarantined papers that are listed


@dataclass(frozen=True, slots=True)
class SegmentStatus:
    """One segment of the served generation; ``n_papers`` and ``n_rows`` include its deleted papers."""

    name: str
    n_papers: int
    n_deleted: int
    n_rows: int
    backend: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GenerationStatus:
    """One published generation; ``created`` is UTC; ``problem`` is empty, or why it cannot be read."""

    name: str
    created: str = ""
    n_papers: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes on disk of all segments, of unfinished work, and of the catalog (0 if in PostgreSQL).

    ``verified.json`` lies beside unfinished work, but does not count as such.
    """

    segments: int
    building: int
    catalog: int


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a collection at one moment.

    ``pending`` papers changed in the catalog but not yet in the served generation; ``staged`` papers belong
    to an unfinished `akin index`. A merge (``akin compact``) would leave about ``n_segments_merged``, and
    free about ``reclaimable_bytes``: the share of the deleted papers.
    """

    manifest: Manifest
    segments: tuple[SegmentStatus, ...]
    pending: int
    staged: int
    quarantine: Quarantine
    generations: tuple[GenerationStatus, ...]
    disk: Disk

    @property
    def n_segments_merged(self) -> int:
        """How many segments a merge would leave, if all papers of a segment have the same length."""
        shares = [1 - each.n_deleted / max(each.n_papers, 1) for each in self.segments]
        sizes = [int(each.n_rows * share) for each, share in zip(self.segments, shares, strict=True)]
        return sum(1 for _ in runs_that_fit(sizes, range(len(sizes))))

    @property
    def reclaimable_bytes(self) -> int:
        """About how many bytes of the served segments a merge would free."""
        return sum(each.size_bytes * each.n_deleted // max(each.n_papers, 1) for each in self.segments)


def status_of(data: Path, catalog: Catalog, place: str | Path, *, named: int | None = NAMED) -> Status:
    """Return the status of the collection in ``data``, with its ``catalog`` at ``place`` (a URL or path).

    The first ``named`` quarantined papers are listed, or all with ``None``.

    Reads manifests and sizes; files are compared with their checksums only if the catalog has changes that
    are not published. Raises SnapshotError; StorageError, also if ``catalog`` is of another collection.
    """
    folder = DataFolder(data)
    with storage_errors(data):
        manifest = read_manifest(data, current_generation(data))
        expect_own_catalog(manifest, catalog)
        return Status(
            manifest=manifest,
            segments=tuple(_segment(data, entry) for entry in manifest.segments),
            pending=_count_pending(data, manifest, catalog),
            staged=catalog.count_staged(),
            quarantine=catalog.quarantine(manifest.models_key, limit=named),
            generations=tuple(_generations(data)),
            disk=Disk(
                segments=_size(folder.segments),
                building=max(0, _size(folder.building) - _size(folder.verified)),
                catalog=_catalog_size(place),
            ),
        )


def _segment(data: Path, entry: SegmentEntry) -> SegmentStatus:
    size = entry.size_in(DataFolder(data).segment(entry.name))
    return SegmentStatus(entry.name, entry.n_papers, entry.n_deleted, entry.n_rows, entry.backend, size)


def _count_pending(data: Path, manifest: Manifest, catalog: Catalog) -> int:
    # Changes may have been reverted since: the versions themselves must be compared.
    with closing(catalog.changes_since(manifest.change)) as changes:
        if next(changes, None) is None:
            return 0
    return count_pending(catalog, open_snapshot(data, manifest.generation, reread=False))


def _generations(data: Path) -> Iterator[GenerationStatus]:
    for name, found in read_manifests(data):
        if isinstance(found, SnapshotError):
            yield GenerationStatus(name, problem=str(found))
        else:
            yield GenerationStatus(name, found.created, found.n_papers)


def _catalog_size(place: str | Path) -> int:
    file = sqlite_file(place)
    return 0 if file is None else sum(_size(Path(f"{file}{ending}")) for ending in ("", "-wal", "-shm"))


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 if it is missing or removed meanwhile."""
    try:
        return sum(map(_size, path.iterdir())) if path.is_dir() else path.stat().st_size
    except FileNotFoundError:
        return 0
