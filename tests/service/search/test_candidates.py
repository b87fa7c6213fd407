"""Tests of the candidates, which are the best papers of an unlimited single-match search."""

from pathlib import Path

import numpy as np
import pytest

from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.transport import Scorer, score_papers
from service.search.candidates import ALL_AT_ONCE, find_candidates
from tests.support.builds import build_quietly, write_corpus


def by_brute_force(snapshot: Snapshot, query: np.ndarray, allowed: np.ndarray) -> list[int]:
    """Return all allowed papers by single match, best first, ties by position."""
    rows = snapshot.gather(snapshot.positions)[0]
    scores = score_papers(query, rows, snapshot.offsets, scorer=Scorer.SINGLE).scores
    order = np.lexsort((np.arange(len(scores)), -scores.astype(np.float32)))
    return [int(i) for i in order if allowed[i]]


@pytest.mark.parametrize("n_papers", [1, 7, 50, 99, 100, 1000])
@pytest.mark.parametrize("n_allowed", [100, 60, 1])
@pytest.mark.parametrize("at_once", [0, ALL_AT_ONCE])
def test_candidates_are_the_nearest_papers(
    hashed_snapshot: Snapshot, n_papers: int, n_allowed: int, at_once: int
) -> None:
    """The nearest allowed papers are found, as many as requested or as are allowed."""
    snapshot = hashed_snapshot
    allowed = np.zeros(len(snapshot), dtype=bool)
    allowed[np.random.default_rng(0).permutation(len(snapshot))[:n_allowed]] = True
    query = hashed_snapshot.vectors(17)
    found = find_candidates(snapshot, query, n_papers=n_papers, allowed=allowed, at_once=at_once)
    expected = by_brute_force(snapshot, query, allowed)[:n_papers]
    assert expected == [candidate.position for candidate in found]
    scores = [candidate.score for candidate in found]
    assert sorted(scores, reverse=True) == scores


@pytest.mark.parametrize("n_papers", [1, 2, 3])
def test_ties_between_batches_of_sentences_come_in_order(
    tmp_path: Path, hashing: Encoder, n_papers: int
) -> None:
    """Of equally near papers the first are found, also where a later batch of sentences finds another one."""
    near, other = "Floods of the river are forecast.", "Ropes are sorted by their length."
    papers = [{"id": f"p{i}", "title": "A", "abstract": [near] * 4} for i in range(3)]
    papers += [{"id": f"q{i}", "title": f"B {i}", "abstract": [f"Topic {i} of area {i}."]} for i in range(40)]
    papers.append({"id": "last", "title": "C", "abstract": [other]})
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    snapshot = open_snapshot(tmp_path / "data")
    rng = np.random.default_rng(0)
    query = rng.normal(size=(70, snapshot.vectors(0).shape[1])).astype(np.float32) * 100
    query[0], query[66] = snapshot.vectors(0)[0], snapshot.vectors(len(snapshot) - 1)[0]
    found = find_candidates(
        snapshot, query, n_papers=n_papers, allowed=np.ones(len(snapshot), dtype=bool), exact=True, at_once=0
    )
    assert [*range(n_papers)] == [candidate.position for candidate in found]


def test_nothing_allowed_gives_nothing(hashed_snapshot: Snapshot) -> None:
    """If no paper is allowed there is no candidate."""
    allowed = np.zeros(len(hashed_snapshot), dtype=bool)
    assert [] == find_candidates(hashed_snapshot, hashed_snapshot.vectors(0), n_papers=5, allowed=allowed)


def test_one_paper_with_every_near_sentence_hides_no_other(tmp_path: Path, hashing: Encoder) -> None:
    """If sentences of one paper fill whole hit lists, the search widens until it finds other papers."""
    crowd = [f"Floods of the river are forecast at station {i}." for i in range(300)]
    others = [
        {"id": f"p{i}", "title": f"Study {i}", "abstract": [f"Topic {i} of area {i}.", f"Result {i}."]}
        for i in range(40)
    ]
    papers = [{"id": "crowd", "title": "Floods", "abstract": crowd}, *others]
    build_quietly(write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", hashing)
    snapshot = open_snapshot(tmp_path / "data")
    allowed = np.ones(len(snapshot), dtype=bool)
    query = snapshot.vectors(0)[:3]
    found = find_candidates(snapshot, query, n_papers=10, allowed=allowed, at_once=0)
    assert by_brute_force(snapshot, query, allowed)[:10] == [c.position for c in found]
