"""Record of the files that were compared with their checksums: unchanged files are not read again.

So a command that deletes one paper need not read the whole collection, nor a service that starts again. This
does not detect data that the device itself loses: a running service compares all files over and over (scrub),
and damaged files are taken out of the record.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from indexer.files.data_folder import DataFolder
from indexer.files.progress_notes import read_note, write_note

# A file must be unchanged for this long before it is recorded: a change within the resolution of the file
# system's clock could not be detected.
_RESTED_NS: Final = 2_000_000_000


class ChecksumRecord:
    """The record of a data folder's files: SHA-256, size, inode, and the times of the last changes.

    These include the change time of the inode, which no program can set.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._note = DataFolder(data).verified
        self._remembered = _remembered_in(self._note)
        self._new: dict[str, list[object]] = {}

    def holds(self, path: Path, sha256: str) -> bool:
        """Return whether the file had this SHA-256 (hex) when it was last read, and is unchanged since.

        Raises OSError if the file does not exist.
        """
        return self._remembered.get(self._name(path)) == [sha256, *stamp_of(path)]

    def remember(self, path: Path, sha256: str, stamp: list[int]) -> None:
        """Record the SHA-256 of a file, with its ``stamp`` from before it was read."""
        content = [sha256, *stamp]
        if (
            time.time_ns() - max(stamp[-2:]) > _RESTED_NS
            and self._remembered.get(self._name(path)) != content
        ):
            self._remembered[self._name(path)] = self._new[self._name(path)] = content

    def save(self) -> None:
        """Write the record for the next process, without files that are gone; not in a read-only folder."""
        if self._new:
            # Read again, to keep what other processes have recorded and removed meanwhile.
            remembered = _remembered_in(self._note) | self._new
            self._write({name: seen for name, seen in remembered.items() if (self._data / name).is_file()})

    def forget(self, path: Path) -> None:
        """Take a file out of the record, so that the next process reads it again."""
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
    """Return values that change whenever the file does; raises OSError if the file does not exist."""
    stat = path.stat()
    return [stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns]
