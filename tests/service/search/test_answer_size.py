"""Tests of the size of answers: the lightest alignments are summed up, and the sums still make the score."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from models.encoder import Encoder
from models.transport import Scorer
from service.api.schemas.search.search import SearchIn
from service.app import create_app
from service.search.aspect import Aspect, Contrast
from service.search.engine import SearchEngine
from service.search.explain import MAX_ALIGNMENTS, MAX_HIGHLIGHTS
from service.search.query import SearchQuery, Seed
from service.settings import Settings
from tests.support.answers import explained
from tests.support.builds import build_quietly, write_corpus

N_SENTENCES = 200
_WORDS = ["flood", "river", "graph", "neural", "causal", "model", "forecast", "satellite"]
# A hundred such results are 2.5 MB, two thirds of it abstracts and the places of their sentences.
_MAX_BYTES_PER_RESULT = 25_000


def long_abstract(seed: int) -> list[str]:
    """Return two hundred short sentences."""
    rng = np.random.default_rng(seed)
    return [f"{' '.join(rng.choice(_WORDS, 3))} {i}." for i in range(N_SENTENCES)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client of a service over a few papers of two hundred sentences."""
    folder = tmp_path_factory.mktemp("long")
    papers = [{"id": f"p{i}", "title": f"Paper {i}", "abstract": long_abstract(i)} for i in range(4)]
    build_quietly(write_corpus(folder / "c.jsonl", papers), folder / "data", hashing)
    with TestClient(create_app(Settings(data=folder / "data", device="cpu"))) as client:
        yield client


def totals(result: dict[str, Any], sign: int = 1) -> tuple[float, float]:
    """Return the sum of all weights of one sign, omitted ones included, and the score that they make."""
    cells: Sequence[dict[str, float]] = [*result["alignments"], *result["omitted"]]
    kept = [cell for cell in cells if cell["weight"] * sign > 0]
    return sum(cell["weight"] for cell in kept), -sum(cell["weight"] * cell["distance"] for cell in kept)


def test_the_largest_results_are_bounded(client: TestClient) -> None:
    """Results with two hundred sentences stay small, although each has 1,600 alignments with the query."""
    response = client.post("/v1/search", json={"query": {"abstract": long_abstract(500)[:8]}})
    results = response.json()["results"]
    assert {N_SENTENCES} == {len(result["paper"]["sentences"]) for result in results}
    assert len(response.content) < _MAX_BYTES_PER_RESULT * len(results)


@pytest.mark.parametrize("scorer", list(Scorer))
def test_what_is_summed_up_still_adds_up(client: TestClient, scorer: Scorer) -> None:
    """The heaviest alignments are shown; with the omitted ones, weights sum to 1 and make the score."""
    body = {"query": {"paper_id": "p0"}, "limit": 1, "scorer": scorer, "tau": 5.0}
    (result,) = client.post("/v1/search", json=body).json()["results"]
    weight, _ = totals(result)
    assert (1, result["score"]) == (
        pytest.approx(weight, abs=1e-6),
        pytest.approx(explained(result), abs=1e-5),
    )
    assert len(result["alignments"]) <= MAX_ALIGNMENTS
    assert len(result["highlights"]) <= MAX_HIGHLIGHTS
    weights = [cell["weight"] for cell in result["alignments"]]
    assert sorted(weights, reverse=True) == weights
    for omitted in result["omitted"]:
        assert len(weights) == MAX_ALIGNMENTS
        assert 0 < omitted["weight"] / omitted["count"] <= min(weights) + 1e-12
    assert (scorer is Scorer.SINGLE) == (result["omitted"] == [])


def test_contrast_is_summed_up_by_itself(client: TestClient) -> None:
    """With a contrast each side gets half of the alignments and its own entry of omitted ones."""
    body = {
        "query": {"paper_id": "p0"},
        "limit": 3,
        "sentences": list(range(10)),
        "unlike": {"sentences": list(range(10, 20)), "weight": 0.5},
        "words": 0,
    }
    results = client.post("/v1/search", json=body).json()["results"]
    assert 3 == len(results)
    for result in results:
        (near, score), (away, penalty) = totals(result), totals(result, -1)
        assert (1, -0.5) == (pytest.approx(near, abs=1e-6), pytest.approx(away, abs=1e-6))
        assert result["score"] == pytest.approx(score + penalty, abs=1e-5)
        signs = [cell["weight"] > 0 for cell in result["alignments"]]
        assert (MAX_ALIGNMENTS // 2, MAX_ALIGNMENTS // 2) == (signs.count(True), signs.count(False))
        assert 2 == len(result["omitted"])


def test_a_contrast_of_almost_no_weight_is_summed_up(client: TestClient) -> None:
    """A contrast so light that its shares round to 0 still gets a finite answer from the engine."""
    engine = client.app.state.services.collection.engines.current  # type: ignore[attr-defined]
    aspect = Aspect((0,), unlike=Contrast(sentences=tuple(range(10, 20)), weight=5e-324))
    query = SearchQuery((Seed("p0", aspect=aspect),), limit=3, max_alignments=N_SENTENCES)
    results = engine.search(query).results
    assert 3 == len(results)
    for result in results:
        assert [0.0] == [each.weight for each in result.omitted]
        assert math.isfinite(result.omitted[0].distance)


def test_few_alignments_are_all_shown(client: TestClient) -> None:
    """If all alignments fit, none is omitted."""
    for scorer, n in (("single", 1), ("mean_min", MAX_ALIGNMENTS)):
        query = {"abstract": long_abstract(500)[:n]}
        body = {"query": query, "filters": {"ids": ["p1"]}, "scorer": scorer, "sentences": list(range(n))}
        (result,) = client.post("/v1/search", json=body).json()["results"]
        assert (n, []) == (len(result["alignments"]), result["omitted"])


def test_an_answer_is_the_same_to_the_byte(client: TestClient) -> None:
    """The same search twice gives the same bytes except for took_ms, in JSON and in files."""
    body = {"query": {"abstract": long_abstract(500)[:8]}, "limit": 10}
    for accept in ("application/json", "text/csv", "application/x-ndjson", "application/x-bibtex"):
        contents = {
            re.sub(
                rb'"took_ms":[0-9.]+',
                b"",
                client.post("/v1/search", json=body, headers={"Accept": accept}).content,
            )
            for _ in range(2)
        }
        assert 1 == len(contents)


@pytest.mark.parametrize("contrast", [{}, {"facet": "method", "unlike": {"facet": "background"}}])
def test_the_smallest_answer_has_the_same_papers_and_scores(
    sentence_engine: SearchEngine, contrast: dict[str, Any]
) -> None:
    """With an empty ``include``, only texts and explanations are missing; papers and scores are unchanged."""
    query = SearchIn.model_validate(
        {"query": {"paper_id": "demo:p03-m07"}, "limit": 20, **contrast}
    ).to_query()
    whole = sentence_engine.search(query).results
    small = sentence_engine.search(replace(query, include=frozenset())).results
    assert whole[0].alignments
    assert whole[0].words.terms
    bare = [
        replace(
            each,
            paper=replace(each.paper, abstract="", sentences=()),
            alignments=(),
            omitted=(),
            highlights=(),
            words=replace(each.words, terms=()),
        )
        for each in whole
    ]
    assert bare == list(small)
