"""Files of a tagger's weights: safetensors, as they are or gzipped (``.safetensors.gz``)."""

import gzip
import json
from pathlib import Path
from typing import Any, Final

_PACKED: Final = ".gz"
_LENGTH_BYTES: Final = 8  # of what tells how long the header is, little-endian
_LONGEST_HEADER: Final = 10_000_000  # bytes; safetensors refuses longer ones


def name_of(path: Path) -> str:
    """The name of the tagger: that of its file."""
    return path.name.removesuffix(_PACKED).removesuffix(".safetensors")


def content_of(path: Path) -> bytes:
    """The content as it is unpacked; OSError (of which a broken archive is one) or EOFError."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == _PACKED else content


def metadata_of(path: Path) -> dict[str, Any]:
    """The metadata of a file, of which no more than the header is read.

    Raises OSError, EOFError; ValueError for what has no header.
    """
    with gzip.open(path) if path.suffix == _PACKED else path.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if length > _LONGEST_HEADER:
            raise ValueError("it has no header of safetensors")
        found: dict[str, Any] = json.loads(stream.read(length)).get("__metadata__", {})
    return found
