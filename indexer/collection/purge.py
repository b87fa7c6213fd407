"""Purging: the text of papers leaves everything that a data folder and its catalog hold of them.

A deletion takes papers out of every answer; their text stays in the versions of the catalog, in segments and
in older generations until those are superseded. A purge, for takedowns, leaves none of it. Whatever stops it,
the same call again goes on: it looks for the papers wherever they may be, deleted or not.
"""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import expect_own_catalog
from indexer.collection.growth import adopted, prepare_segments
from indexer.collection.merging import kept_parts
from indexer.collection.publishing import publish, remove_generations
from indexer.files.data_folder import LOCK_WAIT_S, DataFolder, Work
from indexer.files.durable import discard_folder, storage_errors
from indexer.snapshot.folder import compare_files, read_manifest
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment import IDS
from indexer.snapshot.snapshot import Snapshot
from models.checksums import hash64
from models.errors import SnapshotCorruptError
from models.types import ProgressFn, unseen

# Whoever else may hold text, and how many seconds to wait until it has ended.
_OTHERS_AT_WORK: Final = {
    Work.CORPUS: 0.0,
    Work.REINDEX: 0.0,
    Work.MERGE: LOCK_WAIT_S,
    Work.CHANGES: LOCK_WAIT_S,
}


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge did; ``manifest`` is that of the generation served from then on.

    ``n_versions``, ``n_batches`` and ``n_queries``, saved ones, were removed from the catalog, ``removed``
    are the generations that held a version. The ``leased`` hold one too and stay, because a process reads
    them: the purge must be repeated.
    """

    manifest: Manifest
    n_versions: int
    n_batches: int
    n_queries: int
    removed: tuple[str, ...]
    leased: tuple[str, ...]


def purge_papers(
    data: Path,
    paper_ids: Sequence[str],
    catalog: Catalog,
    *,
    device: str = "cpu",
    on_progress: ProgressFn = unseen,
) -> Purge:
    """Delete papers and remove all that is kept of them: versions, segments, generations, unfinished work.

    Every batch is removed with them, its queries and results too, and every saved query that holds a title
    or sentence of theirs. Only the segments that hold one are written anew. Ids that nobody knows are passed
    over.

    Raises StorageError, SnapshotError; BuildLockedError where another process indexes or re-indexes.
    """
    wanted = list(dict.fromkeys(paper_ids))
    with storage_errors(data), ExitStack() as locks:
        for work, wait_s in _OTHERS_AT_WORK.items():
            locks.enter_context(DataFolder(data).working(work, wait_s=wait_s))
        locks.enter_context(DataFolder(data).publishing())
        base = open_snapshot(data)
        expect_own_catalog(base.manifest, catalog)
        manifest = _without(data, base, wanted, catalog, device, on_progress)
        del base  # or its generation would count as one that is read
        _drop_unfinished(DataFolder(data).building, frozenset(wanted))
        others = [name for name in DataFolder(data).generations() if name != manifest.generation]
        holding = [name for name in others if _generation_holds(data, name, wanted)]
        removed = remove_generations(data, holding)
        purged = catalog.purge(wanted)
    leased = tuple(name for name in holding if name not in removed)
    counts = (purged.n_versions, purged.n_batches, purged.n_queries)
    return Purge(manifest, *counts, tuple(removed), leased)


def _without(
    data: Path,
    base: Snapshot,
    wanted: Sequence[str],
    catalog: Catalog,
    device: str,
    on_progress: ProgressFn,
) -> Manifest:
    """A generation whose segments hold none of the papers; ``base`` itself where that is so already."""
    known = {*catalog.holding(wanted), *(key for key in wanted if base.find(key) is not None)}
    change = catalog.delete(known)
    holding = [len(segment.positions(wanted)) > 0 for segment in base.segments]
    if not any(holding):
        return base.manifest
    living = base.living.copy()
    living[base.find_all(wanted)] = False
    served: list[tuple[SegmentEntry, np.ndarray]] = []
    places = zip(base.of_segments(living), base.of_segments(~living), strict=True)
    for segment, (own, gone), holds in zip(base.segments, places, holding, strict=True):
        entry = segment.entry
        if holds and len(own):
            # Copied unseen, damage would get a checksum of its own.
            compare_files(DataFolder(data).segment(entry.name), entry.files)
            written = prepare_segments(
                DataFolder(data).building / "purge",
                kept_parts(segment, own),
                like=base.manifest,
                device=device,
                on_progress=on_progress,
            )
            served += adopted(data, written)
        elif len(own):
            served.append((entry, gone))
    manifest = replace(
        base.manifest,
        segments=tuple(entry for entry, _ in served),
        change=change.number if change.previous == base.manifest.change else base.manifest.change,
        catalog=catalog.identity(),
    )
    discard_folder(DataFolder(data).building / "purge")
    return publish(data, manifest, [gone for _, gone in served])


def _generation_holds(data: Path, generation: str, wanted: Sequence[str]) -> bool:
    """Whether a segment of a generation holds one of the papers, or it cannot be known."""
    try:
        entries = read_manifest(data, generation).segments
    except SnapshotCorruptError:
        return True
    hashes = np.array([hash64(paper_id) for paper_id in wanted], dtype=np.uint64)
    return any(_segment_holds(DataFolder(data).segment(entry.name), hashes) for entry in entries)


def _segment_holds(folder: Path, hashes: np.ndarray) -> bool:
    try:
        own = np.load(folder / IDS, mmap_mode="r")["hash"]
    except (OSError, ValueError, IndexError):
        return True
    return bool(np.isin(hashes, own).any())


def _drop_unfinished(building: Path, wanted: frozenset[str]) -> None:
    """Remove what is unfinished and holds one of the papers: encoded parts, and segments."""
    for child in [path for path in building.iterdir() if path.is_dir()]:
        if child.name.endswith(".discarded"):
            shutil.rmtree(child)
        for papers in [path for path in child.rglob("*.arrow") if _file_holds(path, wanted)]:
            discard_folder(papers.parent)


def _file_holds(papers: Path, wanted: frozenset[str]) -> bool:
    """Whether a file of papers holds one of them, or cannot be read."""
    try:
        with pa.memory_map(str(papers)) as source:
            return not wanted.isdisjoint(pa.ipc.open_file(source).read_all()["id"].to_pylist())
    except (pa.ArrowInvalid, OSError, KeyError):
        return True
