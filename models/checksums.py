"""Checksums, which reveal altered weights and damaged snapshots."""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt64


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex; raises OSError if it cannot be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def matches_checksum(path: Path, sha256: str) -> bool:
    """Return whether a file exists and has this SHA-256 (hex); raises OSError if it cannot be read."""
    return path.is_file() and sha256_of(path) == sha256


def hash64(text: str) -> int:
    """Return a 64-bit hash of a text, the same on every machine."""
    encoded = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little")


def hashes64(texts: Collection[str]) -> UInt64[np.ndarray, " n"]:
    """Return ``hash64`` of each of ``texts``, in order."""
    return np.fromiter(map(hash64, texts), dtype=np.uint64, count=len(texts))


def digest_of(content: dict[str, Any]) -> str:
    """Return the SHA-256 (hex) of an object as JSON, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
