"""Reading of files of paper ids, one id per line."""

from pathlib import Path

from indexer.files.durable import storage_errors
from models.errors import InputError


def read_ids(path: Path) -> list[str]:
    """Return the ids of a file, in its order; raises InputError, StorageError."""
    try:
        with storage_errors(path):
            lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); expected one id per line.") from error
    return [line.strip() for line in lines if line.strip()]
