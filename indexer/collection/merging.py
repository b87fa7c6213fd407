"""Merges segments outside the writer's lock, which is held only to swap in the result.

A query costs a search in every segment. Additions leave segments of many sizes; neighbours of like size are
merged into one of the next, as log-structured stores do, so that their number grows with the logarithm of
what was added. Nothing is encoded anew.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Int64

from indexer.collection.growth import MOST_ROWS, NewSegment, adopted, prepare_segments, runs_that_fit
from indexer.collection.publishing import publish, publishing, served_by
from indexer.files.data_folder import DataFolder, Work
from indexer.files.durable import discard_folder
from indexer.snapshot.folder import compare_files
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import KeptPart
from indexer.snapshot.snapshot import Snapshot
from models.types import ProgressFn, unseen

_KEPT_PAPERS: Final = 10_000  # taken over from a segment at once


@dataclass(frozen=True, slots=True)
class Tiers:
    """Which segments are merged.

    Sizes from ``fewest ** n`` vectors up to ``fewest ** (n + 1)`` are one tier; as many neighbours of one
    tier are merged, with the smaller ones between them, unless the segment would pass ``most_rows``; so are
    fewer that come to ``filled`` of that, which then rest. A segment of which less than ``living`` is left is
    written anew.
    """

    fewest: int = 8
    most_rows: int = MOST_ROWS
    living: float = 0.5
    filled: float = 0.5

    def due(self, snapshot: Snapshot) -> range | None:
        """The segments to merge next, by their numbers; ``None`` where none are."""
        alive = snapshot.living_rows
        for number, (segment, n_rows) in enumerate(zip(snapshot.segments, alive, strict=True)):
            if n_rows < self.living * segment.entry.n_rows:
                return range(number, number + 1)
        return self.run(alive)

    def run(self, sizes: Sequence[int]) -> range | None:
        """The same by the sizes of the segments in vectors, none of them mostly deleted."""
        tiers = [math.floor(math.log(max(n_rows, 1), self.fewest)) for n_rows in sizes]
        first = 0
        while first < len(tiers):
            # Up to the last of the largest: small ones that came between would keep these apart for good.
            largest = max(tiers[first:])
            end = len(tiers) - tiers[::-1].index(largest)
            for start in range(first, end):
                stop = start + self.fewest
                if stop <= end and sum(sizes[start:stop]) <= self.most_rows:
                    return range(start, stop)
                if (full := self._full(sizes[start:end])) is not None:
                    return range(start, start + full)
            first = end
        return None

    def _full(self, sizes: Sequence[int]) -> int | None:
        """How many of the first segments make a full one, none of them being one; ``None`` where none do."""
        full = self.filled * self.most_rows
        for number, n_rows in enumerate(accumulate(sizes)):
            if n_rows > self.most_rows or sizes[number] >= full:
                return None
            if n_rows >= full:
                return number + 1
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
    with _alone(data):
        while True:
            base = open_snapshot(data, beside=base, reread=False)
            run = tiers.due(base)
            done = (
                None if run is None else _merge(data, base, run, device, keep, on_progress, tiers.most_rows)
            )
            if done is None:
                return merged
            merged = done


def compact(
    data: Path,
    base: Snapshot,
    *,
    names: Collection[str] | None = None,
    most_rows: int = MOST_ROWS,
    device: str,
    keep: int,
    wait_s: float = 0.0,
    on_progress: ProgressFn = unseen,
) -> Manifest:
    """Merge all segments of ``base``, or those with these names, into few without what is deleted.

    Those that come meanwhile stay. Where nothing is to be merged, ``base`` stays; what a killed merge left
    goes all the same. Raises as ``merge``, where another process still merges after ``wait_s`` seconds.
    """
    wanted = frozenset(segment.entry.name for segment in base.segments) if names is None else frozenset(names)
    with _alone(data, wait_s):
        while run := next(_loose(base, wanted, most_rows), None):
            _merge(data, base, run, device, keep, on_progress, most_rows)
            base = open_snapshot(data, beside=base, reread=False)
    return base.manifest


def _loose(snapshot: Snapshot, names: Collection[str], most_rows: int) -> Iterator[range]:
    """Neighbours, as many as fit into one segment, that merged would be fewer or smaller, or get words."""
    alive, kept = snapshot.living_rows, snapshot.of_segments(snapshot.living)
    numbers = [i for i, segment in enumerate(snapshot.segments) if segment.entry.name in names]
    for run in runs_that_fit(alive, numbers, most_rows):
        segment = snapshot.segments[run.start]
        is_too_large = sum(alive[run.start : run.stop]) > most_rows and len(segment) > _KEPT_PAPERS
        has_deleted = len(kept[run.start]) < len(segment)
        if len(run) > 1 or is_too_large or has_deleted or not segment.has_words_of_today:
            yield run


@contextmanager
def _alone(data: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Keeps others from merging, and tidies up; raises BuildLockedError where others merge, StorageError."""
    with DataFolder(data).working(Work.MERGE, wait_s=wait_s):
        yield
        discard_folder(DataFolder(data).work(Work.MERGE))  # also what was left by a merge that was killed


