"""A collection of just the papers of a match."""

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
from models.text.sentences import split_sentences
from models.types import Paper, ProgressFn

# The papers in the collection, and those to be built into it: the latter is renamed after the build.
_KEPT: Final = "match.jsonl"
_WANTED: Final = "match-new.jsonl"


def matched_papers(
    papers: Mapping[str, Paper], data: Path, annotator: Annotator, *, device: str, on_progress: ProgressFn
) -> Snapshot:
    """Build a collection of just these papers in ``data``; papers of an earlier match are not encoded again.

    With the same papers and encoder, the collection stays unchanged. Raises InputError if ``data`` is a
    collection of another kind, and the errors of ``build``.
    """
    spec = annotator.encoder.spec
    kept, wanted = data / _KEPT, data / _WANTED
    content = b"".join(orjson.dumps(_row(key, paper)) + b"\n" for key, paper in papers.items())
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


def _row(key: str, paper: Paper) -> dict[str, object]:
    """Return a paper as a row of JSON that is read as the same sentences with the same facets."""
    spans = [(each.start, each.end) for each in paper.sentences]
    is_usual = spans == [(each.start, each.end) for each in split_sentences(paper.abstract)]
    # A list has at most MAX_SENTENCES, but a text may split into more.
    abstract = paper.abstract if is_usual else [each.text for each in paper.sentences]
    facets = [each.facet for each in paper.sentences]
    row = {"id": key, "title": paper.title, "abstract": abstract}
    return row | ({"facets": facets} if any(facets) else {})


def _opened(data: Path) -> Snapshot | None:
    try:
        return open_snapshot(data)
    except SnapshotMissingError:
        return None
