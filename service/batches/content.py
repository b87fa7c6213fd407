"""A batch as it is stored: its queries in chunks, and their results, as JSON of the core's own types."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pydantic import TypeAdapter

import models.errors
from models.errors import AkinError
from service.batches.job import ChunkContent, LeasedChunk, NewJob
from service.search.query import SearchAnswer, SearchQuery

_CHUNK_QUERIES: Final = 50
_CHUNK_PAPERS: Final = 500  # of all its answers together: what a worker and a reader hold in memory
_QUERY: Final = TypeAdapter(SearchQuery)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of query number ``seed``: an answer and the cursor of its next page, or an error.

    ``error`` is the name of a class of ``models.errors``, ``message`` what it said.
    """

    seed: int
    paper_id: str | None
    answer: SearchAnswer | None = None
    next_cursor: str | None = None
    error: str | None = None
    message: str = ""

    @classmethod
    def of_error(cls, seed: int, paper_id: str | None, error: AkinError) -> "BatchResult":
        """Why there is no answer to a query."""
        return cls(seed, paper_id, error=type(error).__name__, message=str(error))

    @property
    def problem(self) -> AkinError | None:
        """The error as it was raised, if one was."""
        if self.error is None:
            return None
        error: AkinError = getattr(models.errors, self.error)(self.message)
        return error


_RESULT: Final = TypeAdapter(BatchResult)


def new_job(
    queries: Sequence[SearchQuery],
    *,
    seeds: Sequence[str] = (),
    owner: str,
    idempotency_key: str | None,
    generation: str,
) -> NewJob:
    """The job of answering ``queries``, or the first of them for each paper of ``seeds``.

    Equal requests have the same hash however they were written.
    """
    shared = _dumped(_plain(queries[0]) if seeds else {})
    digest = hashlib.sha256(shared)
    chunks = []
    for chunk in _cut_seeds(seeds, queries[0].limit) if seeds else _cut(queries):
        content = _dumped(chunk)
        digest.update(content)
        chunks.append(ChunkContent(len(chunk), packed(content)))
    return NewJob(owner, idempotency_key, digest.hexdigest(), generation, packed(shared), chunks)


def _cut_seeds(seeds: Sequence[str], limit: int) -> Iterator[Sequence[str]]:
    size = max(1, min(_CHUNK_QUERIES, _CHUNK_PAPERS // limit))
    for start in range(0, len(seeds), size):
        yield seeds[start : start + size]


def _cut(queries: Sequence[SearchQuery]) -> Iterator[Sequence[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    n_papers = 0
    for query in queries:
        if chunk and (len(chunk) == _CHUNK_QUERIES or n_papers + query.limit > _CHUNK_PAPERS):
            yield chunk
            chunk, n_papers = [], 0
        chunk.append(_plain(query))
        n_papers += query.limit
    yield chunk


def queries_of(chunk: LeasedChunk) -> Iterator[SearchQuery]:
    """What a chunk asks for, in order, each read when its turn comes."""
    queries = json.loads(unpacked(chunk.queries))
    if not isinstance(queries[0], str):
        yield from map(_QUERY.validate_python, queries)
        return
    # What they share is read once: it may hold lists of thousands of ids.
    shared = _QUERY.validate_python(json.loads(unpacked(chunk.shared)))
    for paper_id in queries:
        yield shared.of_paper(paper_id)


def stored_results(results: Sequence[BatchResult]) -> bytes:
    """The results of a chunk as they are kept: a line each, compressed."""
    return packed(b"\n".join(map(_RESULT.dump_json, results)))


def read_results(stored: bytes, start: int, stop: int) -> list[BatchResult]:
    """The results ``start`` to ``stop`` of a chunk."""
    return [_RESULT.validate_json(line) for line in unpacked(stored).split(b"\n")[start:stop]]


def packed(content: bytes) -> bytes:
    """``content`` compressed (Zstandard)."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


def unpacked(compressed: bytes) -> bytes:
    """What ``packed`` was given."""
    with pa.CompressedInputStream(pa.BufferReader(compressed), "zstd") as stream:
        content: bytes = stream.read()
    return content


def _plain(query: SearchQuery) -> dict[str, Any]:
    plain: dict[str, Any] = _QUERY.dump_python(query, exclude_defaults=True)
    return plain


def _dumped(value: object) -> bytes:
    """JSON in ASCII: it holds any text, lone surrogates too; sets are sorted."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=sorted).encode("ascii")
