"""The folder of a collection: the paths in it, and the locks of the processes that change it.

DATA/
  CURRENT                        the SHA-256 of the served generation's manifest and the generation's name,
                                 swapped in one step; the name alone if an older Akin wrote it
  LOCK                           held by the process that publishes
  SECRET                         signs the service's cursors, made by it when first needed; mode 0600
  catalog.sqlite3                papers as they were given, every version
  building/corpus/               papers encoded by an unfinished build (indexer/encoding/parts.py),
                                 segments of them, and the arguments of a first build; next to it
                                 corpus.lock, held by the build
  building/changes/              the same for papers of the catalog that the served generation lacks
  building/reindex/              the same for a collection that is encoded again
  building/merge/                merged segments not yet published; merge.lock, held by the merge
  building/upgrade/              segments that are upgraded for this release
  building/snapshot/             the generation that is being made
  building/verified.json         files that were compared with their checksums, and their state at that time
  needed/000001                  an empty file for each generation that an unfinished batch needs
  lookups/                       papers found by their DOI, arXiv or PubMed id, and ids that were not found
  segments/000001/               papers, vectors and index, immutable: indexer/snapshot/segment.py
  snapshots/000001/              one generation, immutable once it is here
    manifest.json                written last: encoder, segments, SHA-256 of every file and of itself; readers
                                 hold a shared lock on it, so that the generation is not removed
    deleted-000001.npy           positions in segment 000001 of papers that are deleted or replaced, int64
"""

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from indexer.files.durable import storage_errors, writer_lock

CATALOG_FILE: Final = "catalog.sqlite3"
SECRET_FILE: Final = "SECRET"  # noqa: S105  # the name of the file, not what is in it
_MANIFEST: Final = "manifest.json"
# In folders of unfinished work: encoded papers, segments, and notes for the next run.
_PART, _SEGMENT = "part-", "segment-"
_BEGUN, _PREPARED, _PUBLISHED = "arguments.json", "prepared.json", "published.json"
UNFINISHED: Final = (f"{_PART}*", f"{_SEGMENT}*", _BEGUN, _PREPARED, _PUBLISHED)
_DISCARDED: Final = ".discarded"
KEEP: Final = 3  # generations, by default
_NEEDED_S: Final = 7 * 86_400.0  # how long a generation is kept for a batch while no service runs
LOCK_WAIT_S: Final = 600.0  # how long to wait for another process to publish
# Six digits up to 999999, then as many as necessary, so that every number has one name.
_NUMBER: Final = re.compile(r"[0-9]{6}|[1-9][0-9]{6,}")


