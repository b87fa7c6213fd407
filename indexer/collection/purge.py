"""Purging: removing all text of papers from a data folder and its catalog.

A deletion removes papers from every answer; their text stays in the versions of the catalog, in segments and
in older generations until those are superseded. A purge, for takedowns, leaves none of it. If it is stopped,
the same call again continues: it looks for the papers wherever they may be, deleted or not.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from jaxtyping import UInt64

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.merging import compact
from indexer.collection.publishing import publishing
from indexer.corpus.lookup.found import forget
from indexer.encoding.parts import refused_in
from indexer.files.arrays import load_array
from indexer.files.data_folder import LOCK_WAIT_S, DataFolder, Work
from indexer.files.durable import discard_folder, storage_errors
from indexer.files.finished_folders import NOTE
from indexer.files.progress_notes import read_note
from indexer.snapshot.folder import read_manifests
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.removal import remove_generations
from indexer.snapshot.segment import IDS, PAPERS
from indexer.words.file import WORDS
from models.checksums import hashes64
from models.errors import SnapshotError, StorageError
from models.types import ProgressFn, ignore_progress

# Other work that may hold text, and how many seconds to wait until it has ended.
_BLOCKING_WORK: Final = {
    Work.CORPUS: 0.0,
    Work.REINDEX: 0.0,
    Work.CHANGES: LOCK_WAIT_S,
}


_ALL: Final = 2**31  # generations to keep: a purge removes none, except those that contain a paper


@dataclass(frozen=True, slots=True)
class Purge:
    """The result of a purge; ``manifest`` is the manifest served afterwards, whether ``is_new`` or not.

    ``n_versions``, ``n_batches`` and ``n_queries`` (saved queries) were removed from the catalog. ``removed``
    generations contained a version. ``leased`` generations contain one too but stay, because a process is
    reading them: the purge must be repeated. Papers with ``unknown`` ids were never in the collection.
    """

    manifest: Manifest
    n_versions: int
    n_batches: int
    n_queries: int
    removed: tuple[str, ...]
    leased: tuple[str, ...]
    unknown: tuple[str, ...]
    is_new: bool

    @property
    def found_nothing(self) -> bool:
        """Whether there was nothing to purge."""
        return not (self.n_versions or self.n_batches or self.removed or self.leased or self.is_new)


def purge_papers(
    data: Path,
    paper_ids: Sequence[str],
    catalog: Catalog,
    *,
    device: str = "cpu",
    on_progress: ProgressFn = ignore_progress,
) -> Purge:
    """Delete papers and remove everything stored of them: versions, segments, generations, unfinished work.

    Every batch is removed too, with its queries and results, and every saved query that contains a title or a
    sentence of them. Only segments that contain one of the papers are rewritten. Unknown ids are ignored.

    Raises StorageError, SnapshotError; BuildLockedError if another process is indexing or re-indexing, or
    publishes changes or merges for too long.
    """
    wanted = list(dict.fromkeys(paper_ids))
    folder = DataFolder(data)
    with storage_errors(data), ExitStack() as locks:
        for work, wait_s in _BLOCKING_WORK.items():
            locks.enter_context(folder.working(work, wait_s=wait_s))
        before = folder.generations()
        deleted = delete_papers(data, wanted, catalog, keep=_ALL)
        holds = cache(
            partial(_segment_holds, hashes=hashes64(wanted))
        )  # each segment is read only once, and not under the lock
        while True:
            base = open_snapshot(data, reread=False)
            if shown := [key for key in wanted if base.find(key) is not None]:  # added again meanwhile
                delete_papers(data, shown, catalog, keep=_ALL)
                continue
            names = [each.entry.name for each in base.segments if len(each.positions(wanted))]
            if names:
                compact(
                    data,
                    base,
                    names=names,
                    device=device,
                    keep=_ALL,
                    wait_s=LOCK_WAIT_S,
                    on_progress=on_progress,
                )
                continue
            with suppress(StorageError):  # a generation may be removed meanwhile
                _generations_holding(data, holds, but=base.generation)
            with publishing(data, base) as served:
                if served is not base:
                    continue
                holding = _generations_holding(data, holds, but=base.generation)
                removed = remove_generations(data, holding)
                break
        with folder.working(Work.MERGE, wait_s=LOCK_WAIT_S):
            _drop_unfinished(folder, frozenset(wanted))
            discard_folder(folder.work(Work.MERGE))  # left by a purge that was killed after its merge
        forget(folder.lookups, [*wanted, *catalog.names(wanted)])
        purged = catalog.purge(wanted)
        folder.remove_discarded()  # raises if a file cannot be removed
    leased = tuple(name for name in holding if name not in removed)
    counts = (purged.n_versions, purged.n_batches, purged.n_queries)
    unknown = tuple(key for key in deleted.unknown if key not in purged.known)
    is_new = base.generation not in before
    removed = [name for name in removed if name in before]
    return Purge(base.manifest, *counts, tuple(removed), leased, unknown, is_new)


def _generations_holding(data: Path, holds: Callable[[Path], bool], *, but: str) -> list[str]:
    """Return the generations except ``but`` with a segment that contains one of the papers, or may do so."""
    return [
        name
        for name, found in read_manifests(data)
        if name != but
        and (
            isinstance(found, SnapshotError)
            or any(holds(DataFolder(data).segment(entry.name)) for entry in found.segments)
        )
    ]


def _segment_holds(folder: Path, hashes: UInt64[np.ndarray, " n_papers"]) -> bool:
    """Return whether a segment contains a paper with one of these hashes, or cannot be read.

    The hashes may be out of order, because the file may be damaged.
    """
    try:
        own = load_array(folder / IDS, mmap_mode="r")["hash"]
    except (OSError, ValueError, IndexError):
        return True
    return bool(np.isin(own, hashes).any())


def _drop_unfinished(folder: DataFolder, wanted: frozenset[str]) -> None:
    """Remove unfinished work that contains one of the papers, or says why one could not be encoded."""
    for child in [path for path in folder.building.iterdir() if path.is_dir()]:
        if child.name.endswith(".discarded"):
            shutil.rmtree(child)
        for papers in [path for path in child.rglob("*.arrow") if _file_holds(path, wanted)]:
            discard_folder(papers.parent)
        for note in [path for path in child.rglob(NOTE) if _note_names(path, wanted)]:
            discard_folder(note.parent)
    if not wanted.isdisjoint(each["paper_id"] for each in _quarantined(folder.prepared_segments)):
        folder.prepared_segments.unlink()


def _note_names(note: Path, wanted: frozenset[str]) -> bool:
    """Return whether the note of a part names one of these papers as refused, or is damaged."""
    content = read_note(note)
    return not content or not wanted.isdisjoint(paper.paper_id for paper in refused_in(content))


def _quarantined(note: Path) -> list[dict[str, str]]:
    """Return the papers that could not be encoded, of the note of a re-index; none if it is missing."""
    quarantined: list[dict[str, str]] = read_note(note).get("quarantined", [])
    return quarantined


def _file_holds(papers: Path, wanted: frozenset[str]) -> bool:
    """Return whether a file of papers contains one of these ids, or cannot be read.

    The words of a segment name no papers: those are in a file next to them.
    """
    if papers.name == WORDS and papers.with_name(PAPERS).is_file():
        return False
    try:
        with pa.memory_map(str(papers)) as source:
            return not wanted.isdisjoint(pa.ipc.open_file(source).read_all()["id"].to_pylist())
    except (pa.ArrowInvalid, OSError, KeyError):
        return True
