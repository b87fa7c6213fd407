"""The results of a batch as files: NDJSON, CSV or Parquet, made a chunk at a time."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from indexer.jobs import Jobs
from models.errors import BatchNotFoundError
from service.api.exports import CSV_COLUMNS, csv_rows, csv_text, harmless
from service.api.formats import Format
from service.api.schemas.search import ResultOut
from service.batches.content import unpacked
from service.context import with_deadline

_CHUNK_S: Final = 30.0  # how long one chunk is waited for
# A row a paper; a query without papers has one row, whose problem says why.
_COLUMNS: Final = ("seed", "query_id", "problem", *CSV_COLUMNS)
_TYPES: Final = {
    "seed": pa.int32(),
    "rank": pa.int32(),
    "score": pa.float64(),
    "authors": pa.list_(pa.string()),
    "year": pa.int32(),
    "fields": pa.list_(pa.string()),
}
_SCHEMA: Final = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _COLUMNS])


@dataclass(frozen=True, slots=True)
class Stretch:
    """The results ``start`` to ``stop`` of a job, all of which are done."""

    job_id: str
    start: int
    stop: int


def as_file(form: Format, jobs: Jobs, stretch: Stretch) -> Iterator[bytes]:
    """The results in a format.

    Raises BatchNotFoundError where the job is removed meanwhile, StorageError.
    """
    lines = _lines(jobs, stretch)
    if form is Format.CSV:
        return _csv(lines, with_header=stretch.start == 0)
    if form is Format.PARQUET:
        return _parquet(lines)
    return (b"\n".join(chunk) + b"\n" for chunk in lines)


def _lines(jobs: Jobs, stretch: Stretch) -> Iterator[list[bytes]]:
    """The lines of one chunk after another."""
    at = stretch.start
    while at < stretch.stop:
        # The request's own deadline is for the start of its answer.
        stored = with_deadline(_CHUNK_S, partial(jobs.results, stretch.job_id, at))
        if stored is None:
            raise BatchNotFoundError("The batch was removed while its results were read.")
        lines = unpacked(stored.results).split(b"\n")
        yield lines[at - stored.first : stretch.stop - stored.first]
        at = stored.first + stored.n_queries


def _csv(chunks: Iterator[list[bytes]], *, with_header: bool) -> Iterator[bytes]:
    """Rows as RFC 4180 has them; a part that is read later goes on without a header."""
    if with_header:
        yield _csv_text([list(_COLUMNS)])
    for chunk in chunks:
        yield _csv_text([row for line in chunk for row in _csv_rows(orjson.loads(line))])


def _csv_text(rows: list[list[Any]]) -> bytes:
    return csv_text(rows).encode("utf-8", "replace")


def _csv_rows(line: dict[str, Any]) -> Iterator[list[Any]]:
    head = [line["seed"], harmless(line["paper_id"] or ""), harmless(_problem(line) or "")]
    results = [ResultOut.model_validate(result) for result in line.get("results", ())]
    for row in csv_rows(results):
        yield [*head, *row]
    if not results:
        yield head + [""] * len(CSV_COLUMNS)


def _problem(line: dict[str, Any]) -> str | None:
    """Why a query has no papers; ``None`` where it has some."""
    problem = line["problem"]["detail"] if "problem" in line else line["detail"] or line["reason"]
    return None if problem is None else str(problem)


def _parquet(chunks: Iterator[list[bytes]]) -> Iterator[bytes]:
    """A file of one row group a chunk, sent on as it is written."""
    sink = _Sink()
    with pq.ParquetWriter(sink, _SCHEMA, compression="zstd") as writer:
        for chunk in chunks:
            rows = [row for line in chunk for row in _parquet_rows(orjson.loads(line))]
            writer.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA))
            yield sink.taken()
    yield sink.taken()


def _parquet_rows(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {"seed": line["seed"], "query_id": line["paper_id"], "problem": _problem(line)}
    results = line.get("results", ())
    for rank, result in enumerate(results, start=1):
        yield {**head, "rank": rank, "score": result["score"], **result["paper"]}
    if not results:
        yield head


class _Sink(io.RawIOBase):
    """A file that forgets what was taken from it."""

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
        """What was written since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
