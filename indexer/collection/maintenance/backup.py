"""Backups of a collection, which may be searched and changed meanwhile."""

import errno
import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from indexer.catalog.catalog import Catalog
from indexer.catalog.database import sqlite_file
from indexer.catalog.sqlite import sqlite_connection
from indexer.collection.changes import expect_own_catalog
from indexer.files.data_folder import DataFolder
from indexer.files.durable import folder_lock, publish_folder, storage_errors
from indexer.snapshot.folder import verify, write_pointer
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.checksums import matches_checksum
from models.errors import InputError, StorageError

_INSIDE: Final = DataFolder(Path())
_OF_A_BACKUP: Final = frozenset(
    {
        _INSIDE.segments.name,
        _INSIDE.snapshots.name,
        *(_INSIDE.current.name + end for end in ("", ".new")),
        *(_INSIDE.catalog.name + end for end in ("", "-wal", "-shm", "-journal")),
    }
)


def back_up(data: Path, target: Path, *, catalog: str | Path) -> Manifest:
    """Copy the served generation, then the catalog, into ``target``, which must be missing or empty.

    ``catalog`` (a URL or path) is copied if it is SQLite. It is copied last, so it may be newer than the
    files but never older, and the next process on ``target`` only has to catch up. Segments that a killed
    process left in ``TARGET.unfinished`` are not copied again. Raises InputError, SnapshotMissingError,
    SnapshotCorruptError, BuildLockedError; StorageError, also if the catalog is of another collection.
    """
    target = target.resolve()
    unfinished = target.with_name(target.name + ".unfinished")
    with storage_errors(target):
        _expect_apart(data.resolve(), target, unfinished)
        if target.exists() and any(target.iterdir()):
            raise InputError(f"{target} is not empty; name a new folder for the backup.")
        if target.is_mount():
            raise InputError(f"{target} is a mount point; name a new folder in it for the backup.")
        # While it is open, no process removes its files, however much is published meanwhile.
        snapshot = open_snapshot(data)
        with folder_lock(unfinished):
            return _copied(data, snapshot, unfinished, target, catalog=catalog)


def _expect_apart(data: Path, target: Path, unfinished: Path) -> None:
    """Raise InputError if a folder would be copied into itself, or over files that are not of a backup."""
    if target.is_relative_to(data) or data.is_relative_to(target) or data.is_relative_to(unfinished):
        raise InputError(
            f"The backup {target} and the collection {data} are one in the other; name a folder elsewhere."
        )
    left = {child.name for child in unfinished.iterdir()} if unfinished.exists() else set()
    if strange := sorted(left - _OF_A_BACKUP):
        raise InputError(
            f"{unfinished} is where the backup would be made, but holds {strange[0]!r}, which no backup left "
            "there; move the folder away, or name another for the backup."
        )


def _copied(
    data: Path, snapshot: Snapshot, unfinished: Path, target: Path, *, catalog: str | Path
) -> Manifest:
    """Copy the snapshot and the catalog into ``unfinished``, then rename that to ``target``."""
    manifest = snapshot.manifest
    segments = {_INSIDE.segment(entry.name): entry.files for entry in manifest.segments}
    for folder, files in segments.items():
        _copy(data / folder, unfinished / folder, files)
    _clear(unfinished, segments)
    folder = _INSIDE.snapshot(snapshot.generation)
    shutil.copytree(data / folder, unfinished / folder)
    manifest = verify(unfinished, snapshot.generation)
    file = sqlite_file(catalog)
    if file is not None:
        copy_sqlite(file, DataFolder(unfinished).catalog)
        with Catalog.open(DataFolder(unfinished).catalog) as copied:
            expect_own_catalog(manifest, copied)
    write_pointer(unfinished, manifest.generation)
    publish_folder(unfinished, target)
    return manifest


def _copy(source: Path, target: Path, files: Mapping[str, str]) -> None:
    """Copy the files of a segment, except those that were copied before and match their checksums."""
    target.mkdir(parents=True, exist_ok=True)
    for child in target.iterdir():
        if child.name not in files:
            child.unlink()
    for name, stated in files.items():
        if not matches_checksum(target / name, stated):
            shutil.copyfile(source / name, target / name)


def _clear(unfinished: Path, segments: Iterable[Path]) -> None:
    """Remove everything that an earlier run copied, except the given segments."""
    of_all = DataFolder(unfinished).segments
    kept = {of_all, *(unfinished / folder for folder in segments)}
    for child in [*unfinished.iterdir(), *of_all.glob("*")]:
        if child.is_file():
            child.unlink()
        elif child not in kept:
            shutil.rmtree(child)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy the state of a catalog at one moment, while others may write to it.

    Raises StorageError; OSError if there is no room for the copy.
    """
    if not source.is_file():
        raise StorageError(f"{source}: there is no catalog here; name it with --catalog.")
    try:
        with closing(sqlite_connection(source)) as one, closing(sqlite3.connect(target)) as other:
            one.backup(other)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, str(error), str(target)) from error
        raise StorageError(f"{source}: the catalog cannot be copied to {target} ({error})") from error
