"""Functions that merge segments outside the publishing lock, which is held only to swap in the result.

A query searches every segment. Additions leave segments of many sizes; neighbours of similar size are merged
into one of the next tier, as log-structured stores do, so that the number of segments grows with the
logarithm of the additions. Nothing is encoded again.
"""

import math
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Int64

from indexer.collection.growth import MAX_ROWS, NewSegment, move_segments, prepare_segments, runs_that_fit
from indexer.collection.publishing import publish, publishing, served_by
from indexer.files.data_folder import DataFolder, Work
from indexer.files.durable import discard_folder
from indexer.snapshot.folder import compare_files
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment import Segment
from indexer.snapshot.segment_writer import KeptPart
from indexer.snapshot.snapshot import Snapshot
from models.counts import counted
from models.errors import SnapshotCorruptError, StorageError
from models.types import ProgressFn, ignore_progress

_KEPT_PAPERS: Final = 10_000  # copied from a segment at once


@dataclass(frozen=True, slots=True)
class Tiers:
    """The rules by which segments are merged.

    Segments of ``fewest ** n`` up to ``fewest ** (n + 1)`` vectors form a tier. ``fewest`` neighbours of one
    tier are merged, with the smaller ones between them, unless the result would exceed ``most_rows``. Fewer
    neighbours are merged if together they reach the share ``filled`` of ``most_rows``; the result is not
    merged again. A segment is rewritten if less than the share ``live`` of its vectors is not deleted.
    """

    fewest: int = 8
    most_rows: int = MAX_ROWS
    live: float = 0.5
    filled: float = 0.5

    def due(self, snapshot: Snapshot, *, but: Collection[str] = ()) -> range | None:
        """Return the numbers of the segments to merge next, or ``None``; none of the segments ``but``."""
        alive = snapshot.live_rows
        left_out = [-1]  # the numbers of the segments that are not merged, and of one before and after all
        for number, (segment, n_rows) in enumerate(zip(snapshot.segments, alive, strict=True)):
            if segment.entry.name in but:
                left_out.append(number)
            elif n_rows < self.live * segment.entry.n_rows:
                return range(number, number + 1)
        for before, end in pairwise([*left_out, len(alive)]):
            first = before + 1
            if (run := self.run(alive[first:end])) is not None:
                return range(first + run.start, first + run.stop)
        return None

    def run(self, sizes: Sequence[int]) -> range | None:
        """The same as ``due``, but by sizes in vectors, for segments that are not mostly deleted."""
        tiers = [math.floor(math.log(max(n_rows, 1), self.fewest)) for n_rows in sizes]
        first = 0
        while first < len(tiers):
            # Up to the last segment of the largest tier: small ones in between must not keep these apart.
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
        """Return how many of the first segments, none of them full, fill one; ``None`` if they do not."""
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
    on_progress: ProgressFn = ignore_progress,
) -> Manifest | None:
    """Merge segments until none are due by ``tiers``; return the manifest, or ``None`` if none were merged.

    If ``base`` is the served generation, it need not be opened again. Others may publish meanwhile; papers
    that are deleted while a segment is written are also deleted in the new segment. If segments are damaged,
    or the disk has no room for a merged one, the others are merged first. Then the first error is raised:
    SnapshotCorruptError or StorageError. Raises BuildLockedError if another process is merging.
    """
    merged, refused = None, None
    but: set[str] = set()
    with _merge_lock(data):
        while True:
            base = open_snapshot(data, beside=base, reread=False)
            run = tiers.due(base, but=but)
            if run is None:
                break
            try:
                _expect_mergeable(data, base, run)
            except (SnapshotCorruptError, StorageError) as error:
                refused = refused or error
                but.update(segment.entry.name for segment in base.segments[run.start : run.stop])
                continue
            done = _merge(data, base, run, device, keep, on_progress, tiers.most_rows)
            if done is None:
                break
            merged = done
    if refused is not None:
        raise refused
    return merged


def _expect_mergeable(data: Path, base: Snapshot, run: range) -> None:
    """Raise SnapshotCorruptError or StorageError if a run of segments is damaged, or too large for the disk.

    Damage that is copied unnoticed would get a valid checksum. A merge that fills the disk fails too, and
    until then no other process can write; what a killed merge has written is removed if that is needed.
    """
    for segment in base.segments[run.start : run.stop]:
        compare_files(DataFolder(data).segment(segment.entry.name), segment.entry.files)
    needed = 0.0
    for segment, n_rows in list(zip(base.segments, base.live_rows, strict=True))[run.start : run.stop]:
        files = DataFolder(data).segment(segment.entry.name).iterdir()
        needed += sum(file.stat().st_size for file in files) * n_rows / max(1, segment.entry.n_rows)
    if shutil.disk_usage(data).free < needed:
        discard_folder(DataFolder(data).work(Work.MERGE))
    if shutil.disk_usage(data).free < needed:
        raise StorageError(
            f"{data}: merging {counted(len(run), 'segment')} takes {needed / 1e6:,.1f} MB, more than the "
            "disk has free; free some space"
        )


