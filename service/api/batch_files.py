"""The results of a batch as files: NDJSON, CSV or Parquet, made a chunk at a time."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from indexer.files.cells import escape_formulas
from models.errors import BatchNotFoundError
from service.api.answers import RankedOut
from service.api.errors import described
from service.api.exports import BYTE_ORDER_MARK, CSV_COLUMNS, csv_rows, csv_text
from service.api.formats import Format
from service.api.schemas.base import PaperOut, WarningOut
from service.api.schemas.match import MatchedSubmissionOut
from service.api.schemas.search.recommendations import RecommendationsOut
from service.api.schemas.search.results import SearchOut
from service.batches.content import BatchResult, is_match, queries_of, read_results, shared_of
from service.batches.job import StoredResults
from service.batches.jobs import Jobs
from service.context import with_deadline
from service.match.query import MatchedSubmission
from service.search.query import SearchQuery

_CHUNK_S: Final = 30.0  # how long to wait for one chunk
# One row per paper, or per profile of a match; a query without any has one row, with its problem.
_HEAD: Final = ("seed", "query_id", "problem")
_COLUMNS: Final = (*_HEAD, *CSV_COLUMNS)
_MATCH_COLUMNS: Final = (*_HEAD, "title", "rank", "profile", "affinity", "papers")
_TYPES: Final = {
    "seed": pa.int32(),
    "rank": pa.int32(),
    "score": pa.float64(),
    "nearer_than": pa.float64(),
    "affinity": pa.float64(),
    "papers": pa.int32(),
    "authors": pa.list_(pa.string()),
    "year": pa.int32(),
    "fields": pa.list_(pa.string()),
}


@dataclass(frozen=True, slots=True)
class ResultRange:
    """The results ``start`` to ``stop`` (exclusive) of a job; all of them are done."""

    job_id: str
    start: int
    stop: int


def as_file(
    form: Format, jobs: Jobs, stretch: ResultRange, *, for_spreadsheets: bool = False
) -> Iterator[bytes]:
    """Return the results in a format, chunk by chunk; CSV ``for_spreadsheets`` begins with a byte order mark.

    Raises BatchNotFoundError if the job is removed meanwhile, StorageError.
    """
    chunks = results_of(jobs, stretch)
    if form is Format.CSV:
        mark = BYTE_ORDER_MARK if for_spreadsheets else ""
        return _csv(chunks, with_header=stretch.start == 0, mark=mark)
    if form is Format.PARQUET:
        return _parquet(chunks, of_match=_of_match(jobs, stretch.job_id))
    return (b"".join(map(_line, chunk)) for chunk in chunks)


def results_of(jobs: Jobs, stretch: ResultRange) -> Iterator[list[BatchResult]]:
    """Yield the results of one chunk after another; raises BatchNotFoundError, StorageError."""
    for stored, first, stop in _chunks_of(jobs, stretch):
        yield read_results(stored.results, first, stop)


def queries_in(jobs: Jobs, stretch: ResultRange) -> Iterator[SearchQuery]:
    """Yield the queries of these results; none for a match. Raises BatchNotFoundError, StorageError."""
    for stored, first, stop in _chunks_of(jobs, stretch, with_queries=True):
        shared = shared_of(stored)
        if is_match(shared):
            return
        yield from (each.query for each in islice(queries_of(stored, shared), first, stop))


def _chunks_of(
    jobs: Jobs, stretch: ResultRange, *, with_queries: bool = False
) -> Iterator[tuple[StoredResults, int, int]]:
    """Yield each stored chunk with the range of its queries to return, whose end may be past the chunk's."""
    at = stretch.start
    while at < stretch.stop:
        # The deadline of the request only covers the start of its answer.
        read = partial(jobs.results, stretch.job_id, at, with_queries=with_queries)
        stored = with_deadline(_CHUNK_S, read)
        if stored is None:
            raise BatchNotFoundError("The batch was removed while its results were read.")
        yield stored, at - stored.first, stretch.stop - stored.first
        at = stored.first + stored.n_queries


