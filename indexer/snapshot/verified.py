"""Files that were compared with their checksums before: one that has not changed since is not read again.

A command that deletes one paper need not read the whole collection for it, nor a service that starts again.
What the device itself loses is not noticed so: a service that has started goes over all files again and again
(scrub), and what it finds damaged is remembered no longer.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from indexer.files.data_folder import DataFolder
from indexer.files.notes import read_note, write_note

# A change within the resolution of the file system's clock could not be told: a file rests so long first.
_RESTED_NS: Final = 2_000_000_000


class Verified:
    """What is remembered of the files of a data folder: size, inode, and the times of the last changes.

    The time at which the inode changed is among them, which no program can set.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._note = DataFolder(data).verified
        self._remembered = _remembered_in(self._note)
        self._new: dict[str, list[object]] = {}

    def holds(self, path: Path, sha256: str) -> bool:
        """Whether the file had this SHA-256 (hex) when it was last read, and has not changed since.

        OSError where it is not there.
        """
        return self._remembered.get(self._name(path)) == [sha256, *stamp_of(path)]

    def remember(self, path: Path, sha256: str, stamp: list[int]) -> None:
        """The file, which was as ``stamp`` says before it was read, has this SHA-256."""
        content = [sha256, *stamp]
        if (
            time.time_ns() - max(stamp[-2:]) > _RESTED_NS
            and self._remembered.get(self._name(path)) != content
        ):
            self._remembered[self._name(path)] = self._new[self._name(path)] = content

    def save(self) -> None:
        """Keep it for the next process, of the files that are still there; not in a read-only folder."""
        if self._new:
            # What others have seen meanwhile stays remembered, and what they have forgotten forgotten.
            remembered = _remembered_in(self._note) | self._new
            self._write({name: seen for name, seen in remembered.items() if (self._data / name).is_file()})

    def forget(self, path: Path) -> None:
        """The file is read again by the next process."""
        for kept in (self._remembered, self._new):
            kept.pop(self._name(path), None)
        remembered = _remembered_in(self._note)
        self._write({name: seen for name, seen in remembered.items() if name != self._name(path)})

    def _write(self, files: dict[str, list[object]]) -> None:
        if self._note.parent.is_dir():
            with suppress(OSError):
                write_note(self._note, {"files": files}, durable=False)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._data).as_posix()


def _remembered_in(note: Path) -> dict[str, list[object]]:
    remembered: dict[str, list[object]] = read_note(note).get("files", {})
    return remembered


def stamp_of(path: Path) -> list[int]:
    """What changes whenever the file does; OSError where it is not there."""
    stat = path.stat()
    return [stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns]
