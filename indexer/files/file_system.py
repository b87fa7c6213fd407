"""Detects the file system of a folder, and what Akin can do on it."""

import os
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
# Several machines may have these mounted at once; locks of NFS 4 are those of its server.
_OF_THE_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "gpfs", "afs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"}
)


def is_read_only(path: Path) -> bool:
    """Whether a file or folder is on a read-only file system, or not this user's to write; no if absent."""
    return is_mounted_read_only(path) or (path.exists() and not os.access(path, os.W_OK))


def is_mounted_read_only(path: Path) -> bool:
    """Whether a file or folder is on a file system that is mounted read-only; no where it is not there."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def network_kind(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of file system of the network that a folder is on, such as ``nfs4``; ``None`` for any other.

    ``mounts`` has a line for each mount, as Linux gives them (proc(5)); elsewhere the kind is not known.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    wanted, found = folder.resolve(), ("", "")
    for line in lines:
        fields, _, of_kind = line.partition(" - ")
        place = fields.split()[4].encode().decode("unicode_escape")  # a space is \040
        if wanted.is_relative_to(place) and len(place) >= len(found[0]):  # of two on one place the later
            found = (place, of_kind.split()[0])
    return found[1] if found[1] in _OF_THE_NETWORK else None


def limits_of(folder: Path, mounts: Path = _MOUNTS) -> dict[str, str]:
    """What does not work in a folder because of its file system: a name for each limit, and it in words."""
    limits = {}
    if is_read_only(folder):
        limits["folder_read_only"] = (
            "the folder is read-only for this process: it can be searched, but nothing is added, deleted or "
            "merged; a catalog in it can be read as long as no other process writes to it"
        )
    if kind := network_kind(folder, mounts):
        limits["folder_on_network"] = (
            f"the file system is {kind}: it must support locks, as NFS 4 does; only one machine may use a "
            "catalog in this folder, several need PostgreSQL (AKIN_CATALOG_URL, --catalog); write backups "
            "to a local disk"
        )
    return limits
