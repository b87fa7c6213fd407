"""The papers of a match as a collection of their own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from indexer.collection.build import build
from indexer.encoding.arguments import BuildArguments
from indexer.files.durable import replace_file, storage_errors
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import InputError, SnapshotMissingError
from models.types import Paper, ProgressFn

# What is in the collection, and what is to be: renamed once it is.
_KEPT: Final = "match.jsonl"
_WANTED: Final = "match-new.jsonl"


def matched_papers(
    papers: Mapping[str, Paper], data: Path, annotator: Annotator, *, device: str, on_progress: ProgressFn
) -> Snapshot:
    """A collection of just these papers in ``data``; what it held of an earlier match is not encoded again.

    Of the same papers and the same encoder it stays as it is. Raises InputError where ``data`` is a
    collection of another kind, and what ``build`` raises.
    """
    spec = annotator.encoder.spec
    kept, wanted = data / _KEPT, data / _WANTED
    rows = ({"id": key, "title": each.title, "abstract": each.abstract} for key, each in papers.items())
    content = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    with storage_errors(data):
        before = _opened(data)
        if before and not (kept.exists() or wanted.exists()):
            raise InputError(f"{data} is a collection, which the match would replace; name another folder.")
        same_encoder = before and before.manifest.encoder.fingerprint == spec.fingerprint
        if before and same_encoder and kept.exists() and kept.read_bytes() == content:
            return before
        data.mkdir(parents=True, exist_ok=True)
        replace_file(wanted, content)
        arguments = BuildArguments(
            spec.name, format_name="jsonl", on_error="fail", backend="exact", device=device
        )
        build([wanted], data, annotator, arguments=arguments, on_progress=on_progress, replace=True)
        wanted.replace(kept)
    return open_snapshot(data)


def _opened(data: Path) -> Snapshot | None:
    try:
        return open_snapshot(data)
    except SnapshotMissingError:
        return None
