"""Reading of files of paper ids, one id per line."""

import sys
from pathlib import Path

from indexer.files.durable import storage_errors
from models.errors import InputError


def read_ids(path: Path) -> list[str]:
    """Return the ids of a file, or of standard input for ``-``, in order; raises InputError, StorageError."""
    try:
        with storage_errors(path):
            content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); expected one id per line.") from error
    return [line.strip() for line in lines if line.strip()]
