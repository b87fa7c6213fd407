"""Growth: a generation that is another one with papers added, replaced and deleted."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from indexer.collection.merging import kept_parts
from indexer.collection.publishing import clear_away, publish, publish_segment
from indexer.index.vector_index import MOST_EXACT_ROWS
from indexer.snapshot.folder import compare_files, segment_folder
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.segment_writer import SegmentPart
from indexer.snapshot.snapshot import Snapshot
from models.types import ProgressFn, unseen


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
    segments = () if base is None else base.segments
    for segment in segments[n_kept:]:
        # Copied unseen, damage would get a checksum of its own.
        compare_files(segment_folder(data, segment.entry.name), segment.entry.files)
    places, dead = ([], []) if base is None else (base.of_segments(living), base.of_segments(~living))
    taken = [
        part
        for segment, own in zip(segments[n_kept:], places[n_kept:], strict=True)
        for part in kept_parts(segment, own)
    ]
    kept = [
        (segment.entry, gone)
        for segment, own, gone in zip(segments[:n_kept], places[:n_kept], dead[:n_kept], strict=True)
        if len(own)
    ]
    if taken or parts:
        backend = like.arguments["backend"]
        entry = publish_segment(
            data, [*taken, *parts], backend=backend, device=device, on_progress=on_progress
        )
        n_taken = sum(len(own) for own in places[n_kept:])
        kept.append((entry, n_taken + outdated))
    manifest = replace(like, segments=tuple(entry for entry, _ in kept))
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
