"""Backups of a collection that may be served and fed meanwhile."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from indexer.catalog import CATALOG_FILE
from indexer.durable import replace_file, storage_errors, sync_tree
from indexer.generations import segment_folder, snapshot_folder, verify
from indexer.manifest import Manifest
from indexer.snapshot import open_snapshot
from models.errors import InputError, StorageError


def back_up(data: Path, target: Path, *, catalog: str | Path) -> Manifest:
    """Copy what is served, then its catalog, into ``target``, a folder that is not there yet or is empty.

    ``catalog`` (a URL or path) is copied where it is SQLite. It is copied last: it may be newer than the
    files, never older, so that the next process over ``target`` has only to catch up. Raises InputError,
    StorageError, SnapshotMissingError, SnapshotCorruptError.
    """
    with storage_errors(target):
        if target.exists() and any(target.iterdir()):
            raise InputError(f"{target} is not empty; name a new folder for the backup.")
        # As long as it is open nobody clears away what it needs, however much is published meanwhile.
        snapshot = open_snapshot(data)
        folders = [snapshot_folder(Path(), snapshot.generation)]
        folders += [segment_folder(Path(), entry.name) for entry in snapshot.manifest.segments]
        for folder in folders:
            shutil.copytree(data / folder, target / folder)
        manifest = verify(target, snapshot.generation)
        file = sqlite_file(catalog)
        if file is not None:
            _copy_sqlite(file, target / CATALOG_FILE)
        sync_tree(target)
        replace_file(target / "CURRENT", manifest.generation.encode() + b"\n")
    return manifest


def sqlite_file(catalog: str | Path) -> Path | None:
    """The file of a catalog, or ``None`` where it is in PostgreSQL."""
    if isinstance(catalog, Path) or "://" not in catalog:
        return Path(catalog)
    url = make_url(catalog)
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def _copy_sqlite(source: Path, target: Path) -> None:
    if not source.is_file():
        raise StorageError(f"{source}: there is no catalog here to copy; name it with --catalog.")
    try:
        with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
            one.backup(other)
    except sqlite3.Error as error:
        raise StorageError(f"{source}: the catalog cannot be copied to {target} ({error})") from error
