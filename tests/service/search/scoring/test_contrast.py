"""Tests of contrast, which subtracts the match with the unlike side, cell by cell."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from models.transport import SERVING, Scorer, score_papers
from models.types import Paper, Sentence, Unit
from service.app import create_app
from service.search.aspect import Part
from service.search.explain import explain
from service.search.seeds import own_weights
from service.settings import Settings
from tests.support import clients
from tests.support.answers import explained, warned


def unit_vectors(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return ``n`` random vectors of unit norm."""
    rows = rng.normal(size=(n, 12)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 9)),
    weight=st.floats(0.01, 1),
    scorer=st.sampled_from(list(Scorer)),
)
def test_contrast_decomposes(seed: int, sizes: tuple[int, int, int], weight: float, scorer: Scorer) -> None:
    """The score is minus the sum of weighted distances, and each side keeps its own weights and sentences."""
    rng = np.random.default_rng(seed)
    n_like, n_unlike, n_sentence = sizes
    like = Part(unit_vectors(rng, n_like), tuple(range(n_like)))
    unlike = Part(unit_vectors(rng, n_unlike), tuple(range(n_like, n_like + n_unlike)), True, weight)
    rows, offsets = unit_vectors(rng, n_sentence), np.array([0, n_sentence])
    parts = [like, unlike]
    compared = [
        score_papers(part.vectors, rows, offsets, scorer=scorer, settings=replace(SERVING, tau=0.15))
        for part in parts
    ]
    sentences = tuple(Sentence("x.", 3 * i, 3 * i + 2) for i in range(n_sentence))
    weights = own_weights(parts, 1)
    ranked = explain(
        Paper("p", "T", "x. " * n_sentence, sentences),
        parts,
        [(number, plans[0]) for number, plans in enumerate(compared)],
        weights[:, 0],
        unit=Unit.SENTENCE,
    )
    cells = [*ranked.alignments, *ranked.omitted]
    assert -sum(c.weight * c.distance for c in cells) == pytest.approx(ranked.score, abs=1e-5)
    scores = np.array([plans.scores for plans in compared])
    assert (weights * scores).sum() == pytest.approx(ranked.score, abs=1e-12)
    assert 1 == pytest.approx(sum(c.weight for c in cells if c.weight > 0), abs=1e-6)
    assert -weight == pytest.approx(sum(c.weight for c in cells if c.weight < 0), abs=1e-6)
    assert {c.query_sentence for c in ranked.alignments if c.weight > 0} <= set(like.sentences)
    assert {c.query_sentence for c in ranked.alignments if c.weight < 0} <= set(unlike.sentences)
    assert 1 == pytest.approx(sum(h.weight for h in ranked.highlights), abs=1e-6)


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under hashing, which re-ranks all papers."""
    with TestClient(create_app(Settings(data=hashed_data, device="cpu"))) as client:
        yield client


def search(client: TestClient, **body: Any) -> dict[str, Any]:
    """Return the answer to a search for one demo paper."""
    return clients.search(client, query={"paper_id": "demo:p03-m07"}, **body)


@pytest.mark.parametrize("scorer", list(Scorer))
def test_contrast_is_like_less_weighted_unlike(client: TestClient, scorer: Scorer) -> None:
    """Without words and specificity, the unlike side's score times its weight is subtracted."""
    options = {"scorer": scorer, "limit": 100, "words": 0, "specificity": 0}
    like = search(client, facet="method", **options)["results"]
    unlike = search(client, facet="background", focus=0, **options)["results"]
    both = search(client, facet="method", unlike={"facet": "background", "weight": 0.7}, **options)["results"]
    away = {found["paper"]["id"]: found["score"] for found in unlike}
    expected = {found["paper"]["id"]: found["score"] - 0.7 * away[found["paper"]["id"]] for found in like}
    assert 99 == len(both)
    assert expected == pytest.approx({found["paper"]["id"]: found["score"] for found in both}, abs=1e-9)
    assert sorted(expected.values(), reverse=True) == pytest.approx([found["score"] for found in both])
    for found in both:
        cells = found["alignments"]
        assert found["score"] == pytest.approx(explained(found), abs=1e-5)
        assert 0.3 == pytest.approx(sum(c["weight"] for c in cells), abs=1e-6)


