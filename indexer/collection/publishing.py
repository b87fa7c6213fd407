"""Functions that publish generations and segments in the data folder.

Callers must hold the publishing lock; ``publishing`` takes it.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Int64

from indexer.files.data_folder import DataFolder, deleted_file, name_of, next_name
from indexer.files.durable import linked, publish_folder, sync, write_array
from indexer.files.finished_folders import NOTE
from indexer.snapshot.folder import current_generation, pointed_generation, read_manifest, write_pointer
from indexer.snapshot.manifest import Manifest, SegmentEntry
from indexer.snapshot.opening import served_snapshot
from indexer.snapshot.removal import remove_old_generations
from indexer.snapshot.snapshot import Snapshot
from models.checksums import sha256_of
from models.errors import SnapshotCorruptError, SnapshotError

TRIES: Final = 5  # before that is done under the lock which is otherwise done before it


@contextmanager
def publishing(data: Path, beside: Snapshot) -> Iterator[Snapshot]:
    """Hold the publishing lock and yield the served snapshot, reusing segments that ``beside`` has open.

    Files are opened and compared with their checksums outside the lock. Only if others publish during each of
    several tries are they read under the lock. Raises BuildLockedError, StorageError, SnapshotError.
    """
    for _ in range(TRIES):
        beside = served_snapshot(data, beside=beside) or beside
        with DataFolder(data).publishing():
            if current_generation(data) == beside.generation:
                yield beside
                return
    with DataFolder(data).publishing():
        yield served_snapshot(data, beside=beside) or beside


def move_finished(data: Path, prepared: Sequence[tuple[Path, SegmentEntry]]) -> list[SegmentEntry]:
    """Move segments to the others, under the next names; return their entries there.

    The folders must be finished (``indexer/files/finished_folders.py``): their files were flushed before they
    got their names. So only the folder of all segments is flushed, once, and others wait for the publishing
    lock as long for many segments as for one.
    """
    if not prepared:
        return []
    folder, moved = DataFolder(data), []
    _make_folder(folder.segments)
    first = int(next_name(folder.segments))
    for name, (finished, entry) in zip(map(name_of, count(first)), prepared, strict=False):
        (finished / NOTE).unlink(missing_ok=True)
        finished.rename(folder.segment(name))
        moved.append(replace(entry, name=name, n_deleted=0))
    sync(folder.segments)
    return moved


def publish(
    data: Path,
    like: Manifest,
    served: Sequence[tuple[SegmentEntry, Int64[np.ndarray, "..."]]],
    *,
    now: Snapshot | None,
    keep: int,
) -> Manifest:
    """Publish a generation of the segments ``served``, each given with the positions of its deleted papers.

    Its manifest is ``like`` except for name, time, base, segments and files. Positions given as the same
    array as in the generation served ``now`` are not written again: their file is linked. The newest ``keep``
    older generations remain, and those in use. Returns the manifest.
    """
    generation = next_name(DataFolder(data).snapshots)
    prepared = DataFolder(data).next_snapshot
    shutil.rmtree(prepared, ignore_errors=True)
    prepared.mkdir(parents=True)
    segments = [replace(entry, n_deleted=len(positions)) for entry, positions in served]
    unchanged = {} if now is None else _linked_files(data, served, now)
    files = dict(unchanged)
    for entry, positions in served:
        path = prepared / deleted_file(entry.name)
        if len(positions) and path.name not in unchanged:
            write_array(path, [positions], shape=positions.shape, dtype=positions.dtype)
            files[path.name] = sha256_of(path)
    published = replace(
        like,
        generation=generation,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        base=served_generation(data),
        segments=tuple(segments),
        files=files,
    )
    DataFolder(data).next_manifest.write_bytes(published.to_json())
    _make_folder(DataFolder(data).snapshots)
    publish_folder(prepared, DataFolder(data).snapshot(generation), linked=unchanged)
    write_pointer(data, generation)
    remove_old_generations(data, keep=keep)
    return published


def _linked_files(
    data: Path, served: Sequence[tuple[SegmentEntry, Int64[np.ndarray, "..."]]], now: Snapshot
) -> dict[str, str]:
    """Link files of deleted positions that are the same ``now`` into the next generation.

    Returns their SHA-256 (hex) by name.
    """
    before = {entry.name: positions for entry, positions in served_by(now)}
    names = [entry.name for entry, positions in served if positions is before.get(entry.name)]
    folder, files = DataFolder(data), now.manifest.files
    return {
        file: files[file]
        for name in names
        if (file := deleted_file(name)) in files
        and linked(folder.deleted(now.generation, name), folder.next_snapshot / file)
    }


def served_by(snapshot: Snapshot) -> list[tuple[SegmentEntry, Int64[np.ndarray, "..."]]]:
    """Return the segments of a generation, each with the positions of its deleted papers."""
    own = zip(snapshot.segments, snapshot.deleted, strict=True)
    return [(segment.entry, deleted) for segment, deleted in own]


def served_generation(data: Path) -> str | None:
    """Return the name of the served generation, or ``None`` if there is none or CURRENT is damaged."""
    try:
        name = pointed_generation(data)
    except SnapshotCorruptError:
        return None
    return name if name in DataFolder(data).generations() else None


def served_models(data: Path) -> str:
    """Return the ``models_key`` of the served generation; empty if nothing is served, or it is damaged."""
    with suppress(SnapshotError):
        return read_manifest(data, current_generation(data)).models_key
    return ""


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir()
        sync(folder.parent)
