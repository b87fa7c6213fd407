"""Assertions that two snapshots of the same papers give the same answers, however they were made."""

from collections.abc import Iterable

import numpy as np

from indexer.snapshot.snapshot import Snapshot
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from tests.support.annotators import hashing_annotator


def ids_of(snapshot: Snapshot) -> list[str]:
    """Return the ids of all visible papers, sorted and with duplicates."""
    return sorted(snapshot.paper(int(position)).id for position in snapshot.positions)


def found_by(snapshot: Snapshot, *paper_ids: str, limit: int = 20) -> list[dict[str, float]]:
    """Return the ids and scores that a search by each of these indexed papers finds."""
    engine = SearchEngine(snapshot, hashing_annotator, n_candidates=500)
    answers = (engine.search(SearchQuery((Seed(paper_id),), limit=limit)) for paper_id in paper_ids)
    return [{ranked.paper.id: ranked.score for ranked in answer.results} for answer in answers]


def assert_same_answers(one: Snapshot, other: Snapshot, ids: Iterable[str], *, limit: int = 20) -> None:
    """Assert that both have the same papers, and that every search finds the same papers and scores."""
    assert ids_of(one) == ids_of(other)
    sampled, sampled_there = ([each.paper(int(i)).id for i in each.sample(50)] for each in (one, other))
    assert sampled == sampled_there
    query_ids = tuple(ids)
    found = (found_by(each, *query_ids, limit=limit) for each in (one, other))
    for here, there in zip(*found, strict=True):
        assert here.keys() == there.keys()
        np.testing.assert_allclose([here[key] for key in there], list(there.values()), atol=1e-6)