def test_an_odd_alignment_goes_to_what_is_alike(client: TestClient) -> None:
    """Of an odd number of alignments, one more is of the side to be like; a single one is of that side."""
    for most in (1, 3):
        options: dict[str, Any] = {
            "facet": "method",
            "unlike": {"facet": "background"},
            "max_alignments": most,
        }
        listed = search(client, **options)["results"][0]["alignments"]
        assert [True] * (most // 2 + 1) + [False] * (most // 2) == [each["weight"] > 0 for each in listed]


def test_highlights_show_what_is_alike(client: TestClient) -> None:
    """Contrast changes the order of papers but never which of their sentences are highlighted."""
    plain = search(client, facet="method", limit=100)["results"]
    contrasted = search(client, facet="method", unlike={"facet": "background"}, limit=100)["results"]
    marked = {found["paper"]["id"]: found["highlights"] for found in plain}
    assert marked == {found["paper"]["id"]: found["highlights"] for found in contrasted}
    assert [f["paper"]["id"] for f in plain] != [f["paper"]["id"] for f in contrasted]


def test_the_answer_names_both_sides(client: TestClient) -> None:
    """If only the unlike side is given, all other sentences are the like side; the answer lists both."""
    query = search(client, unlike={"sentences": [1, 0]})["query"]
    numbers = list(range(len(query["sentences"])))
    assert ([0, 1], numbers[2:]) == (query["unlike"], query["selected"])


def test_contrast_looks_further_for_candidates(hashed_data: Path) -> None:
    """The nearest papers are often near on both sides, so a contrast re-ranks more candidates."""
    with TestClient(create_app(Settings(data=hashed_data, device="cpu", candidates=5))) as client:
        options = {"facet": "method", "words": 0}
        plain = search(client, **options, limit=1)["results"]
        away = search(client, **options, unlike={"facet": "background", "weight": 1}, limit=1)["results"]
        near = search(client, **options, scorer="single", limit=5)["results"]
    candidates = {found["paper"]["id"] for found in near}
    assert (True, False) == (plain[0]["paper"]["id"] in candidates, away[0]["paper"]["id"] in candidates)


def test_a_facet_to_be_unlike_that_is_missing_gives_a_warning(client: TestClient) -> None:
    """A missing unlike facet gives a warning and a plain search; with nothing else chosen, no results."""
    missing = {"facet": "objective"}
    plain, answer = search(client, facet="method"), search(client, facet="method", unlike=missing)
    assert plain["results"] == answer["results"]
    assert [("unlike_facet_missing", ["objective"])] == warned(answer)
    alone = search(client, unlike=missing)
    assert ([], "no_sentence_of_that_facet") == (alone["results"], alone["reason"])
    assert [] == alone["warnings"]


BAD_CONTRASTS: list[dict[str, Any]] = [
    {"unlike": {}},
    {"unlike": {"facet": "method", "sentences": [0]}},
    {"unlike": {"facet": []}},
    {"unlike": {"facet": "vibe"}},
    {"unlike": {"sentences": []}},
    {"unlike": {"sentences": ["0"]}},
    {"unlike": {"sentences": [99]}},
    {"unlike": {"facet": "method", "weight": 0}},
    {"unlike": {"facet": "method", "weight": 5e-324}},
    {"unlike": {"facet": "method", "weight": 1.5}},
    {"unlike": {"facet": "method", "weight": "0.5"}},
    {"unlike": {"facet": "method", "focus": 0.5}},
    {"unlike": "method"},
    {"unlike": {"facet": "method"}, "facet": "method"},
    {"unlike": {"facet": "objective"}, "facet": ["method", "background"]},
    {"unlike": {"sentences": [0]}, "sentences": [0, 1]},
]


@pytest.mark.parametrize("body", BAD_CONTRASTS)
def test_a_wrong_contrast_gets_a_problem(client: TestClient, body: dict[str, Any]) -> None:
    """A contrast that is empty, ambiguous, out of range or overlaps the like side gets 422."""
    query = {"paper_id": "demo:p00-m03"}
    response = client.post("/v1/search", json={"query": query, **body})
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert response.json()["detail"]