def _line(result: BatchResult) -> bytes:
    """Return a result as the endpoint for single queries does, without ``took_ms``, or its problem."""
    line: dict[str, Any] = {"seed": result.seed, "paper_id": result.paper_id}
    if result.name is not None:
        line["name"] = result.name
    if result.answer is not None:
        shape: type[RankedOut] = SearchOut if result.name is None else RecommendationsOut
        out = shape.of(result.answer, next_cursor=result.next_cursor)
        line |= out.model_dump(mode="json", exclude={"took_ms"})
    elif result.matched is not None:
        line["match"] = MatchedSubmissionOut.of(result.seed, result.matched).model_dump(mode="json")
        line["warnings"] = [WarningOut.model_validate(each).model_dump() for each in result.matched.warnings]
    elif (problem := result.problem) is not None:
        line["problem"] = described(problem)
    return orjson.dumps(line) + b"\n"


def _columns(chunk: list[BatchResult]) -> tuple[str, ...]:
    """Return the columns of a table of the results; all results of a batch are of one kind."""
    return _MATCH_COLUMNS if chunk[0].of_match else _COLUMNS


def _csv(chunks: Iterator[list[BatchResult]], *, with_header: bool, mark: str) -> Iterator[bytes]:
    """Yield ``mark`` and CSV (RFC 4180), chunk by chunk; a part that is read later has no header."""
    yield mark.encode()
    for number, chunk in enumerate(chunks):
        header = [list(_columns(chunk))] if with_header and number == 0 else []
        rows = (row for result in chunk for row in _csv_rows(result))
        yield csv_text([*header, *rows]).encode("utf-8", "replace")


def _csv_rows(result: BatchResult) -> Iterator[list[Any]]:
    head = [
        result.seed,
        escape_formulas(result.paper_id or result.name or ""),
        escape_formulas(problem_of(result) or ""),
    ]
    if result.matched is not None:
        rows = [
            [escape_formulas(value) if isinstance(value, str) else value for value in row.values()]
            for row in _profiles(result.matched)
        ]
    else:
        ranked = () if result.answer is None else result.answer.results
        rows = list(csv_rows(ranked))
    n_empty = len(_columns([result])) - len(head)
    yield from ([*head, *row] for row in rows or [[""] * n_empty])


def _profiles(matched: MatchedSubmission) -> list[dict[str, Any]]:
    """Return one row per profile, nearest first: the columns of a match that follow the head."""
    return [
        {
            "title": matched.paper.title,
            "rank": rank,
            "profile": each.name,
            "affinity": each.affinity,
            "papers": each.n_papers,
        }
        for rank, each in enumerate(matched.profiles, start=1)
    ]


def problem_of(result: BatchResult) -> str | None:
    """Return why a query has no results, or ``None`` if it has some."""
    if (problem := result.problem) is not None:
        return str(described(problem)["detail"])
    return None if result.answer is None else result.answer.detail


def _of_match(jobs: Jobs, job_id: str) -> bool:
    """Return whether a finished job is a match, even if none of its results are requested."""
    stored = jobs.results(job_id, 0, with_queries=True)
    return stored is not None and is_match(shared_of(stored))


def _parquet(chunks: Iterator[list[BatchResult]], *, of_match: bool) -> Iterator[bytes]:
    """Yield a Parquet file with one row group per chunk, each part as soon as it is written."""
    sink = _Sink()
    columns = _MATCH_COLUMNS if of_match else _COLUMNS
    schema = pa.schema([(name, _TYPES.get(name, pa.string())) for name in columns])
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for chunk in chunks:
            rows = [row for result in chunk for row in _parquet_rows(result)]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            yield sink.taken()
    yield sink.taken()


def _parquet_rows(result: BatchResult) -> Iterator[dict[str, Any]]:
    head = {"seed": result.seed, "query_id": result.paper_id or result.name, "problem": problem_of(result)}
    if result.matched is not None:
        rows = _profiles(result.matched)
    else:
        ranked = () if result.answer is None else result.answer.results
        rows = [
            {
                "rank": rank,
                "score": each.score,
                "strength": each.strength and each.strength.label,
                "nearer_than": each.strength and each.strength.nearer_than,
                **PaperOut.model_validate(each.paper).model_dump(),
            }
            for rank, each in enumerate(ranked, start=1)
        ]
    yield from ({**head, **row} for row in rows or [{}])


class _Sink(io.RawIOBase):
    """A write-only file that drops the bytes that were taken from it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._n_written = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._parts.append(bytes(content))
        self._n_written += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._n_written

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
