"""Finds, reads and packs the weights of small models.

x.safetensors             plain
x.safetensors.gz          gzipped
x.safetensors.halves.gz   reordered, then gzipped, which makes float16 a twentieth smaller: behind the header
                          the upper bytes of all 16-bit words, which are mostly exponents, then the lower
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_PACKED: Final = ".gz"
_HALVES: Final = ".halves"
_LENGTH_BYTES: Final = 8  # of the number that gives the length of the header, little-endian
_MAX_HEADER_BYTES: Final = 10_000_000  # bytes; safetensors refuses longer ones


def weights_files(pattern: str, encoder: str, shipped: Path) -> list[Path]:
    """Return the files that match ``pattern``, first those in the folder of ``encoder``, then in ``shipped``.

    ``encoder`` is the name in its spec: for a checkpoint folder, its absolute path.
    """
    own = Path(encoder)
    folders = [own, shipped] if own.is_absolute() else [shipped]
    return [path for folder in folders for path in sorted(folder.glob(pattern))]


def name_of(path: Path) -> str:
    """Return the name of a tagger, which is the name of its file without endings."""
    return path.name.removesuffix(_PACKED).removesuffix(_HALVES).removesuffix(".safetensors")


def content_of(path: Path) -> bytes:
    """Return the unpacked content of a file; raises OSError or EOFError, also for a broken archive."""
    content = path.read_bytes()
    with _as_os_error():
        unpacked = gzip.decompress(content) if path.suffix == _PACKED else content
    return _joined(unpacked) if path.name.endswith(_HALVES + _PACKED) else unpacked


def halved(content: bytes) -> bytes:
    """Return a safetensors file as it is in ``x.safetensors.halves``, to be gzipped."""
    start = _start(content)
    return content[:start] + content[start + 1 :: 2] + content[start::2]


def _joined(content: bytes) -> bytes:
    """Return the safetensors file that was ``halved``."""
    start = _start(content)
    n_upper = (len(content) - start) // 2
    body = bytearray(len(content) - start)
    body[1::2], body[::2] = content[start : start + n_upper], content[start + n_upper :]
    return content[:start] + bytes(body)


def _start(content: bytes) -> int:
    """Return where the header of a safetensors file ends, at most the length of the file."""
    return min(len(content), _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little"))


def metadata_of(path: Path) -> dict[str, Any]:
    """Return the metadata of a file, reading only its header.

    Raises OSError, EOFError; ValueError or AttributeError if the file has no valid header.
    """
    with _as_os_error(), gzip.open(path) if path.suffix == _PACKED else path.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if length > _MAX_HEADER_BYTES:
            raise ValueError("it has no header of safetensors")
        found: dict[str, Any] = json.loads(stream.read(length)).get("__metadata__", {})
    return found


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Turn zlib's error for a broken archive into OSError."""
    try:
        yield
    except zlib.error as error:
        raise OSError(f"the archive is broken: {error}") from error