def compact(
    data: Path,
    base: Snapshot,
    *,
    names: Collection[str] | None = None,
    most_rows: int = MAX_ROWS,
    device: str,
    keep: int,
    wait_s: float = 0.0,
    on_progress: ProgressFn = ignore_progress,
) -> Manifest:
    """Merge all segments of ``base``, or those in ``names``, into as few as possible, without deleted papers.

    Segments added meanwhile are not merged. If there is nothing to merge, ``base`` stays served, but the
    files of a killed merge are removed. Raises as ``merge``, if another process still merges after ``wait_s``
    seconds.
    """
    wanted = frozenset(segment.entry.name for segment in base.segments) if names is None else frozenset(names)
    with _merge_lock(data, wait_s):
        while run := next(_mergeable_runs(base, wanted, most_rows), None):
            _expect_mergeable(data, base, run)
            _merge(data, base, run, device, keep, on_progress, most_rows)
            base = open_snapshot(data, beside=base, reread=False)
    return base.manifest


def _mergeable_runs(snapshot: Snapshot, names: Collection[str], most_rows: int) -> Iterator[range]:
    """Yield runs of neighbours that fit into one segment and gain from a merge.

    A merge reduces their number, splits a too large segment, drops deleted papers, or adds current words.
    """
    alive = snapshot.live_rows
    numbers = [i for i, segment in enumerate(snapshot.segments) if segment.entry.name in names]
    for run in runs_that_fit(alive, numbers, most_rows):
        segment = snapshot.segments[run.start]
        is_too_large = sum(alive[run.start : run.stop]) > most_rows and len(segment) > _KEPT_PAPERS
        has_deleted = len(snapshot.deleted[run.start]) > 0
        if len(run) > 1 or is_too_large or has_deleted or not segment.has_current_words:
            yield run


@contextmanager
def _merge_lock(data: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock on merging, and remove its folder at the end.

    Raises StorageError; BuildLockedError if another process is still merging after ``wait_s`` seconds.
    """
    with DataFolder(data).working(Work.MERGE, wait_s=wait_s):
        yield
        discard_folder(DataFolder(data).work(Work.MERGE))  # also the files of a merge that was killed


def kept_parts(segment: Segment, places: Int64[np.ndarray, " n_papers"]) -> list[KeptPart]:
    """Return the papers of a segment at ``places``, in parts of at most ``_KEPT_PAPERS``."""
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
    """Publish a run of segments of ``base`` merged; return ``None``, unchanged, if others replaced them."""
    chosen = base.segments[run.start : run.stop]
    taken = [base.kept(number) for number in run]
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
        deleted = None if first is None else _deleted_since(base, run, taken, now=now, first=first)
        if first is not None and deleted is not None:
            served = served_by(now)
            served[first : first + len(chosen)] = move_segments(data, _without(written, deleted))
            published = publish(data, now.manifest, served, now=now, keep=keep)
    return published


def _without(written: Sequence[NewSegment], deleted: Int64[np.ndarray, " n_deleted"]) -> list[NewSegment]:
    """Return the segments with the ``deleted`` papers hidden, given by positions over all segments."""
    ends = np.cumsum([each.entry.n_papers for each in written])
    runs = np.split(deleted, np.searchsorted(deleted, ends))
    starts = [0, *ends.tolist()]
    return [replace(each, gone=run - start) for each, run, start in zip(written, runs, starts, strict=False)]


def _place(now: Snapshot, chosen: Sequence[Segment]) -> int | None:
    """Return the number of the first ``chosen`` segment if all are served in sequence, else ``None``."""
    for first in range(len(now.segments) - len(chosen) + 1):
        own = now.segments[first : first + len(chosen)]
        if all(a.entry.is_same_as(b.entry) for a, b in zip(own, chosen, strict=True)):
            return first
    return None


def _deleted_since(
    base: Snapshot, run: range, taken: Sequence[Int64[np.ndarray, "..."]], *, now: Snapshot, first: int
) -> Int64[np.ndarray, " n_deleted"] | None:
    """Return which of the papers ``taken`` from a run of segments of ``base`` are deleted, by new positions.

    The segments are those from ``first`` onwards in ``now``. ``None`` if they now show papers that were not
    taken, as after a rollback.
    """
    start, gone = 0, []
    before, after = base.deleted[run.start : run.stop], now.deleted[first : first + len(run)]
    for was, own, kept in zip(before, after, taken, strict=True):
        if len(np.setdiff1d(was, own)):
            return None
        gone.append(start + np.searchsorted(kept, np.setdiff1d(own, was)))
        start += len(kept)
    return np.concatenate(gone)
