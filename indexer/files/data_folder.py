"""The folder of a collection: where each thing in it lies, and the locks of those that change it.

DATA/
  CURRENT                        the SHA-256 of the served generation's manifest and the generation's name,
                                 swapped in one step; the name alone where an older Akin wrote it
  LOCK                           held by whoever publishes
  SECRET                         signs the service's cursors, made by it when first needed; mode 0600
  catalog.sqlite3                papers as they were given, every version
  building/corpus/               what an unfinished build encoded: indexer/encoding/parts.py, and segments of
                                 it; corpus.lock held by whoever works on it
  building/changes/              the same of what the catalog holds and the served generation does not
  building/reindex/              the same of a collection encoded anew
  building/merge/                segments that are being merged into one; merge.lock held by whoever does
  building/upgrade/              segments that get what this release needs of them
  building/snapshot/             the generation that is being made
  building/verified.json         files that were compared with their checksums, and what they were like then
  lookups/                       papers found by their DOI, arXiv or PubMed id, and ids that were not found
  segments/000001/               papers, vectors and index, immutable: indexer/snapshot/segment.py
  snapshots/000001/              one generation, immutable once it stands here
    manifest.json                written last: encoder, segments, SHA-256 of every file and of itself; readers
                                 hold a shared lock on it, so that nothing they read is cleared away
    deleted-000001.npy           positions in segment 000001 of papers that are deleted or replaced, int64
"""

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from indexer.files.durable import storage_errors, writer_lock

CATALOG_FILE: Final = "catalog.sqlite3"
SECRET_FILE: Final = "SECRET"  # noqa: S105  # the name of the file, not what is in it
_DISCARDED: Final = ".discarded"
KEEP: Final = 3  # generations, unless told otherwise
LOCK_WAIT_S: Final = 600.0  # how long to wait for another process to publish
# Of six digits up to 999999, then of as many as it takes: one number has one name.
_NUMBER: Final = re.compile(r"[0-9]{6}|[1-9][0-9]{6,}")


class Work(StrEnum):
    """What one process at a time does beside the others; its folder under ``building`` and its lock."""

    CORPUS = "corpus"
    CHANGES = "changes"
    REINDEX = "reindex"
    MERGE = "merge"
    UPGRADE = "upgrade"


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The paths and locks of the data folder at ``root``; nothing in it need be there."""

    root: Path

    @property
    def current(self) -> Path:
        """The file that names the served generation."""
        return self.root / "CURRENT"

    @property
    def catalog(self) -> Path:
        """The catalog, where it is not in another place."""
        return self.root / CATALOG_FILE

    @property
    def secret(self) -> Path:
        """The key that signs cursors."""
        return self.root / SECRET_FILE

    @property
    def lookups(self) -> Path:
        """Papers that were looked up by their ids."""
        return self.root / "lookups"

    @property
    def snapshots(self) -> Path:
        """The folder of all generations."""
        return self.root / "snapshots"

    @property
    def segments(self) -> Path:
        """The folder of all segments."""
        return self.root / "segments"

    @property
    def building(self) -> Path:
        """The folder of all that is unfinished."""
        return self.root / "building"

    @property
    def next_snapshot(self) -> Path:
        """Where the next generation is made."""
        return self.building / "snapshot"

    @property
    def verified(self) -> Path:
        """What is remembered of files that were compared with their checksums."""
        return self.building / "verified.json"

    def snapshot(self, generation: str) -> Path:
        """The folder of a generation."""
        return self.snapshots / generation

    def manifest(self, generation: str) -> Path:
        """The manifest of a generation."""
        return self.snapshots / generation / "manifest.json"

    def deleted(self, generation: str, segment: str) -> Path:
        """The positions of the papers of a segment that are deleted in a generation."""
        return self.snapshots / generation / deleted_file(segment)

    def segment(self, name: str) -> Path:
        """The folder of a segment."""
        return self.segments / name

    def work(self, work: Work) -> Path:
        """The folder of what a work has not finished."""
        return self.building / work

    def generations(self) -> list[str]:
        """Every published generation, oldest first."""
        return numbered(self.snapshots)

    def generations_before(self, generation: str) -> list[str]:
        """Those with a lower number than ``generation``, oldest first; none where that is no number."""
        if not _NUMBER.fullmatch(generation):
            return []
        return [name for name in self.generations() if int(name) < int(generation)]

    @contextmanager
    def publishing(self, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Hold the lock without which nothing is published; raises BuildLockedError, StorageError.

        What the block discards is removed from the disk once others may publish again.
        """
        with storage_errors(self.root), writer_lock(self.root / "LOCK", wait_s=wait_s):
            yield
        for folder in (self.snapshots, self.segments):
            for discarded in folder.glob(f"*{_DISCARDED}*"):
                shutil.rmtree(discarded, ignore_errors=True)  # another process may do the same

    @contextmanager
    def working(self, work: Work, *, wait_s: float = 0.0) -> Iterator[None]:
        """Hold the lock of a work, which others may publish beside; raises BuildLockedError, StorageError."""
        with storage_errors(self.root):
            self.building.mkdir(parents=True, exist_ok=True)
            with writer_lock(self.building / f"{work}.lock", wait_s=wait_s):
                yield


def discard(folder: Path) -> None:
    """Take a generation or segment out of its place, in one step; ``DataFolder.publishing`` removes it."""
    folder.rename(folder.with_name(f"{folder.name}{_DISCARDED}-{secrets.token_hex(4)}"))


def deleted_file(segment: str) -> str:
    """The name, in a generation's folder, of the positions of a segment's deleted papers."""
    return f"deleted-{segment}.npy"


def numbered(folder: Path) -> list[str]:
    """The generations or segments that stand in a folder, oldest first: in the order of their numbers."""
    if not folder.is_dir():
        return []
    return sorted((child.name for child in folder.iterdir() if _NUMBER.fullmatch(child.name)), key=int)


def next_name(folder: Path) -> str:
    """The name of the next generation, or segment, in its folder; none is given twice while both stand."""
    names = numbered(folder)
    return f"{int(names[-1]) + 1 if names else 1:06d}"
