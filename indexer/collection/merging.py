"""Merging: several segments become one beside the writer's lock, which is held only to put it in their place.

A query costs a search in every segment. Additions leave segments of many sizes; neighbours of like size are
merged into one of the next, as log-structured stores do, so that their number grows with the logarithm of
what was added. Nothing is encoded anew.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Int64

from indexer.collection.publishing import adopt_segment, clear_away, publish
from indexer.files.durable import discard_folder, storage_errors, writer_lock
from indexer.files.steps import discard_steps
from indexer.snapshot.folder import compare_files, segment_folder
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import KeptPart, write_segment
from indexer.snapshot.snapshot import Snapshot, open_snapshot
from models.types import ProgressFn, unseen

_LOCK_WAIT_S: Final = 600.0  # for whoever publishes
_KEPT_PAPERS: Final = 10_000  # taken over from a segment at once
_NONE: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Tiers:
    """Which segments are merged.

    Sizes from ``fewest ** n`` vectors up to ``fewest ** (n + 1)`` are one tier; as many neighbours of one
    tier are merged, unless the segment would pass ``most_rows``. A segment of which less than ``living``
    is left is written anew.
    """

    fewest: int = 8
    most_rows: int = 5_000_000
    living: float = 0.5

    def due(self, snapshot: Snapshot) -> range | None:
        """The segments to merge next, by their numbers; ``None`` where none are."""
        alive = [
            int(np.diff(segment.vectors.offsets)[own].sum())
            for segment, own in zip(snapshot.segments, snapshot.of_segments(snapshot.living), strict=True)
        ]
        for number, (segment, n_rows) in enumerate(zip(snapshot.segments, alive, strict=True)):
            if n_rows < self.living * segment.entry.n_rows:
                return range(number, number + 1)
        tiers = [math.floor(math.log(max(n_rows, 1), self.fewest)) for n_rows in alive]
        for first in range(len(alive) - self.fewest + 1):
            run = range(first, first + self.fewest)
            if len(set(tiers[first : run.stop])) == 1 and sum(alive[first : run.stop]) <= self.most_rows:
                return run
        return None


TIERS: Final = Tiers()


def merge(
    data: Path,
    base: Snapshot | None = None,
    *,
    tiers: Tiers = TIERS,
    device: str = "cpu",
    keep: int,
    on_progress: ProgressFn = unseen,
) -> Manifest | None:
    """Merge what ``tiers`` say, until nothing is left; the manifest served then, ``None`` if nothing was due.

    ``base`` spares opening the served generation where it is that one. Others may publish meanwhile; papers
    that are deleted while a segment is written are deleted in it. Raises StorageError, SnapshotCorruptError;
    BuildLockedError where another process merges.
    """
    merged = None
    with storage_errors(data):
        (data / "building").mkdir(exist_ok=True)
        with writer_lock(data / "building" / "merge.lock"):
            while True:
                base = open_snapshot(data, beside=base, reread=False)
                run = tiers.due(base)
                done = None if run is None else _merge(data, base, run, device, keep, on_progress)
                if done is None:
                    return merged
                merged = done


def compact(
    data: Path, base: Snapshot, *, device: str, keep: int, on_progress: ProgressFn = unseen
) -> Manifest:
    """Merge all segments of ``base`` into one without what is deleted; those that come meanwhile stay.

    Raises as ``merge``.
    """
    with storage_errors(data):
        (data / "building").mkdir(exist_ok=True)
        with writer_lock(data / "building" / "merge.lock"):
            while True:
                run = range(len(base.segments))
                manifest = _merge(data, base, run, device, keep, on_progress) if run else base.manifest
                if manifest is not None:
                    return manifest
                base = open_snapshot(data, beside=base, reread=False)


def is_compact(snapshot: Snapshot) -> bool:
    """Whether a compaction would change nothing; where words are missing it adds them."""
    return len(snapshot.segments) <= 1 and bool(snapshot.living.all()) and snapshot.words is not None


def kept_parts(segment: Segment, places: Int64[np.ndarray, " n_papers"]) -> list[KeptPart]:
    """The papers of a segment at ``places``, some at a time."""
    bounds = range(_KEPT_PAPERS, len(places), _KEPT_PAPERS)
    return [KeptPart(segment, some) for some in np.split(places, bounds) if len(some)]


def _merge(
    data: Path, base: Snapshot, run: range, device: str, keep: int, on_progress: ProgressFn
) -> Manifest | None:
    """Publish segments of ``base`` as one; ``None``, and nothing changed, where others took their place."""
    chosen = base.segments[run.start : run.stop]
    taken = base.of_segments(base.living)[run.start : run.stop]
    for segment in chosen:
        # Copied unseen, damage would get a checksum of its own.
        compare_files(segment_folder(data, segment.entry.name), segment.entry.files)
    parts = [part for segment, own in zip(chosen, taken, strict=True) for part in kept_parts(segment, own)]
    prepared = data / "building" / "merge"
    backend = base.manifest.arguments["backend"]
    written = (
        write_segment(prepared, parts, backend=backend, device=device, on_progress=on_progress)
        if parts
        else None
    )
    with writer_lock(data / "LOCK", wait_s=_LOCK_WAIT_S):
        now = open_snapshot(data, beside=base, reread=False)
        deleted = _deleted_since(now, chosen, taken)
        if deleted is not None:
            manifest = _swap(data, now, chosen, written, deleted, prepared)
            clear_away(data, keep=keep)
            return manifest
    discard_folder(prepared)
    discard_steps(prepared)
    return None


def _deleted_since(
    now: Snapshot, chosen: Sequence[Segment], taken: Sequence[Int64[np.ndarray, "..."]]
) -> Int64[np.ndarray, " n_deleted"] | None:
    """Which of the papers ``taken`` from the ``chosen`` segments ``now`` has no more, by their new positions.

    ``None`` where the chosen are not all served, one after another, or hold papers that were not taken: those
    of a generation that somebody went back to.
    """
    first = _place(now, chosen)
    if first is None:
        return None
    alive = now.of_segments(now.living)[first : first + len(chosen)]
    if any(len(np.setdiff1d(own, was)) for own, was in zip(alive, taken, strict=True)):
        return None
    stays = [np.isin(was, own) for own, was in zip(alive, taken, strict=True)]
    return np.flatnonzero(~np.concatenate(stays))


def _place(now: Snapshot, chosen: Sequence[Segment]) -> int | None:
    """The number of the first of the ``chosen`` segments where all of them stand, in their order."""
    for first in range(len(now.segments) - len(chosen) + 1):
        own = now.segments[first : first + len(chosen)]
        if all(a.entry.is_same_as(b.entry) for a, b in zip(own, chosen, strict=True)):
            return first
    return None


def _swap(
    data: Path,
    now: Snapshot,
    chosen: Sequence[Segment],
    written: SegmentEntry | None,
    deleted: Int64[np.ndarray, " n_deleted"],
    prepared: Path,
) -> Manifest:
    """Publish ``now`` with the segment in ``prepared`` in place of the ``chosen``."""
    served = [
        (segment.entry, np.setdiff1d(np.arange(len(segment)), own, assume_unique=True))
        for segment, own in zip(now.segments, now.of_segments(now.living), strict=True)
    ]
    first = _place(now, chosen) or 0
    merged = []
    if written is not None and len(deleted) < written.n_papers:
        merged = [(adopt_segment(data, prepared, written), deleted)]
    served[first : first + len(chosen)] = merged
    manifest = replace(
        now.manifest,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        segments=tuple(entry for entry, _ in served),
    )
    published = publish(data, manifest, [positions for _, positions in served])
    discard_folder(prepared)
    discard_steps(prepared)
    return published