class Work(StrEnum):
    """A kind of work that one process at a time does; the name of its lock and folder under ``building``."""

    CORPUS = "corpus"
    CHANGES = "changes"
    REINDEX = "reindex"
    MERGE = "merge"
    UPGRADE = "upgrade"


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The paths and locks of the data folder at ``root``; nothing in it needs to exist."""

    root: Path

    @property
    def current(self) -> Path:
        """The file that names the served generation."""
        return self.root / "CURRENT"

    @property
    def catalog(self) -> Path:
        """The default file of the catalog."""
        return self.root / CATALOG_FILE

    @property
    def secret(self) -> Path:
        """The key that signs cursors."""
        return self.root / SECRET_FILE

    @property
    def lookups(self) -> Path:
        """The folder of papers that were looked up by their ids."""
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
        """The folder of all unfinished work."""
        return self.root / "building"

    @property
    def next_snapshot(self) -> Path:
        """The folder in which the next generation is made."""
        return self.building / "snapshot"

    @property
    def next_manifest(self) -> Path:
        """The manifest of the generation that is being made."""
        return self.next_snapshot / _MANIFEST

    @property
    def verified(self) -> Path:
        """The record of the files that were compared with their checksums."""
        return self.building / "verified.json"

    @property
    def begun(self) -> Path:
        """The arguments of a first build, until it is finished."""
        return self.work(Work.CORPUS) / _BEGUN

    @property
    def published_segments(self) -> Path:
        """The note of the segments that an unfinished build has published in portions."""
        return self.work(Work.CORPUS) / _PUBLISHED

    @property
    def prepared_segments(self) -> Path:
        """The note of the segments that a re-index has prepared."""
        return self.work(Work.REINDEX) / _PREPARED

    @property
    def has_collection(self) -> bool:
        """Whether a generation was published, unless that was by a first build before it wrote CURRENT."""
        return self.current.is_file() or (bool(self.generations()) and not self.begun.is_file())

    @property
    def needed(self) -> Path:
        """The folder of the files that name the generations that unfinished batches need."""
        return self.root / "needed"

    def snapshot(self, generation: str) -> Path:
        """Return the folder of a generation."""
        return self.snapshots / generation

    def manifest(self, generation: str) -> Path:
        """Return the manifest of a generation."""
        return self.snapshots / generation / _MANIFEST

    def deleted(self, generation: str, segment: str) -> Path:
        """Return the file with the positions of a segment's papers that are deleted in a generation."""
        return self.snapshots / generation / deleted_file(segment)

    def segment(self, name: str) -> Path:
        """Return the folder of a segment."""
        return self.segments / name

    def work(self, work: Work) -> Path:
        """Return the folder of unfinished work of this kind."""
        return self.building / work

    def parts(self, work: Work | None = None) -> list[Path]:
        """Return the folders of encoded papers in unfinished work of this kind, or of all kinds."""
        return sorted(path for path in self.building.glob(f"{work or '*'}/{_PART}*") if path.is_dir())

    def generations(self) -> list[str]:
        """Return every published generation, oldest first."""
        return numbered(self.snapshots)

    def needed_generations(self) -> list[str]:
        """Return the generations that unfinished batches need, except of services that ended long ago."""
        found = []
        for name in numbered(self.needed):
            with suppress(FileNotFoundError):  # a service removes it just now
                if (self.needed / name).stat().st_mtime > time.time() - _NEEDED_S:
                    found.append(name)
        return found

    def generations_before(self, generation: str) -> list[str]:
        """Return the generations before ``generation``, oldest first; none if that is not a valid name."""
        if not _NUMBER.fullmatch(generation):
            return []
        return [name for name in self.generations() if int(name) < int(generation)]

    def lease(self, generation: str) -> int | None:
        """Return a file descriptor that keeps a generation from being removed until it is closed.

        It holds a shared lock on the manifest; ``None`` if the generation does not exist. Raises
        StorageError.
        """
        path = self.manifest(generation)
        with storage_errors(path):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                return None
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # A process that removes a generation holds the lock until the generation is gone.
            if path.exists():
                return descriptor
            os.close(descriptor)
            return None

    def discard_unread(self, generation: str) -> bool:
        """Discard a generation, unless a reader leases it; return whether it was discarded."""
        try:
            # Opened for writing: an exclusive lock on a network file system requires it.
            descriptor = os.open(self.manifest(generation), os.O_RDWR)
        except FileNotFoundError:
            discard(self.snapshot(generation))  # damaged: nobody can read it
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            discard(self.snapshot(generation))
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    @contextmanager
    def publishing(self, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Hold the publishing lock; raises BuildLockedError, StorageError.

        Folders that the block discards are removed from the disk after the lock is released.
        """
        with storage_errors(self.root), writer_lock(self.root / "LOCK", wait_s=wait_s):
            yield
        with suppress(OSError):
            self.remove_discarded()

    def remove_discarded(self) -> None:
        """Remove the folders that were discarded, as far as possible; raises the first OSError."""
        errors: list[OSError] = []
        for folder in (self.snapshots, self.segments):
            for discarded in folder.glob(f"*{_DISCARDED}*"):
                while discarded.exists():
                    try:
                        shutil.rmtree(discarded)
                    except FileNotFoundError:  # another process removes it too
                        continue
                    except OSError as error:
                        errors.append(error)
                        break
        if errors:
            raise errors[0]

    @contextmanager
    def working(self, work: Work, *, wait_s: float = 0.0) -> Iterator[None]:
        """Hold the lock of a kind of work; others may publish; raises BuildLockedError, StorageError."""
        with storage_errors(self.root):
            self.building.mkdir(parents=True, exist_ok=True)
            with writer_lock(self.building / f"{work}.lock", wait_s=wait_s):
                yield


def discard(folder: Path) -> None:
    """Rename a generation or segment out of its place, in one step; ``DataFolder.publishing`` removes it."""
    folder.rename(folder.with_name(f"{folder.name}{_DISCARDED}-{secrets.token_hex(4)}"))


def part_folder(work: Path, digest: str) -> Path:
    """Return the folder, in one of unfinished work, of encoded papers with this digest (hex)."""
    return work / f"{_PART}{digest[:32]}"


def segment_folder(work: Path, digest: str) -> Path:
    """Return the folder, in one of unfinished work, of a segment with this digest (hex)."""
    return work / f"{_SEGMENT}{digest[:32]}"


def deleted_file(segment: str) -> str:
    """Return the name of the file, in a generation, with the positions of a segment's deleted papers."""
    return f"deleted-{segment}.npy"


def numbered(folder: Path) -> list[str]:
    """Return the names of the generations or segments in a folder, oldest first: sorted by number."""
    if not folder.is_dir():
        return []
    return sorted((child.name for child in folder.iterdir() if _NUMBER.fullmatch(child.name)), key=int)


def next_name(folder: Path) -> str:
    """Return the name of the next generation or segment in a folder: one above the highest number there."""
    names = numbered(folder)
    return name_of(int(names[-1]) + 1 if names else 1)


def name_of(number: int) -> str:
    """Return the name of the generation or segment with this number."""
    return f"{number:06d}"
