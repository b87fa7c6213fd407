"""Tests of the default temperature of a search, which is the one that its encoder was tuned at."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from indexer.snapshot.snapshot import Snapshot
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed


def scores_of(snapshot: Snapshot, ask: Callable[[SearchEngine], Any]) -> list[float]:
    """Return the scores of the answer over a snapshot."""
    engine = SearchEngine(snapshot, pytest.fail, n_candidates=20)
    return [ranked.score for ranked in ask(engine).results]


def tuned(snapshot: Snapshot, tau: float | None) -> Snapshot:
    """Set the temperature that the snapshot's encoder was tuned at, and return the snapshot."""
    encoder = replace(snapshot.manifest.encoder, tau=tau)
    snapshot.manifest = replace(snapshot.manifest, encoder=encoder)
    return snapshot


@pytest.mark.parametrize("named", [None, 5.0])
def test_a_search_uses_what_its_encoder_was_tuned_at(hashed_snapshot: Snapshot, named: float | None) -> None:
    """A search without a temperature uses that of its encoder; a given one takes precedence."""
    query = SearchQuery((Seed("demo:p03-m07"),), limit=3)
    expected = scores_of(hashed_snapshot, lambda engine: engine.search(replace(query, tau=named or 7.0)))
    tuned(hashed_snapshot, 7.0)
    assert expected == scores_of(hashed_snapshot, lambda engine: engine.search(replace(query, tau=named)))
    tuned(hashed_snapshot, None)
    other = scores_of(hashed_snapshot, lambda engine: engine.search(query))
    assert other != expected


def test_recommendations_use_it_too(hashed_snapshot: Snapshot) -> None:
    """Recommendations also use the temperature of the encoder."""
    query = SearchQuery((Seed("demo:p03-m07"), Seed("demo:p00-m01")), limit=3)
    before = scores_of(hashed_snapshot, lambda engine: engine.search(query))
    assert before != scores_of(tuned(hashed_snapshot, 7.0), lambda engine: engine.search(query))
