"""Digests: short names of searches and generations, the same in all processes."""

import hashlib
import json
from dataclasses import fields, is_dataclass

from indexer.files.data_folder import deleted_file
from indexer.snapshot.manifest import Manifest


def digest_of(content: object) -> bytes:
    """Return the SHA-256 of domain values, of plain ones, or of tuples of them; sets are sorted."""
    return hashlib.sha256(json.dumps(content, default=_plain, sort_keys=True).encode()).digest()


def generation_digest(manifest: Manifest) -> bytes:
    """Return 16 bytes of the SHA-256 of the manifest: in a folder emptied and filled again, names repeat."""
    return hashlib.sha256(manifest.to_json()).digest()[:16]


def content_digest(manifest: Manifest) -> bytes:
    """Return 16 bytes of the SHA-256 of what searches read, whatever the names of generation and segments.

    Two generations with the same files have the same digest: in another folder, or after a change without
    effect.
    """
    segments = [
        (each.backend, sorted(each.files.items()), manifest.files.get(deleted_file(each.name)))
        for each in manifest.segments
    ]
    return digest_of((manifest.encoder, manifest.effort, segments))[:16]


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be encoded in the same way by all processes")
