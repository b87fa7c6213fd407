"""Kept folders: finished work that outlives its process, each whole, or not there.

A folder is named by what it is made of, so that whoever needs the same finds it. ``kept.json`` says what it
keeps, and the SHA-256 of every file.
"""

import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from indexer.files.durable import discard_folder, folder_lock, publish_folder
from indexer.files.notes import read_note, write_note
from models.checksums import is_whole
from models.errors import BuildLockedError

NOTE: Final = "kept.json"


def kept(folder: Path) -> dict[str, Any] | None:
    """What a folder says that it keeps, where it is whole; every file is read and compared."""
    note = read_note(folder / NOTE)
    try:
        is_as_written = all(is_whole(folder / name, sha256) for name, sha256 in note["files"].items())
    except (KeyError, OSError):
        return None
    return note if is_as_written else None


def keep(folder: Path, write: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What a folder keeps; where it is not there, or not whole, ``write`` fills it.

    ``write`` returns what is to be known of it, ``files`` with the SHA-256 of each among that.
    """
    found = kept(folder)
    if found is not None:
        return found
    discard_folder(folder)
    # Others may be filled at the same time; this one too, where a process lives on that was given up.
    prefix = f"unfinished-{folder.name}-"
    _discard_left(folder.parent, prefix)
    prepared = folder.with_name(f"{prefix}{secrets.token_hex(4)}")
    try:
        with folder_lock(prepared):
            content = write(prepared)
            write_note(prepared / NOTE, content, durable=False)  # the whole folder is flushed
            return _published(prepared, folder, content)
    finally:
        shutil.rmtree(prepared, ignore_errors=True)


def _discard_left(parent: Path, prefix: str) -> None:
    """Remove what processes that were killed have left; others have the lock on theirs."""
    for left in parent.glob(f"{prefix}*"):
        with suppress(BuildLockedError), folder_lock(left):
            shutil.rmtree(left, ignore_errors=True)


def _published(prepared: Path, folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """What ``folder`` keeps now: that of whoever was first."""
    try:
        publish_folder(prepared, folder)
    except OSError:
        found = kept(folder)
        if found is None:
            raise
        return found
    return content
