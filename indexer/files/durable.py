"""Files that survive a crash: fsync, atomic replacement and file locks."""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from models.errors import BuildLockedError, StorageError

_LOCK_POLL_S = 0.02

_TOO_LARGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space, then run the same command again to resume",
    errno.EDQUOT: "the disk quota is used up; free some space, then run the same command again to resume",
    errno.EFBIG: "the file would exceed the size limit; raise the limit, then run the same command again to "
    "resume",
    errno.EACCES: "permission denied; give the current user read and write access to it",
    errno.EPERM: "not permitted; give the current user read and write access to it",
    errno.EROFS: "the file system is read-only; choose another folder with --data",
    errno.ENOENT: "no such file or folder",
    errno.EISDIR: "this is a folder, but a file is expected",
    errno.ENOTDIR: "this is a file, but a folder is expected; choose another folder with --data",
    errno.ENOLCK: "the file system does not support locks; keep the collection on a local disk, or on NFS 4",
    errno.EOPNOTSUPP: "the file system does not support locks; keep the collection on a local disk, or on "
    "NFS 4",
    errno.EBADF: "the file system cannot lock this; choose a folder on a local disk",
    errno.ESTALE: "another machine removed it from the network file system; try again",
    errno.EIO: "the device failed to read or write; check the disk",
}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Translate every OSError of the block into StorageError naming ``path`` and the remedy."""
    try:
        yield
    except OSError as error:
        # A copy or a renaming fails for lack of space at its target, which is the second name.
        target = error.filename2 if error.errno in _TOO_LARGE else None
        named = target or error.filename or path
        remedy = _REMEDIES.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"{os.fsdecode(named)}: {remedy}") from error


def sync(path: Path) -> None:
    """Flush one file or folder to the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path, *, but: Collection[str] = ()) -> None:
    """Flush every file and folder below ``folder``, except files named in ``but``, then the folder itself."""
    for child in sorted(folder.iterdir()):
        if child.is_dir():
            sync_tree(child, but=but)
        elif child.name not in but:
            sync(child)
    sync(folder)


def publish_folder(prepared: Path, target: Path, *, linked: Collection[str] = ()) -> None:
    """Rename ``prepared`` to ``target``, so that it appears complete and on the device, or not at all.

    The files ``linked`` were flushed in another folder.
    """
    sync_tree(prepared, but=linked)
    prepared.rename(target)
    sync(target.parent)


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace the content of ``path`` in one step: a reader sees the old or the new content, never half.

    Unless it is ``durable``, a crash of the machine may leave the old, the new, or no content.
    """
    prepared = path.with_name(path.name + ".new")
    with prepared.open("wb") as stream:
        stream.write(content)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    prepared.replace(path)
    if durable:
        sync(path.parent)


def write_array(
    path: Path, blocks: Iterable[np.ndarray], *, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Write ``blocks``, concatenated along the first axis, as one ``.npy`` file.

    Plain writes are used, so that a full disk raises an OSError with errno; numpy's ``save`` gives no errno,
    and a memory map would kill the process.
    """
    with path.open("wb") as stream:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for block in blocks:
            stream.write(np.ascontiguousarray(block).data)


def linked(source: Path | str, target: Path | str) -> bool:
    """Link ``target`` to the file ``source``; false if that is missing, or the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def link_or_copy(source: Path | str, target: Path | str) -> None:
    """Link ``target`` to the file ``source``, or copy it if the file system has no links."""
    if not linked(source, target):
        shutil.copyfile(source, target)


def discard_folder(folder: Path) -> None:
    """Remove a folder; it is renamed first, so that a crash in the middle leaves no incomplete folder."""
    doomed = folder.with_name(folder.name + ".discarded")
    shutil.rmtree(doomed, ignore_errors=True)
    if folder.exists():
        folder.rename(doomed)
        shutil.rmtree(doomed)


@contextmanager
def replaced_together(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a new folder; files that the block writes there replace all the files ``names`` of ``folder``.

    Files of ``names`` that the block does not write are removed. If the block raises, nothing changes. A
    crash during the replacement may leave only some of the files, but never new ones next to old ones.
    """
    prepared = folder / ".writing"
    shutil.rmtree(prepared, ignore_errors=True)
    prepared.mkdir(parents=True)
    try:
        yield prepared
        sync_tree(prepared)
        for name in names:
            (folder / name).unlink(missing_ok=True)
        sync(folder)
        for name in names:
            if (prepared / name).exists():
                (prepared / name).rename(folder / name)
        sync(folder)
    finally:
        shutil.rmtree(prepared, ignore_errors=True)


@contextmanager
def writer_lock(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock on the file at ``path``, which is released if the process dies.

    Raises StorageError; BuildLockedError if another process still holds it after ``wait_s`` seconds.
    """
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + wait_s
        with storage_errors(path):
            while not _locked(descriptor):
                if time.monotonic() >= deadline:
                    raise _in_use(path.parent)
                time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Make ``folder`` if necessary and hold the lock on it, even after it is renamed.

    The lock is released if the process dies. Raises StorageError; BuildLockedError if another process holds
    the lock, or has just renamed the folder.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        with storage_errors(folder):
            is_locked = _locked(descriptor)
        if not (is_locked and folder.is_dir() and os.path.samestat(folder.stat(), os.fstat(descriptor))):
            raise _in_use(folder)
        yield
    finally:
        os.close(descriptor)


def _in_use(folder: Path) -> BuildLockedError:
    return BuildLockedError(
        f"{folder}: another process is writing to this folder; wait for it to end or stop it"
    )


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
