"""A batch as it is stored: its queries in chunks, and their results, as JSON of the domain types."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter

import models.errors
from models.errors import AkinError
from service.batches.job import ChunkContent, LeasedChunk, NewJob, StoredResults
from service.context import check_deadline
from service.match.query import MatchedSubmission, MatchQuery, Submission
from service.search.query import SearchAnswer, SearchQuery, Seed

_CHUNK_QUERIES: Final = 50
_CHUNK_PAPERS: Final = 500  # of all answers of a chunk: what a worker and a reader hold in memory
_PROFILE: Final = 0.05  # the size of a profile without reasons, relative to that of a paper
_QUERY: Final = TypeAdapter(SearchQuery)
_SEEDS: Final = TypeAdapter(tuple[Seed, ...])
_NAME: Final = "name"  # next to the fields of a query, none of which has this name
_FROM: Final = "from"  # the key of the seeds of a query that shares all other fields
_MATCH: Final = TypeAdapter(MatchQuery)
_MATCH_KEY: Final = "match"  # the key of what the submissions of a match share


@dataclass(frozen=True, slots=True)
class BatchContent:
    """The content of a batch: ``queries``, or the first of them for each of ``seeds``.

    Each of ``seeds`` is the name of a paper, or all seeds of one query. ``names`` are the names of
    recommendations, one per query; without names, the queries are searches.
    """

    queries: tuple[SearchQuery, ...]
    seeds: tuple[str | tuple[Seed, ...], ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One query of a batch: a search if ``name`` is ``None``, else recommendations of that name."""

    query: SearchQuery
    name: str | None = None

    @property
    def paper_id(self) -> str | None:
        """The paper that a search starts from, if it is one of the collection."""
        return self.query.seeds[0].paper_id if self.name is None else None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of query number ``seed``: an answer and the cursor of its next page, or an error.

    ``error`` is the name of a class of ``models.errors``, ``message`` is its message. ``name`` is that of
    recommendations. A submission of a match has ``matched`` or an error, and ``of_match`` is true.
    """

    seed: int
    paper_id: str | None
    answer: SearchAnswer | None = None
    next_cursor: str | None = None
    error: str | None = None
    message: str = ""
    name: str | None = None
    matched: MatchedSubmission | None = None
    of_match: bool = False

    def with_error(self, error: AkinError) -> "BatchResult":
        """Return this result with the error that the query ended in."""
        return replace(self, error=type(error).__name__, message=str(error))

    @property
    def problem(self) -> AkinError | None:
        """The error as it was raised; ``None`` if there was none."""
        if self.error is None:
            return None
        error: AkinError = getattr(models.errors, self.error)(self.message)
        return error


_SUBMISSION: Final = TypeAdapter(Submission)
_RESULT: Final = TypeAdapter(BatchResult)


def hash_of(body: BaseModel) -> str:
    """Return the hash of the body of a request; equal JSON has the same hash, however it is written."""
    return hashlib.sha256(_dumped(body.model_dump(exclude_defaults=True))).hexdigest()


def new_job(
    content: BatchContent | MatchQuery,
    *,
    owner: str,
    idempotency_key: str | None,
    body_hash: str,
    generation: str,
) -> NewJob:
    """Return the job of a batch; raises DeadlineError."""
    chunks: Iterator[Sequence[object]]
    if isinstance(content, MatchQuery):
        common = replace(content, submissions=(), conflicts=())
        plain = {_MATCH_KEY: _MATCH.dump_python(common, mode="json", exclude_defaults=True, by_alias=True)}
        chunks = _cut_submissions(content)
    else:
        plain = _plain(content.queries[0]) if content.seeds else {}
        chunks = _cut(_own_seeds(content) if content.seeds else _own_queries(content))
    contents = []
    for chunk in chunks:
        check_deadline()
        contents.append(ChunkContent(len(chunk), packed(_dumped(chunk))))
    return NewJob(owner, idempotency_key, body_hash, generation, packed(_dumped(plain)), contents)


def _cut_submissions(match: MatchQuery) -> Iterator[Sequence[dict[str, Any]]]:
    submissions = [
        _SUBMISSION.dump_python(Submission(seed, names), exclude_defaults=True)
        for seed, names in zip(match.submissions, match.conflicts_by_submission(), strict=True)
    ]
    n_papers = match.options.limit * max(match.options.n_reasons, _PROFILE)
    size = max(1, min(_CHUNK_QUERIES, int(_CHUNK_PAPERS / max(n_papers, 1))))
    for start in range(0, len(submissions), size):
        yield submissions[start : start + size]


def _own_seeds(content: BatchContent) -> Iterator[tuple[object, int]]:
    """Yield what each query does not share with the others, as it is stored, and its limit."""
    for number, own in enumerate(content.seeds):
        stored: object = own
        if not isinstance(own, str):
            stored = {_FROM: _SEEDS.dump_python(own, exclude_defaults=True)} | _name(content, number)
        yield stored, content.queries[0].limit


def _own_queries(content: BatchContent) -> Iterator[tuple[object, int]]:
    """Yield each query as it is stored, and its limit."""
    for number, query in enumerate(content.queries):
        yield _plain(query) | _name(content, number), query.limit


def _name(content: BatchContent, number: int) -> dict[str, str]:
    return {_NAME: content.names[number]} if content.names else {}


def _cut(stored: Iterable[tuple[object, int]]) -> Iterator[Sequence[object]]:
    chunk: list[object] = []
    n_papers = 0
    for query, limit in stored:
        if chunk and (len(chunk) == _CHUNK_QUERIES or n_papers + limit > _CHUNK_PAPERS):
            yield chunk
            chunk, n_papers = [], 0
        chunk.append(query)
        n_papers += limit
    yield chunk


def shared_of(chunk: LeasedChunk | StoredResults) -> dict[str, Any]:
    """Return the fields that the queries of a chunk share, as they are stored."""
    shared: dict[str, Any] = json.loads(unpacked(chunk.shared))
    return shared


def is_match(shared: Mapping[str, Any]) -> bool:
    """Return whether the queries that share these fields are the submissions of a match."""
    return _MATCH_KEY in shared


def match_of(shared: Mapping[str, Any]) -> MatchQuery:
    """Return what the submissions of a match share: the profiles, and what to return."""
    return _MATCH.validate_python(shared[_MATCH_KEY])


def submissions_of(chunk: LeasedChunk) -> Iterator[Submission]:
    """Yield the submissions of a chunk of a match, in order."""
    return map(_SUBMISSION.validate_python, json.loads(unpacked(chunk.queries)))


def queries_of(chunk: LeasedChunk | StoredResults, shared: Mapping[str, Any]) -> Iterator[NamedQuery]:
    """Yield the queries of a chunk, in order; each is parsed when its turn comes."""
    # Shared fields are parsed once: they may hold lists of thousands of ids.
    common = _QUERY.validate_python(shared) if shared else None
    for stored in json.loads(unpacked(chunk.queries)):
        if common is None:
            name = stored.pop(_NAME, None)
            yield NamedQuery(_QUERY.validate_python(stored), name)
        elif isinstance(stored, str):
            yield NamedQuery(common.of_paper(stored))
        else:
            yield NamedQuery(common.of_seeds(_SEEDS.validate_python(stored[_FROM])), stored.get(_NAME))


def stored_results(results: Sequence[BatchResult]) -> bytes:
    """Return the results of a chunk as they are stored: one line each, compressed."""
    return packed(b"\n".join(map(_RESULT.dump_json, results)))


def read_results(stored: bytes, start: int, stop: int) -> list[BatchResult]:
    """Return the results ``start`` to ``stop`` (exclusive) of a chunk."""
    return [_RESULT.validate_json(line) for line in unpacked(stored).split(b"\n")[start:stop]]


def packed(content: bytes) -> bytes:
    """Compress ``content`` (Zstandard)."""
    compressed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return compressed


def unpacked(compressed: bytes) -> bytes:
    """Return the content that ``packed`` compressed."""
    with pa.input_stream(pa.py_buffer(compressed), compression="zstd") as stream:
        content: bytes = stream.read()
    return content


def _plain(query: SearchQuery) -> dict[str, Any]:
    plain: dict[str, Any] = _QUERY.dump_python(query, exclude_defaults=True)
    return plain


def _dumped(value: object) -> bytes:
    """Return JSON in ASCII, which can hold any text, even lone surrogates; sets are sorted."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=sorted).encode("ascii")
