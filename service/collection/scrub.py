"""The scrub: compares served files with their checksums, slowly and repeatedly.

Opening a generation compares every file that is new or has changed; disks and memory may damage any of them.
What the system holds of a file in memory is compared as it stands there, which is also what searches read.
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
from indexer.snapshot.folder import read_manifest
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.verified import Verified
from models.errors import SnapshotError
from service.collection.generations import Engines
from service.degradation import Degradation
from service.timings import USUAL

EVERY_S: Final = 0.25  # between two steps
_BLOCK_BYTES: Final = 1 << 20
NOT_SCRUBBED: Final = Degradation(
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

    ``files`` and ``read_bytes`` count what was compared since the start, ``passed_at`` (Unix time) is when
    the last whole pass ended. Between two passes it waits ``pause_s`` seconds, ``damaged_pause_s`` while
    something is damaged.
    """

    def __init__(
        self,
        engines: Engines,
        data: Path,
        *,
        mib_s: float,
        clock: Callable[[], float] = time.monotonic,
        pause_s: float = USUAL.scrub_pause_s,
        damaged_pause_s: float = USUAL.scrub_damaged_pause_s,
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
        """Read as much as may be read in one step. Raises StorageError."""
        if not self._step_bytes or self._clock() < self._next_pass:
            return
        left = self._step_bytes
        while left > 0:
            if self._open is None:
                # Asked anew for each file: what is served may have changed.
                waiting = [file for file in self._served() if file not in self._done]
                if not waiting:
                    self._end_pass()
                    return
                self._begin(waiting[0])
            else:
                left -= self._read_on(self._open, left)

    @property
    def damaged(self) -> int:
        """How many files of the served generation differ from their checksums."""
        return len(self._damaged.intersection(self._served())) if self._damaged else 0

    def degradations(self) -> list[Degradation]:
        """That something is damaged, if so."""
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
            except FileNotFoundError:
                self._end_file(file, intact=False)

    def _read_on(self, opened: _Open, most: int) -> int:
        """Read a block; returns how many bytes it had."""
        with storage_errors(opened.file.path):
            block = opened.stream.read(min(most, _BLOCK_BYTES))
        opened.hash.update(block)
        self.read_bytes += len(block)
        if not block:
            opened.stream.close()
            self._open = None
            self._end_file(opened.file, intact=opened.hash.hexdigest() == opened.file.sha256)
        return len(block)

    def _end_file(self, file: _File, *, intact: bool) -> None:
        self._done.add(file)
        if intact:
            self.files += 1
            self._damaged -= {file}
        # A generation that is served no more may be cleared away at any moment.
        elif file in self._served():
            self.files += 1
            Verified(self._data).forget(file.path)  # whoever opens it next compares it
            if file not in self._damaged:
                _log.error("damaged", file=str(file.path))
                self._damaged |= {file}
                self._elsewhere = self._generation_without()

    def _generation_without(self) -> str | None:
        """The newest other generation that does without the damaged files."""
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
    """Every file of a generation but its manifest, which is in memory."""
    folder = DataFolder(data)
    own = [_File(folder.snapshot(manifest.generation) / name, sha) for name, sha in manifest.files.items()]
    return own + [
        _File(folder.segment(segment.name) / name, sha)
        for segment in manifest.segments
        for name, sha in segment.files.items()
    ]
