"""Tests of the candidates for many seeds, which are the papers nearest to any of their sentences."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from service.search.aspect import Part
from service.search.candidates import list_candidates
from service.search.query import Strategy


@pytest.fixture(scope="module")
def snapshot(hashed_data: Path) -> Snapshot:
    """Return the demo corpus under the hashing encoder."""
    return open_snapshot(hashed_data)


def seeds_at(snapshot: Snapshot, *positions: int) -> list[Part]:
    """Return whole indexed papers as seeds."""
    return [
        Part(snapshot.vectors(at), tuple(range(len(snapshot.vectors(at)))), seed=n)
        for n, at in enumerate(positions)
    ]


def by_comparing_all(snapshot: Snapshot, vectors: np.ndarray, allowed: np.ndarray) -> list[int]:
    """Return the allowed papers by the distance of their nearest sentence."""
    rows = snapshot.gather(snapshot.positions)[0]
    nearest = np.min([np.linalg.norm(rows - vector, axis=1) for vector in vectors], axis=0)
    of_papers = np.minimum.reduceat(nearest, snapshot.offsets[:-1])
    return [int(at) for at in np.argsort(of_papers, kind="stable") if allowed[at]]


@pytest.mark.parametrize("positions", [(3,), (3, 14, 15), tuple(range(0, 90, 10)) * 20])
def test_the_nearest_come_first(snapshot: Snapshot, positions: tuple[int, ...]) -> None:
    """The first candidates are those of a comparison with every sentence, and all are allowed papers."""
    seeds = seeds_at(snapshot, *positions)
    allowed = np.ones(len(snapshot), dtype=bool)
    allowed[list(positions)] = False
    found = list_candidates(snapshot, seeds, n_papers=60, first=60, allowed=allowed)
    vectors = np.concatenate([seed.vectors for seed in seeds])
    few = len(vectors) <= 512
    expected = by_comparing_all(snapshot, vectors, allowed)
    assert expected[: 20 if few else 1] == found[: 20 if few else 1]
    assert allowed[found].all()
    assert len(set(found)) == len(found) <= 60


@pytest.fixture
def searched(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return the list that collects every sentence vector searched for."""
    searched: list[np.ndarray] = []
    search = snapshot.index.search

    def watch(queries: np.ndarray, k: int, **arguments: np.ndarray | None) -> object:
        searched.extend(queries)
        return search(queries, k, **arguments)

    monkeypatch.setattr(snapshot.index, "search", watch)
    return searched


def test_no_more_sentences_are_searched_for_than_is_bearable(
    snapshot: Snapshot, searched: list[np.ndarray]
) -> None:
    """For 500 seeds, only the most central sentence of each is searched for."""
    allowed = np.ones(len(snapshot), dtype=bool)
    seeds = seeds_at(snapshot, *(list(range(100)) * 5))
    list_candidates(snapshot, seeds, n_papers=50, first=50, allowed=allowed)
    own = seeds[7].vectors
    central = own[np.argmin(np.linalg.norm(own - own.mean(axis=0), axis=1))]
    assert (500, True) == (len(searched), bool((searched[7] == central).all()))


@pytest.mark.parametrize("n_seeds", [2, 3])
def test_long_seeds_share_what_is_bearable(
    snapshot: Snapshot, searched: list[np.ndarray], n_seeds: int
) -> None:
    """At most 512 sentences are searched for, equally many of each seed."""
    allowed = np.ones(len(snapshot), dtype=bool)
    everything = snapshot.gather(snapshot.positions)[0]
    seeds = [replace(seed, vectors=everything) for seed in seeds_at(snapshot, *range(n_seeds))]
    assert len(everything) > 512
    list_candidates(snapshot, seeds, n_papers=50, first=50, allowed=allowed)
    assert 512 // n_seeds * n_seeds == len(searched)


@pytest.mark.parametrize("n_allowed", [0, 1, 30, 100])
def test_enough_papers_are_found_where_there_are_enough(snapshot: Snapshot, n_allowed: int) -> None:
    """The search widens until it has as many papers as requested or all that are allowed."""
    allowed = np.arange(len(snapshot)) < n_allowed
    seeds = seeds_at(snapshot, *[99] * 50)
    found = list_candidates(snapshot, seeds, n_papers=90, first=90, allowed=allowed)
    assert min(n_allowed, 90) == len(found)


def test_papers_akin_to_all_are_near_to_the_mean(snapshot: Snapshot) -> None:
    """With ``Strategy.ALL`` the weighted mean of the seeds is searched for; with one seed, its sentences."""
    allowed = np.ones(len(snapshot), dtype=bool)
    arguments: dict[str, Any] = {"strategy": Strategy.ALL, "n_papers": 20, "first": 20, "allowed": allowed}
    first, second = seeds_at(snapshot, 3, 77)
    found = list_candidates(snapshot, [first, replace(second, weight=3.0)], **arguments)
    mean = (first.vectors.mean(axis=0) + 3 * second.vectors.mean(axis=0)) / 4
    assert by_comparing_all(snapshot, mean[None], allowed)[:20] == found
    alone = list_candidates(snapshot, [first], **arguments)
    assert by_comparing_all(snapshot, first.vectors, allowed)[:20] == alone
