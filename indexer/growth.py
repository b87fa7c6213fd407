"""Growth: a generation that is another one with papers added, replaced and deleted."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int64

from indexer.generations import compare_files, segment_folder
from indexer.index import MOST_EXACT_ROWS
from indexer.manifest import Manifest
from indexer.publishing import clear_away, publish, publish_segment
from indexer.segment import Segment
from indexer.segment_writer import KeptPart, SegmentPart
from indexer.snapshot import Snapshot
from models.types import ProgressFn, unseen

# Papers taken over from an older segment at once.
_KEPT_PAPERS = 10_000
_NONE = np.empty(0, dtype=np.int64)


def grow(
    data: Path,
    base: Snapshot | None,
    parts: Sequence[SegmentPart],
    *,
    deleted: Collection[str] = (),
    like: Manifest,
    device: str,
    keep: int,
    on_progress: ProgressFn = unseen,
) -> Manifest:
    """Publish ``base`` with the papers of ``parts``, in place of any with their ids, without ``deleted``.

    Papers of ``parts`` may be among the deleted: they were while they were encoded. ``like`` says what the
    new generation is made with, and what it holds of the catalog. Older segments stay as they are, but for
    small ones at the end: they go into the new segment, so that however often papers are added the segments
    stay few. Of older generations the newest ``keep`` remain, and those in use.
    """
    parts = [part for part in parts if part.n_rows]  # of some no paper could be encoded
    ids = list(chain.from_iterable(part.table()["id"].to_pylist() for part in parts))
    gone = frozenset(deleted)
    outdated = np.flatnonzero(np.array([paper_id in gone for paper_id in ids], dtype=bool))
    if len(outdated) == len(ids):
        ids, parts, outdated = [], (), outdated[:0]
    living = np.empty(0, dtype=bool) if base is None else base.living.copy()
    if base is not None:
        living[base.find_all([*ids, *deleted])] = False
    n_kept = 0 if base is None else _segments_kept(base, living, n_new=len(ids))
    return _publish(
        data,
        base,
        living,
        parts,
        outdated=outdated,
        n_kept=n_kept,
        like=like,
        device=device,
        keep=keep,
        on_progress=on_progress,
    )


def compact(
    data: Path, base: Snapshot, *, device: str, keep: int, on_progress: ProgressFn = unseen
) -> Manifest:
    """Publish ``base`` as one segment without what is deleted; nothing is encoded anew."""
    return _publish(
        data,
        base,
        base.living,
        (),
        outdated=_NONE,
        n_kept=0,
        like=base.manifest,
        device=device,
        keep=keep,
        on_progress=on_progress,
    )


def kept_parts(segment: Segment, places: Int64[np.ndarray, " n_papers"]) -> list[KeptPart]:
    """The papers of a segment at ``places``, some at a time."""
    bounds = range(_KEPT_PAPERS, len(places), _KEPT_PAPERS)
    return [KeptPart(segment, some) for some in np.split(places, bounds) if len(some)]


def is_compact(snapshot: Snapshot) -> bool:
    """Whether a compaction would change nothing; where words are missing it adds them."""
    return len(snapshot.segments) <= 1 and bool(snapshot.living.all()) and snapshot.words is not None


def _publish(
    data: Path,
    base: Snapshot | None,
    living: Bool[np.ndarray, " n_positions"],
    parts: Sequence[SegmentPart],
    *,
    outdated: Int64[np.ndarray, " n_outdated"],
    n_kept: int,
    like: Manifest,
    device: str,
    keep: int,
    on_progress: ProgressFn,
) -> Manifest:
    """The first ``n_kept`` segments of ``base``, then one of what lives in the others and of ``parts``.

    ``outdated`` are the positions among the papers of ``parts`` of those that are deleted. Raises
    SnapshotCorruptError.
    """
    segments = () if base is None else base.segments
    for segment in segments[n_kept:]:
        # Copied unseen, damage would get a checksum of its own.
        compare_files(segment_folder(data, segment.entry.name), segment.entry.files)
    places = [] if base is None else base.of_segments(living)
    taken = [
        part
        for segment, own in zip(segments[n_kept:], places[n_kept:], strict=True)
        for part in kept_parts(segment, own)
    ]
    kept = [
        (segment.entry, np.setdiff1d(np.arange(len(segment)), own, assume_unique=True))
        for segment, own in zip(segments[:n_kept], places[:n_kept], strict=True)
        if len(own)
    ]
    if taken or parts:
        backend = like.arguments["backend"]
        entry = publish_segment(
            data, [*taken, *parts], backend=backend, device=device, on_progress=on_progress
        )
        n_taken = sum(len(own) for own in places[n_kept:])
        kept.append((entry, n_taken + outdated))
    manifest = replace(
        like,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        segments=tuple(entry for entry, _ in kept),
    )
    published = publish(data, manifest, [positions for _, positions in kept])
    clear_away(data, keep=keep)
    return published


def _segments_kept(base: Snapshot, living: Bool[np.ndarray, " n_positions"], *, n_new: int) -> int:
    """How many segments stay as they are, the first ones.

    The last is taken over as long as it is not larger than what comes after it: so n papers added one by one
    are copied log n times and stand in log n segments. Where an index would have to be trained it stays.
    """
    if not n_new:
        return len(base.segments)
    n_kept, n_papers, n_rows = len(base.segments), n_new, 0
    for segment, own in zip(reversed(base.segments), reversed(base.of_segments(living)), strict=True):
        n_rows += segment.entry.n_rows
        if len(own) > n_papers or n_rows > MOST_EXACT_ROWS:
            break
        n_papers += len(own)
        n_kept -= 1
    return n_kept
