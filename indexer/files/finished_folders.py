"""Kept folders: finished work that outlives its process, each complete or missing.

A folder is named by a digest of its inputs, so that other processes with the same inputs find it.
``kept.json`` describes its content, with the SHA-256 of every file. All of it is flushed before the folder
gets its name, so whoever moves the folder elsewhere only has to flush the new place.
"""

import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from indexer.files.durable import discard_folder, folder_lock, publish_folder
from indexer.files.progress_notes import read_note, write_note
from models.checksums import matches_checksum
from models.errors import BuildLockedError

NOTE: Final = "kept.json"


def kept(folder: Path) -> dict[str, Any] | None:
    """Return the note of a folder, or ``None`` if it is not intact; every file is read and compared."""
    note = read_note(folder / NOTE)
    try:
        is_as_written = all(matches_checksum(folder / name, sha256) for name, sha256 in note["files"].items())
    except (KeyError, OSError):
        return None
    return note if is_as_written else None


def keep(folder: Path, write: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Return the note of a folder; if the folder is missing or damaged, ``write`` fills it first.

    ``write`` returns the content of the note, which includes ``files`` with the SHA-256 of each.
    """
    found = kept(folder)
    if found is not None:
        return found
    discard_folder(folder)
    # Other processes may fill folders at the same time, even this one, if one was given up but still runs.
    prefix = f"unfinished-{folder.name}-"
    _discard_left(folder.parent, prefix)
    prepared = folder.with_name(f"{prefix}{secrets.token_hex(4)}")
    try:
        with folder_lock(prepared):
            content = write(prepared)
            write_note(prepared / NOTE, content, durable=False)  # the whole folder is flushed later
            return _published(prepared, folder, content)
    finally:
        shutil.rmtree(prepared, ignore_errors=True)


def _discard_left(parent: Path, prefix: str) -> None:
    """Remove the folders of processes that were killed; running processes hold the locks of theirs."""
    for left in parent.glob(f"{prefix}*"):
        with suppress(BuildLockedError), folder_lock(left):
            shutil.rmtree(left, ignore_errors=True)


def _published(prepared: Path, folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Rename ``prepared`` to ``folder``; return its note, or that of another process that was first."""
    try:
        publish_folder(prepared, folder)
    except OSError:
        found = kept(folder)
        if found is None:
            raise
        return found
    return content
