"""Functions that open a generation by name, the served generation, or some segments of one."""

import os
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from indexer.files.arrays import load_array
from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from indexer.snapshot.folder import current_generation, read_manifest, verify
from indexer.snapshot.manifest import REMEDY, Manifest, SegmentEntry
from indexer.snapshot.segment import Segment
from indexer.snapshot.snapshot import Snapshot
from models.errors import AkinError, SnapshotCorruptError


def open_snapshot(
    data: Path,
    generation: str | None = None,
    *,
    device: str = "cpu",
    beside: Snapshot | None = None,
    reread: bool = True,
) -> Snapshot:
    """Open a generation (the served one by default) after comparing every file with its checksum.

    Segments that are also in ``beside`` are shared instead of opened and compared again. Without ``reread``,
    files that were compared before and have not changed since are not compared again either. The generation
    is not removed as long as the snapshot is in use.

    Raises SnapshotMissingError, SnapshotCorruptError.
    """
    name = generation or current_generation(data)
    lease = DataFolder(data).lease(name)
    while lease is None and generation is None:  # superseded and removed since CURRENT was read
        superseded, name = name, current_generation(data)
        lease = DataFolder(data).lease(name)
        if name == superseded:
            break
    if lease is None:
        raise SnapshotCorruptError(f"{DataFolder(data).snapshot(name)}: no manifest.json; {REMEDY}")
    try:
        snapshot = _opened(data, name, device, () if beside is None else beside.segments, reread=reread)
    except AkinError:
        os.close(lease)
        raise
    weakref.finalize(snapshot, os.close, lease)
    return snapshot


def open_segments(
    data: Path, generation: str, names: Collection[str], *, device: str, known: Mapping[str, Segment]
) -> tuple[Manifest, dict[str, Segment]]:
    """Return the manifest of a generation and its segments ``names``, sharing those that are ``known``.

    For processes next to the one that has compared all files and leased the generation: files that have not
    changed since are not read again. Raises SnapshotCorruptError, StorageError.
    """
    manifest = read_manifest(data, generation)
    wanted = [entry for entry in manifest.segments if entry.name in names]
    others = [entry for entry in manifest.segments if entry.name not in names]
    same = {
        entry.name: known[entry.name]
        for entry in wanted
        if entry.name in known and known[entry.name].serves(entry, effort=manifest.effort)
    }
    verify(data, generation, known=[*others, *(segment.entry for segment in same.values())], reread=False)
    with storage_errors(data):
        return manifest, {
            entry.name: same.get(entry.name) or _segment(data, manifest, entry, device) for entry in wanted
        }


def served_snapshot(data: Path, *, beside: Snapshot | None = None) -> Snapshot | None:
    """Return the served generation, to add to it, or ``None`` if nothing is indexed yet.

    It is ``beside`` if that is still served, else opened with ``open_snapshot`` without ``reread``.
    Raises SnapshotMissingError if CURRENT is lost.
    """
    if not DataFolder(data).has_collection:
        return None
    if beside is not None and beside.generation == current_generation(data):
        return beside
    return open_snapshot(data, beside=beside, reread=False)


def _opened(
    data: Path, generation: str, device: str, known: Collection[Segment], *, reread: bool
) -> Snapshot:
    manifest = verify(data, generation, known=[segment.entry for segment in known], reread=reread)
    with storage_errors(data):
        segments = [
            next((segment for segment in known if segment.serves(entry, effort=manifest.effort)), None)
            or _segment(data, manifest, entry, device)
            for entry in manifest.segments
        ]
        deleted = [_deleted(data, generation, entry) for entry in manifest.segments]
    return Snapshot(manifest, segments, deleted)


def _segment(data: Path, manifest: Manifest, entry: SegmentEntry, device: str) -> Segment:
    folder = DataFolder(data).segment(entry.name)
    return Segment(folder, entry, unit=manifest.encoder.unit, device=device, effort=manifest.effort)


def _deleted(data: Path, generation: str, entry: SegmentEntry) -> Int64[np.ndarray, " n_deleted"]:
    if not entry.n_deleted:
        return np.empty(0, dtype=np.int64)
    return np.asarray(load_array(DataFolder(data).deleted(generation, entry.name)))
