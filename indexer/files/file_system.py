"""Detection of a folder's file system, and of the limits that it sets."""

import os
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
# Several machines may mount these at once; the server of NFS 4 provides its locks.
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "gpfs", "afs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"}
)


def is_read_only(path: Path) -> bool:
    """Return whether a file or folder is on a read-only file system, or not writable; false if absent."""
    return is_mounted_read_only(path) or (path.exists() and not os.access(path, os.W_OK))


def is_mounted_read_only(path: Path) -> bool:
    """Return whether a file or folder is on a file system mounted read-only; false if absent."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def network_kind(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the kind of the network file system of a folder, such as ``nfs4``; ``None`` for any other.

    ``mounts`` has a line for each mount, as on Linux (proc(5)); on other systems the result is ``None``.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    wanted, found = folder.resolve(), ("", "")
    for line in lines:
        fields, _, of_kind = line.partition(" - ")
        place = fields.split()[4].encode().decode("unicode_escape")  # a space is \040
        if wanted.is_relative_to(place) and len(place) >= len(found[0]):  # the later of two mounts
            found = (place, of_kind.split()[0])
    return found[1] if found[1] in _NETWORK_FILE_SYSTEMS else None


def limits_of(folder: Path, mounts: Path = _MOUNTS) -> dict[str, str]:
    """Return the limits that its file system sets to a folder: descriptions by name."""
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
