"""Checksums: by them altered weights and damaged snapshots are noticed."""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt64


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hex; OSError where it cannot be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_whole(path: Path, sha256: str) -> bool:
    """Whether a file is there and its SHA-256 is the one stated, in hex; OSError where it cannot be read."""
    return path.is_file() and sha256_of(path) == sha256


def hash64(text: str) -> int:
    """64 bits by which a text is known, the same on every machine."""
    encoded = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little")


def hashes64(texts: Collection[str]) -> UInt64[np.ndarray, " n"]:
    """``hash64`` of each of ``texts``, in order."""
    return np.fromiter(map(hash64, texts), dtype=np.uint64, count=len(texts))


def digest_of(content: dict[str, Any]) -> str:
    """The SHA-256 of what JSON can say, in hex, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
