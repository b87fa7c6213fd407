"""Whether two snapshots of the same papers answer alike, however each came about."""

from collections.abc import Iterable

import numpy as np

from indexer.snapshot.snapshot import Snapshot
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from tests.support.annotators import hashing_annotator


def ids_of(snapshot: Snapshot) -> list[str]:
    """The papers that are there, each as often as it is, in the order of their ids."""
    return sorted(snapshot.paper(int(position)).id for position in snapshot.positions)


def found_by(snapshot: Snapshot, *paper_ids: str, limit: int = 20) -> list[dict[str, float]]:
    """What a search by each of these indexed papers finds, with scores."""
    engine = SearchEngine(snapshot, hashing_annotator, n_candidates=500)
    answers = (engine.search(SearchQuery((Seed(paper_id),), limit=limit)) for paper_id in paper_ids)
    return [{ranked.paper.id: ranked.score for ranked in answer.results} for answer in answers]


def assert_same_answers(one: Snapshot, other: Snapshot, ids: Iterable[str], *, limit: int = 20) -> None:
    """Both hold the same papers, and every search finds the same with the same scores."""
    assert ids_of(one) == ids_of(other)
    sampled, sampled_there = ([each.paper(int(i)).id for i in each.sample(50)] for each in (one, other))
    assert sampled == sampled_there
    asked = tuple(ids)
    found = (found_by(each, *asked, limit=limit) for each in (one, other))
    for here, there in zip(*found, strict=True):
        assert here.keys() == there.keys()
        np.testing.assert_allclose([here[key] for key in there], list(there.values()), atol=1e-6)
