"""The served generation of a data folder, the manifests, and the checksums of their files."""

import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from indexer.files.data_folder import DataFolder
from indexer.files.durable import replace_file, storage_errors
from indexer.snapshot.checksum_record import ChecksumRecord, stamp_of
from indexer.snapshot.manifest import REMEDY, Manifest, SegmentEntry
from models.checksums import sha256_of
from models.errors import SnapshotCorruptError, SnapshotError, SnapshotMissingError

_COMPARED_AT_ONCE: Final = 4
_STATED: Final = re.compile(r"([0-9a-f]{64}) ([0-9]{6,})\n")


def current_generation(data: Path) -> str:
    """Return the name of the served generation; raises SnapshotMissingError, SnapshotCorruptError."""
    while True:
        with storage_errors(data):
            if not DataFolder(data).current.is_file():
                raise _nothing_served(data)
        pointer = _pointer(data)
        name = pointed_generation(data)
        if name in DataFolder(data).generations():
            return name
        if _pointer(data) == pointer:  # else it was superseded and removed in between: try again
            raise SnapshotMissingError(
                f"{data}/CURRENT names generation {name[:40]!r}, which does not exist; write the name of "
                f"the generation to serve into it (`akin snapshot list --data {data}` shows all)"
            )


def _nothing_served(data: Path) -> SnapshotMissingError:
    """Return the error for a folder without CURRENT: nothing was indexed, or only that file is gone."""
    if known := DataFolder(data).generations():
        return SnapshotMissingError(
            f"{data}: CURRENT is missing, the file that names the generation to serve; run `akin snapshot "
            f"rollback --to {known[-1]} --data {data}`, which serves one again and leaves the catalog as it "
            f"is (there are {', '.join(known)})"
        )
    return SnapshotMissingError(
        f"{data}: nothing is indexed here; run `akin index CORPUS --data {data}` first"
    )


def pointed_generation(data: Path) -> str:
    """Return the generation that CURRENT names, whether it exists or not; empty if it names none.

    Raises StorageError; SnapshotCorruptError if CURRENT was written for another generation than it names.
    """
    pointer = _pointer(data)
    if _is_damaged(data, pointer):
        raise SnapshotCorruptError(
            f"{data}/CURRENT names generation {pointer.generation}, but has the checksum of another "
            "manifest: write the name of the generation that was served last into it, and nothing else "
            f"(`akin snapshot list --data {data}` shows all)"
        )
    return pointer.generation


def write_pointer(data: Path, generation: str) -> None:
    """Write CURRENT, so that this generation is served; the file is replaced in one step."""
    digest = sha256_of(DataFolder(data).manifest(generation))
    replace_file(DataFolder(data).current, f"{digest} {generation}\n".encode())


@dataclass(frozen=True, slots=True)
class _Pointer:
    generation: str
    sha256: str = ""  # hex, of its manifest


def _pointer(data: Path) -> _Pointer:
    path = DataFolder(data).current
    with storage_errors(path):
        content = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    # The digest comes first, so that no truncated file looks like one of an older Akin.
    if stated := _STATED.fullmatch(content):
        return _Pointer(stated[2], stated[1])
    return _Pointer(content.strip())


def _is_damaged(data: Path, pointer: _Pointer) -> bool:
    """Return whether a pointer was written for another manifest than the one it names, which is intact."""
    manifest = DataFolder(data).manifest(pointer.generation)
    with storage_errors(manifest):
        try:
            if not pointer.sha256 or pointer.sha256 == sha256_of(manifest):
                return False
            read_manifest(data, pointer.generation)
        except (FileNotFoundError, SnapshotError):
            return False  # opening the generation raises the error
    return True


def read_manifest(data: Path, generation: str) -> Manifest:
    """Return the manifest of a generation; raises SnapshotCorruptError."""
    path = DataFolder(data).manifest(generation)
    with storage_errors(path):
        if not path.is_file():
            raise SnapshotCorruptError(f"{path}: missing; {REMEDY}")
        manifest = Manifest.from_json(path.read_bytes(), path)
    if manifest.generation != generation:
        raise SnapshotCorruptError(f"{path}: belongs to generation {manifest.generation}; {REMEDY}")
    return manifest


def read_manifests(data: Path) -> list[tuple[str, Manifest | SnapshotError]]:
    """Return every published generation, oldest first, with its manifest or the error of reading it."""
    found: list[tuple[str, Manifest | SnapshotError]] = []
    for name in DataFolder(data).generations():
        try:
            found.append((name, read_manifest(data, name)))
        except SnapshotError as error:
            found.append((name, error))
    return found


def verify(
    data: Path, generation: str, *, known: Collection[SegmentEntry] = (), reread: bool = True
) -> Manifest:
    """Compare every file of a generation with its manifest, except those of ``known`` segments.

    Without ``reread``, files that were compared before and have not changed since are not read again. Returns
    the manifest. Raises SnapshotCorruptError.
    """
    manifest, verified = read_manifest(data, generation), ChecksumRecord(data)
    for entry in manifest.segments:
        if not any(entry.is_same_as(other) for other in known):
            compare_files(DataFolder(data).segment(entry.name), entry.files, verified, reread=reread)
    compare_files(DataFolder(data).snapshot(generation), manifest.files, verified, reread=reread)
    verified.save()
    return manifest


def compare_files(
    folder: Path, files: Mapping[str, str], verified: ChecksumRecord | None = None, *, reread: bool = True
) -> None:
    """Compare files with their SHA-256 (hex); raises SnapshotCorruptError for the first that differs.

    Compared files are recorded in ``verified``; without ``reread``, files recorded there are not read again.
    """
    compare = partial(compare_file, verified=verified, reread=reread)
    # hashlib releases the GIL: a start waits for the largest file, not for all of them.
    with ThreadPoolExecutor(_COMPARED_AT_ONCE) as pool:
        for _ in pool.map(compare, (folder / name for name in files), files.values()):
            pass


def compare_file(path: Path, expected: str, verified: ChecksumRecord | None, *, reread: bool) -> None:
    """Compare one file with its SHA-256 (hex); raises SnapshotCorruptError, StorageError."""
    with storage_errors(path):
        if not path.is_file():
            raise SnapshotCorruptError(f"{path}: missing; {REMEDY}")
        if verified is not None and not reread and verified.holds(path, expected):
            return
        stamp = stamp_of(path)
        found = sha256_of(path)
    if found != expected:
        raise SnapshotCorruptError(
            f"{path}: SHA-256 is {found[:12]}, the manifest says {expected[:12]}; {REMEDY}"
        )
    if verified is not None:
        verified.remember(path, expected, stamp)
