"""A batch as it is stored: its queries in chunks, from a request and back, and the lines of its results."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
import pyarrow as pa

from indexer.job import ChunkContent, LeasedChunk, NewJob
from models.errors import AkinError
from service.api.errors import described
from service.api.schemas.batches import BatchIn
from service.api.schemas.search import FirstPageIn, SearchOut
from service.search.engine import SearchQuery

_CHUNK_QUERIES: Final = 50
_CHUNK_PAPERS: Final = 500  # of all its answers together: what a worker and a reader hold in memory


@dataclass(frozen=True, slots=True)
class Line:
    """The outcome of one query as a line of JSON, without its end."""

    content: bytes
    is_problem: bool


def new_job(body: BatchIn, *, owner: str, idempotency_key: str | None, generation: str) -> NewJob:
    """The job that a request asks for; equal requests have the same hash however they were written."""
    shared = _dumped(body.model_dump(mode="json", exclude_unset=True, exclude={"seeds", "queries"}))
    digest = hashlib.sha256(shared)
    chunks = []
    for queries in _cut(body):
        content = _dumped(queries)
        digest.update(content)
        chunks.append(ChunkContent(len(queries), packed(content)))
    return NewJob(owner, idempotency_key, digest.hexdigest(), generation, packed(shared), chunks)


def _cut(body: BatchIn) -> Iterator[Sequence[Any]]:
    """Chunks of ids, or of bodies of ``/v1/search``."""
    if body.seeds is not None:
        size = max(1, min(_CHUNK_QUERIES, _CHUNK_PAPERS // body.limit))
        for start in range(0, len(body.seeds), size):
            yield body.seeds[start : start + size]
        return
    chunk: list[dict[str, Any]] = []
    n_papers = 0
    for query in body.queries or ():
        if chunk and (len(chunk) == _CHUNK_QUERIES or n_papers + query.limit > _CHUNK_PAPERS):
            yield chunk
            chunk, n_papers = [], 0
        chunk.append(query.model_dump(mode="json", exclude_unset=True))
        n_papers += query.limit
    yield chunk


def queries_of(chunk: LeasedChunk) -> Iterator[SearchQuery]:
    """What a chunk asks for, in order, each read when its turn comes: long abstracts take time to split."""
    queries = json.loads(unpacked(chunk.queries))
    if not isinstance(queries[0], str):
        for query in queries:
            yield FirstPageIn.model_validate(query).to_query()
        return
    # What they share is read once: it may hold lists of thousands of ids.
    shared = json.loads(unpacked(chunk.shared))
    first = FirstPageIn.model_validate({**shared, "query": {"paper_id": queries[0]}}).to_query()
    for paper_id in queries:
        yield replace(first, paper_id=paper_id)


def answer_line(seed: int, query: SearchQuery, out: SearchOut) -> Line:
    """The answer to query number ``seed``, as ``/v1/search`` gives it, but for ``took_ms``."""
    answer = out.model_dump(mode="json", exclude={"took_ms"})
    return Line(orjson.dumps({"seed": seed, "paper_id": query.paper_id, **answer}), is_problem=False)


def problem_line(seed: int, query: SearchQuery, error: AkinError) -> Line:
    """Why there is no answer to query number ``seed``."""
    line = {"seed": seed, "paper_id": query.paper_id, "problem": described(error)}
    return Line(orjson.dumps(line), is_problem=True)


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


def _dumped(value: object) -> bytes:
    """JSON in ASCII: it holds any text, lone surrogates too."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")
