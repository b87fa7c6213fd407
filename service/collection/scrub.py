"""The scrub: a slow, repeated comparison of served files with their checksums.

Opening a generation verifies every file that is new or has changed; disks and memory may damage any of them
later. Pages of a file that the system caches are read from memory, as searches read them too.
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from indexer.snapshot.checksum_record import ChecksumRecord
from indexer.snapshot.folder import read_manifest
from indexer.snapshot.manifest import Manifest
from models.errors import SnapshotError
from service.collection.generations import Engines
from service.degradation import Degradation
from service.timings import DEFAULTS

EVERY_S: Final = 0.25  # between two steps
_BLOCK_BYTES: Final = 1 << 20
FILES_NOT_VERIFIED: Final = Degradation(
    "scrub",
    "The served files cannot be read to verify their checksums.",
    "check the disk",
)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    sha256: str  # hex


@dataclass(slots=True)
class _Open:
    file: _File
    stream: BinaryIO
    hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)


class Scrub:
    """Passes over the files of the served generation, a step at a time; ``step`` belongs to one thread.

    ``files`` and ``read_bytes`` count what was verified since the start, ``passed_at`` (Unix time) is when
    the last whole pass ended. The pause between two passes is ``pause_s`` seconds, ``damaged_pause_s`` while
    a file is damaged.
    """

    def __init__(
        self,
        engines: Engines,
        data: Path,
        *,
        mib_s: float,
        clock: Callable[[], float] = time.monotonic,
        pause_s: float = DEFAULTS.scrub_pause_s,
        damaged_pause_s: float = DEFAULTS.scrub_damaged_pause_s,
    ) -> None:
        self._engines = engines
        self._data = data
        self._step_bytes = int(mib_s * EVERY_S * (1 << 20))
        self._clock = clock
        self._pause_s = pause_s
        self._damaged_pause_s = damaged_pause_s
        self._done: set[_File] = set()  # of this pass
        self._damaged: frozenset[_File] = frozenset()
        self._elsewhere: str | None = None  # a generation without the damaged files
        self._open: _Open | None = None
        self._next_pass = 0.0
        self.files = 0
        self.read_bytes = 0
        self.passed_at: float | None = None

    def step(self) -> None:
        """Read as many bytes as one step may, ``mib_s`` on average; raises StorageError."""
        if not self._step_bytes or self._clock() < self._next_pass:
            return
        left = self._step_bytes
        while left > 0:
            if self._open is None:
                # Read again for each file, as the served generation may have changed.
                waiting = [file for file in self._served() if file not in self._done]
                if not waiting:
                    self._end_pass()
                    return
                self._begin(waiting[0])
            else:
                left -= self._read_on(self._open, left)

    @property
    def damaged(self) -> int:
        """The number of files of the served generation that differ from their checksums."""
        return len(self._damaged.intersection(self._served())) if self._damaged else 0

    def degradations(self) -> list[Degradation]:
        """Return a degradation if files are damaged."""
        if not self.damaged:
            return []
        remedy = "restore the files that the log names from a backup, or rebuild them with `akin reindex`"
        if self._elsewhere is not None:
            remedy += (
                f"; generation {self._elsewhere} does not use them: `akin snapshot rollback --to "
                f"{self._elsewhere}` serves it, without papers added since"
            )
        return [
            Degradation(
                "snapshot",
                "Files of the served generation are damaged: it stays in use, but answers with their papers "
                "may be wrong, and a service that starts refuses it.",
                remedy,
            )
        ]

    def _served(self) -> list[_File]:
        return files_of(self._data, self._engines.current.snapshot.manifest)

    def _begin(self, file: _File) -> None:
        with storage_errors(file.path):
            try:
                self._open = _Open(file, file.path.open("rb"))
            except (FileNotFoundError, PermissionError):
                self._end_file(file, intact=False)

    def _read_on(self, opened: _Open, most: int) -> int:
        """Read a block of a file; return its number of bytes. A file that cannot be read is damaged."""
        try:
            block = opened.stream.read(min(most, _BLOCK_BYTES))
        except OSError as error:
            _log.error("unreadable", file=str(opened.file.path), error=str(error))
            self._close(opened, intact=False)
            return 0
        opened.hash.update(block)
        self.read_bytes += len(block)
        if not block:
            self._close(opened, intact=opened.hash.hexdigest() == opened.file.sha256)
        return len(block)

    def _close(self, opened: _Open, *, intact: bool) -> None:
        opened.stream.close()
        self._open = None
        self._end_file(opened.file, intact=intact)

    def _end_file(self, file: _File, *, intact: bool) -> None:
        self._done.add(file)
        if intact:
            self.files += 1
            self._damaged -= {file}
        # A generation that is no longer served may be cleared away at any moment.
        elif file in self._served():
            self.files += 1
            ChecksumRecord(self._data).forget(file.path)  # the next to open it verifies it
            if file not in self._damaged:
                _log.error("damaged", file=str(file.path))
                self._damaged |= {file}
                self._elsewhere = self._generation_without()

    def _generation_without(self) -> str | None:
        """Return the newest other generation that does not use the damaged files, if there is one."""
        served = self._engines.current.snapshot.generation
        for name in reversed(DataFolder(self._data).generations()):
            with suppress(SnapshotError):
                if name != served and self._damaged.isdisjoint(
                    files_of(self._data, read_manifest(self._data, name))
                ):
                    return name
        return None

    def _end_pass(self) -> None:
        self._done.clear()
        self._damaged &= frozenset(self._served())
        self.passed_at = time.time()
        self._next_pass = self._clock() + (self._damaged_pause_s if self._damaged else self._pause_s)


def files_of(data: Path, manifest: Manifest) -> list[_File]:
    """Return every file of a generation except its manifest, which is in memory."""
    folder = DataFolder(data)
    own = [_File(folder.snapshot(manifest.generation) / name, sha) for name, sha in manifest.files.items()]
    return own + [
        _File(folder.segment(segment.name) / name, sha)
        for segment in manifest.segments
        for name, sha in segment.files.items()
    ]
