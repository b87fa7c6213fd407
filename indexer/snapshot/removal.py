"""Functions that remove old generations, and the segments that only they name.

Callers must hold the publishing lock.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from indexer.files.data_folder import DataFolder, discard, numbered
from indexer.files.durable import storage_errors
from indexer.snapshot.folder import current_generation, read_manifest
from models.errors import SnapshotCorruptError, SnapshotError


def remove_old_generations(data: Path, *, keep: int) -> list[str]:
    """Remove all generations except ``keep``, the served one, and those that a process or a batch needs.

    The served generation is kept first, then the one it was made from, and so on, then the others, newest
    first. Segments that no remaining generation names are removed too. Returns the removed generations.
    """
    with storage_errors(data):
        known = DataFolder(data).generations()
        lineage = [current_generation(data)]
        while base := base_generation(data, lineage[-1]):
            lineage.append(base)
        others = [name for name in reversed(known) if name not in lineage]
        spared = {lineage[0], *[*lineage, *others][:keep], *DataFolder(data).needed_generations()}
        return remove_generations(data, [name for name in known if name not in spared])


def remove_generations(data: Path, names: Collection[str]) -> list[str]:
    """Remove generations, except those that a process is reading, and segments that no generation names.

    The files of a publication that was killed are removed too. Returns the removed generations.
    """
    with storage_errors(data):
        shutil.rmtree(DataFolder(data).next_snapshot, ignore_errors=True)
        removed = [name for name in names if DataFolder(data).discard_unread(name)]
        _discard_unnamed_segments(data)
    return removed


def base_generation(data: Path, generation: str) -> str | None:
    """Return the generation that ``generation`` was made from, or ``None`` if it was removed.

    If the manifest does not say it, or cannot be read, this is the generation before.
    """
    earlier = DataFolder(data).generations_before(generation)
    try:
        base = read_manifest(data, generation).base
    except SnapshotError:
        base = None
    if base is None:
        return earlier[-1] if earlier else None
    return base if base in earlier else None


def _discard_unnamed_segments(data: Path) -> None:
    named: set[str] = set()
    for generation in DataFolder(data).generations():
        try:
            named.update(entry.name for entry in read_manifest(data, generation).segments)
        except SnapshotCorruptError:
            return  # its segments are unknown: rather keep too many
    for name in numbered(DataFolder(data).segments):
        if name not in named:
            discard(DataFolder(data).segment(name))
