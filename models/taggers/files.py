"""Weights of small models: where they lie; safetensors, as it is or gzipped (``.safetensors.gz``)."""

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_PACKED: Final = ".gz"
_LENGTH_BYTES: Final = 8  # of what tells how long the header is, little-endian
_LONGEST_HEADER: Final = 10_000_000  # bytes; safetensors refuses longer ones


def weights_files(pattern: str, encoder: str, shipped: Path) -> list[Path]:
    """Weights of models that read hidden layers, those in the folder of ``encoder`` before the ``shipped``.

    ``encoder`` is the name of its spec: for a folder its absolute path.
    """
    own = Path(encoder)
    folders = [own, shipped] if own.is_absolute() else [shipped]
    return [path for folder in folders for path in sorted(folder.glob(pattern))]


def name_of(path: Path) -> str:
    """The name of the tagger: that of its file."""
    return path.name.removesuffix(_PACKED).removesuffix(".safetensors")


def content_of(path: Path) -> bytes:
    """The content as it is unpacked; OSError or EOFError, also of a broken archive."""
    content = path.read_bytes()
    with _as_os_error():
        return gzip.decompress(content) if path.suffix == _PACKED else content


def metadata_of(path: Path) -> dict[str, Any]:
    """The metadata of a file, of which no more than the header is read.

    Raises OSError, EOFError; ValueError for what has no header.
    """
    with _as_os_error(), gzip.open(path) if path.suffix == _PACKED else path.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if length > _LONGEST_HEADER:
            raise ValueError("it has no header of safetensors")
        found: dict[str, Any] = json.loads(stream.read(length)).get("__metadata__", {})
    return found


@contextmanager
def _as_os_error() -> Iterator[None]:
    """A broken archive is some error or other: make it one of reading."""
    try:
        yield
    except zlib.error as error:
        raise OSError(f"the archive is broken: {error}") from error
