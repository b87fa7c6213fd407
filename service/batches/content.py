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
_NAME: Final = "name"  # beside the fields of a query, of which none is called so


@dataclass(frozen=True, slots=True)
class Asked:
    """What a batch asks for: ``queries``, or the first of them for each paper of ``seeds``.

    ``names`` are what the results of recommendations are known by, one a query; no names: they are searches.
    """

    queries: tuple[SearchQuery, ...]
    seeds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One query of a batch: a search where ``name`` is ``None``, else recommendations of that name."""

    query: SearchQuery
    name: str | None = None

    @property
    def paper_id(self) -> str | None:
        """The paper that a search starts from, where it is one of the collection."""
        return self.query.seeds[0].paper_id if self.name is None else None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of query number ``seed``: an answer and the cursor of its next page, or an error.

    ``error`` is the name of a class of ``models.errors``, ``message`` what it said. ``name`` is that of
    recommendations.
    """

    seed: int
    paper_id: str | None
    answer: SearchAnswer | None = None
    next_cursor: str | None = None
    error: str | None = None
    message: str = ""
    name: str | None = None

    @classmethod
    def of_error(cls, seed: int, asked: NamedQuery, error: AkinError) -> "BatchResult":
        """Why there is no answer to a query."""
        return cls(seed, asked.paper_id, error=type(error).__name__, message=str(error), name=asked.name)

    @property
    def problem(self) -> AkinError | None:
        """The error as it was raised, if one was."""
        if self.error is None:
            return None
        error: AkinError = getattr(models.errors, self.error)(self.message)
        return error


_RESULT: Final = TypeAdapter(BatchResult)


def new_job(asked: Asked, *, owner: str, idempotency_key: str | None, generation: str) -> NewJob:
    """The job of answering what a batch asks for; equal requests have the same hash however written."""
    shared = _dumped(_plain(asked.queries[0]) if asked.seeds else {})
    digest = hashlib.sha256(shared)
    chunks = []
    for chunk in _cut_seeds(asked.seeds, asked.queries[0].limit) if asked.seeds else _cut(asked):
        content = _dumped(chunk)
        digest.update(content)
        chunks.append(ChunkContent(len(chunk), packed(content)))
    return NewJob(owner, idempotency_key, digest.hexdigest(), generation, packed(shared), chunks)


def _cut_seeds(seeds: Sequence[str], limit: int) -> Iterator[Sequence[str]]:
    size = max(1, min(_CHUNK_QUERIES, _CHUNK_PAPERS // limit))
    for start in range(0, len(seeds), size):
        yield seeds[start : start + size]


def _cut(asked: Asked) -> Iterator[Sequence[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    n_papers = 0
    for number, query in enumerate(asked.queries):
        if chunk and (len(chunk) == _CHUNK_QUERIES or n_papers + query.limit > _CHUNK_PAPERS):
            yield chunk
            chunk, n_papers = [], 0
        chunk.append(_plain(query) | ({_NAME: asked.names[number]} if asked.names else {}))
        n_papers += query.limit
    yield chunk


def queries_of(chunk: LeasedChunk) -> Iterator[NamedQuery]:
    """What a chunk asks for, in order, each read when its turn comes."""
    queries = json.loads(unpacked(chunk.queries))
    if not isinstance(queries[0], str):
        for plain in queries:
            name = plain.pop(_NAME, None)
            yield NamedQuery(_QUERY.validate_python(plain), name)
        return
    # What they share is read once: it may hold lists of thousands of ids.
    shared = _QUERY.validate_python(json.loads(unpacked(chunk.shared)))
    for paper_id in queries:
        yield NamedQuery(shared.of_paper(paper_id))


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
