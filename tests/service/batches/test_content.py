"""Tests of the content of stored batches."""

import json
import os
from typing import Any

import pyarrow as pa
import pytest

from models.errors import DeadlineError
from models.types import Filters
from service.api.schemas.batches import ProfilesBatchIn, SeedsBatchIn
from service.batches.content import NamedQuery, match_of, new_job, packed, queries_of, unpacked
from service.batches.job import NewJob, StoredResults
from service.context import with_deadline
from service.match.query import MatchOptions, MatchQuery, Profile
from service.search.aspect import Aspect
from service.search.query import SearchQuery, Seed

MANY_IDS = [f"paper-{number:05}" for number in range(2_000)]
SHARED = {"filters": {"ids": MANY_IDS, "exclude_ids": MANY_IDS[:9]}, "limit": 7, "include": ["abstract"]}
BATCHES: dict[str, dict[str, Any]] = {
    "seeds": {"seeds": ["a", *({"paper_id": "b", "sentences": [number]} for number in range(200))]},
    "profiles": {"profiles": [{"name": f"reader {i}", "papers": ["a", "b"]} for i in range(200)]},
}


def job_of(body: dict[str, Any]) -> NewJob:
    """Return the job of a batch that is given by its body."""
    shape: type[SeedsBatchIn | ProfilesBatchIn] = SeedsBatchIn if "seeds" in body else ProfilesBatchIn
    batch = shape.model_validate(body)
    content = batch.to_content({}) if isinstance(batch, ProfilesBatchIn) else batch.to_content()
    return new_job(content, owner="me", idempotency_key=None, body_hash="", generation="000001")


def queries_in(job: NewJob) -> list[NamedQuery]:
    """Return the queries of a job as a worker reads them."""
    shared = json.loads(unpacked(job.shared))
    chunks = [StoredResults(0, each.n_queries, b"", each.queries) for each in job.chunks]
    return [query for chunk in chunks for query in queries_of(chunk, shared)]


@pytest.mark.parametrize("content", [b"", b"{}", b"abc" * 100_000, os.urandom(300_000)])
def test_stored_batches_are_read_by_every_version(content: bytes) -> None:
    """Earlier versions compressed in a stream; either version reads what the other wrote."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    assert content == unpacked(sink.getvalue().to_pybytes()) == unpacked(packed(content))
    with pa.CompressedInputStream(pa.BufferReader(packed(content)), "zstd") as stream:
        assert content == stream.read()


@pytest.mark.parametrize("kind", BATCHES)
def test_what_queries_share_is_stored_once(kind: str) -> None:
    """A batch whose queries share long lists of ids is stored in the size of its body, not once per query."""
    body = BATCHES[kind] | SHARED
    job = job_of(body)
    n_stored = sum(len(unpacked(each)) for each in (job.shared, *(chunk.queries for chunk in job.chunks)))
    assert n_stored < 2 * len(json.dumps(body))


def test_each_query_has_its_own_seeds_and_what_all_share() -> None:
    """Queries that are stored apart from what they share are read whole, with their own aspects and names."""
    shared = {**SHARED, "facet": "method"}
    text = {"text": "rivers flood", "weight": 2.0}
    job = job_of({"seeds": ["a", {"paper_id": "b", "sentences": [3]}, {"paper_id": "c"}, text], **shared})
    seeds = [own for each in queries_in(job) for own in each.query.seeds]
    common = Aspect(facets=("method",))  # type: ignore[arg-type]  # as it is given
    assert seeds == [
        Seed("a", aspect=common),
        Seed("b", aspect=Aspect(sentences=(3,))),
        Seed("c", aspect=common),
        Seed(text="rivers flood", weight=2.0, aspect=common),
    ]
    named = queries_in(job_of(BATCHES["profiles"] | SHARED))
    assert ["reader 0", "reader 199"] == [named[0].name, named[-1].name]
    assert all((Seed("a"), Seed("b")) == each.query.seeds for each in named)
    filters = Filters(ids=frozenset(MANY_IDS), exclude_ids=frozenset(MANY_IDS[:9]))
    for each in (*queries_in(job), *named):
        assert (filters, 7) == (each.query.filters, each.query.limit)


def test_batches_of_earlier_versions_are_read() -> None:
    """A batch whose every query is stored whole, with its filters and name, still has the same queries."""
    stored = [
        {"seeds": [{"paper_id": "a"}, {"paper_id": "b"}], "filters": {"exclude_ids": ["x"]}, "name": "ada"},
        {"seeds": [{"paper_id": "c"}], "limit": 3},
    ]
    chunk = StoredResults(0, 2, b"", packed(json.dumps(stored).encode()))
    filters = Filters(exclude_ids=frozenset({"x"}))
    assert list(queries_of(chunk, {})) == [
        NamedQuery(SearchQuery((Seed("a"), Seed("b")), filters=filters), "ada"),
        NamedQuery(SearchQuery((Seed("c"),), limit=3)),
    ]


def test_the_options_of_a_match_are_stored_as_earlier_versions_store_them() -> None:
    """A stored match has its options under the name that it always had, and is read with them."""
    match = MatchQuery((), (Profile("ada", ("a",)),), options=MatchOptions(limit=3))
    job = new_job(match, owner="me", idempotency_key=None, body_hash="", generation="000001")
    stored = json.loads(unpacked(job.shared))
    assert {"limit": 3} == stored["match"]["told"]
    assert match == match_of(stored)


def test_a_batch_is_not_stored_past_its_deadline() -> None:
    """A batch that takes longer than the time limit to prepare is refused."""
    with pytest.raises(DeadlineError):
        with_deadline(0, lambda: job_of(BATCHES["seeds"] | SHARED))
