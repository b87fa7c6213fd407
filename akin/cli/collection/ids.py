"""Reading of files of paper ids, one id per line."""

from collections.abc import Iterator
from pathlib import Path

from akin.cli.consoles import read_input
from indexer.corpus.library.names import name_of, reference_of
from indexer.files.durable import storage_errors
from models.errors import InputError


def read_ids(path: Path) -> list[str]:
    """Return the ids of a file, or of standard input for ``-``, in order; raises InputError, StorageError."""
    try:
        with storage_errors(path):
            content = read_input() if str(path) == "-" else path.read_bytes()
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); expected one id per line.") from error
    return [line.strip() for line in lines if line.strip()]


def names_in(path: Path) -> Iterator[str]:
    """Yield the lines of a file, and the ids that they mean, such as ``doi:10.1/x`` for its address.

    Raises what ``read_ids`` raises.
    """
    for line in read_ids(path):
        yield line
        # A number alone may be the id of anything.
        if found := name_of(line) or (None if line.isdigit() else reference_of(line)):
            yield found
