"""The secret that signs tokens: configured, or created once and stored in the data folder."""

import base64
import errno
import hmac
import os
import secrets
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr

from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors, sync
from models.errors import StorageError

_SECRET_BYTES = 32
# Errors of a folder that is missing or not writable, or of a network share without hard links.
_CANNOT_KEEP = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTSUP, errno.ENOSYS}
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A key, and whether other processes, and this one after a restart, have the same key."""

    key: bytes
    shared: bool


class Signer:
    """Writes and reads signed tokens of one ``purpose``; the secret may also sign tokens of other purposes.

    ``content`` is the packing of their fields; ``n_bytes`` is the length of the signature.
    """

    def __init__(self, secret: Secret, purpose: bytes, content: struct.Struct, n_bytes: int) -> None:
        self._key = hmac.digest(secret.key, purpose, "sha256")
        self._content = content
        self._n_bytes = n_bytes

    def write(self, *fields: object) -> str:
        """Return the token of ``fields``."""
        content = self._content.pack(*fields)
        return _text(content + self._signature(content))

    def read(self, token: str) -> tuple[Any, ...] | None:
        """Return the fields of a token; ``None`` if it was not written with this secret and purpose."""
        try:
            signed = base64.urlsafe_b64decode(token)
        except ValueError:  # not base64, or not ASCII
            return None
        content, signature = signed[: self._content.size], signed[self._content.size :]
        # Several base64 texts decode to the same bytes, but only one of them was issued.
        if _text(signed) != token or not hmac.compare_digest(signature, self._signature(content)):
            return None
        return self._content.unpack(content)

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")[: self._n_bytes]


def _text(signed: bytes) -> str:
    return base64.urlsafe_b64encode(signed).decode()


def read_secret(data: Path, given: SecretStr | None = None) -> Secret:
    """Return ``given``, or the secret of the folder ``data``, created now if missing; no output shows it.

    If the folder cannot store one, the secret is that of this process, with a warning in the log: its tokens
    are rejected by other processes and after a restart. Raises StorageError for a damaged file.
    """
    if given is not None:
        return Secret(given.get_secret_value().encode(), shared=True)
    path = DataFolder(data).secret
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        if error.errno in _CANNOT_KEEP:
            _log.warning(
                "secret_not_kept",
                folder=str(data),
                reason=os.strerror(error.errno),
                effect="cursors are only valid in this process, and no feed can be created; set AKIN_SECRET",
            )
            return secret_of_process()
        with storage_errors(path):
            raise
    if len(key) != _SECRET_BYTES:
        raise StorageError(
            f"{path}: holds {len(key)} bytes, expected {_SECRET_BYTES}; remove it and start again"
        )
    return Secret(key, shared=True)


def secret_of_process() -> Secret:
    """Return a new secret for this process only: its tokens are valid as long as the process runs."""
    return Secret(secrets.token_bytes(_SECRET_BYTES), shared=False)


def _make(path: Path) -> None:
    """Write a new secret, readable only by its owner; if several processes write one, the first stays."""
    prepared = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(prepared, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(_SECRET_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
        # A link is atomic and, unlike a rename, never replaces the secret of another process.
        path.hardlink_to(prepared)
    except FileExistsError:
        return
    finally:
        prepared.unlink()
    sync(path.parent)