def kept_parts(segment: Segment, places: Int64[np.ndarray, " n_papers"]) -> list[KeptPart]:
    """The papers of a segment at ``places``, some at a time."""
    bounds = range(_KEPT_PAPERS, len(places), _KEPT_PAPERS)
    return [KeptPart(segment.itself, some) for some in np.split(places, bounds) if len(some)]


def _merge(
    data: Path,
    base: Snapshot,
    run: range,
    device: str,
    keep: int,
    on_progress: ProgressFn,
    most_rows: int,
) -> Manifest | None:
    """Publish segments of ``base`` as one; ``None``, and nothing changed, where others took their place."""
    chosen = base.segments[run.start : run.stop]
    taken = base.of_segments(base.living)[run.start : run.stop]
    for segment in chosen:
        # Copied unseen, damage would get a checksum of its own.
        compare_files(DataFolder(data).segment(segment.entry.name), segment.entry.files)
    parts = [part for segment, own in zip(chosen, taken, strict=True) for part in kept_parts(segment, own)]
    written = prepare_segments(
        DataFolder(data).work(Work.MERGE),
        parts,
        like=base.manifest,
        device=device,
        most_rows=most_rows,
        on_progress=on_progress,
    )
    published = None
    with publishing(data, base) as now:
        first = _place(now, chosen)
        deleted = None if first is None else _deleted_since(now, first, taken)
        if first is not None and deleted is not None:
            served = served_by(now)
            served[first : first + len(chosen)] = adopted(data, _without(written, deleted))
            published = publish(data, now.manifest, served, keep=keep)
    return published


def _without(written: Sequence[NewSegment], deleted: Int64[np.ndarray, " n_deleted"]) -> list[NewSegment]:
    """The segments without the ``deleted`` papers, which are given by their places in all of them."""
    ends = np.cumsum([each.entry.n_papers for each in written])
    runs = np.split(deleted, np.searchsorted(deleted, ends))
    starts = [0, *ends.tolist()]
    return [replace(each, gone=run - start) for each, run, start in zip(written, runs, starts, strict=False)]


def _place(now: Snapshot, chosen: Sequence[Segment]) -> int | None:
    """The number of the first of the ``chosen`` segments where all are served, one after another."""
    for first in range(len(now.segments) - len(chosen) + 1):
        own = now.segments[first : first + len(chosen)]
        if all(a.entry.is_same_as(b.entry) for a, b in zip(own, chosen, strict=True)):
            return first
    return None


def _deleted_since(
    now: Snapshot, first: int, taken: Sequence[Int64[np.ndarray, "..."]]
) -> Int64[np.ndarray, " n_deleted"] | None:
    """Which of the papers ``taken`` from the segments from ``first`` on are gone, by their new positions.

    ``None`` where these hold papers that were not taken: those of a generation that somebody went back to.
    """
    alive = now.of_segments(now.living)[first : first + len(taken)]
    if any(len(np.setdiff1d(own, was)) for own, was in zip(alive, taken, strict=True)):
        return None
    stays = [np.isin(was, own) for own, was in zip(alive, taken, strict=True)]
    return np.flatnonzero(~np.concatenate(stays))
