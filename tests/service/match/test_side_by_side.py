"""Tests of two papers side by side: both directions, facets, words, and agreement with searches."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from models.annotator import Annotator
from service.match.affinity import Affinities
from service.match.paper_distances import PaperDistances
from service.match.side_by_side import side_by_side
from service.search.engine import SearchEngine
from service.search.query import Seed
from tests.support.clients import python_client, search
from tests.support.commands import run
from tests.support.sentence_engines import small_engine

A, B = "demo:p03-m07", "demo:p03-m02"


def compared(client: TestClient, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a comparison that must succeed."""
    response = client.post("/v1/compare", json={"a": a, "b": b})
    assert 200 == response.status_code, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_each_side_is_what_a_search_finds(sentence_client: TestClient) -> None:
    """Each side has score, alignments and words of a search from one paper that finds the other."""
    answer = compared(sentence_client, {"paper_id": A}, {"paper_id": B})
    for own, other, side in ((A, B, answer["a"]), (B, A, answer["b"])):
        body = {"query": {"paper_id": own}, "specificity": 0, "filters": {"ids": [other]}}
        (result,) = search(sentence_client, **body)["results"]
        assert own == side["id"]
        assert pytest.approx(result["score"]) == side["score"]
        assert result["words"] == side["words"]
        assert [pytest.approx(each) for each in result["alignments"]] == side["alignments"]
        cells = sum(each["weight"] * each["distance"] for each in side["alignments"])
        assert pytest.approx(-side["score"]) == cells + side["words"]["weight"] * side["words"]["distance"]


def test_a_match_with_one_paper_says_the_same(sentence_engine: SearchEngine) -> None:
    """A side has the affinity of its paper with a profile that has only the other paper."""
    nearness = PaperDistances(sentence_engine.snapshot)
    submission = nearness.indexed(sentence_engine.names.position(A))
    expected = Affinities(nearness, {"one": nearness.snapshot.find_all([B])}).of([submission])[0, 0]
    assert expected == side_by_side(sentence_engine, Seed(A), Seed(B)).a.affinity


def test_facets_hold_the_whole_match(sentence_client: TestClient) -> None:
    """Facets come heaviest first; their weights sum to 1 and make the distance by sentences."""
    answer = compared(sentence_client, {"paper_id": A}, {"paper_id": B})
    facets, side = answer["facets"], answer["a"]
    assert len(facets) > 1
    assert pytest.approx(1) == sum(each["weight"] for each in facets)
    by_words = side["words"]["weight"] * side["words"]["distance"]
    assert pytest.approx(-side["score"] - by_words) == sum(
        each["weight"] * each["distance"] for each in facets
    )
    assert sorted((each["weight"] for each in facets), reverse=True) == [each["weight"] for each in facets]
    of_sentence = {name: [each["facet"] for each in answer[name]["sentences"]] for name in ("a", "b")}
    heaviest = sum(
        cell["weight"]
        for cell in side["alignments"]
        if of_sentence["a"][cell["query_sentence"]] == facets[0]["a"]
        and of_sentence["b"][cell["sentence"]] == facets[0]["b"]
    )
    assert pytest.approx(heaviest) == facets[0]["weight"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, sentence_annotator: Annotator) -> SearchEngine:
    """Return an engine with two papers that share a sentence, and others similar to their other sentences."""
    papers: list[dict[str, object]] = [
        {
            "id": f"p{i}",
            "title": f"T{i}",
            "abstract": [f"Zebra{i} graze at noon.", f"Walrus{i} nap on floes."],
        }
        for i in range(30)
    ]
    papers.append(
        {"id": "a", "title": "Rivers", "abstract": ["Rivers flood in spring.", "Zebras graze at noon."]}
    )
    papers.append(
        {"id": "b", "title": "Lakes", "abstract": ["Walruses nap on our floes.", "Rivers flood in spring."]}
    )
    return small_engine(tmp_path_factory.mktemp("sides"), sentence_annotator, papers)


def test_what_only_one_has_is_reported(engine: SearchEngine) -> None:
    """Sentences no nearer in the other paper than elsewhere, and words only in one paper, are reported."""
    found = side_by_side(engine, Seed("a"), Seed("b"))
    shared, own = found.a.sentences
    assert (1, False) == (shared.nearest, shared.alone)
    assert shared.distance < 0.8 < own.distance
    assert own.alone
    assert [True, False] == [each.alone for each in found.b.sentences]
    assert {"Zebras", "graze", "noon"} <= {*found.a.terms}
    assert "Walruses" in found.b.terms
    assert "our" not in found.b.terms  # an everyday word of abstracts
    assert "flood" not in {*found.a.terms, *found.b.terms}
    assert {"flood", "spring", "Rivers"} == {each.term for each in found.a.other.words.terms}


def test_pasted_papers_are_compared_as_indexed_ones(
    sentence_client: TestClient, sentence_engine: SearchEngine
) -> None:
    """One or both papers pasted give the scores, shared words and own words of the indexed papers."""
    expected = compared(sentence_client, {"paper_id": A}, {"paper_id": B})
    given = []
    for name in (A, B):
        paper = sentence_engine.snapshot.paper(sentence_engine.names.position(name))
        sentences = [each.text for each in paper.sentences]
        given.append({"title": paper.title, "abstract": sentences})
    for a, b in ((given[0], {"paper_id": B}), ({"paper_id": A}, given[1]), (given[0], given[1])):
        answer = compared(sentence_client, a, b)
        for side in ("a", "b"):
            assert pytest.approx(expected[side]["score"], abs=1e-3) == answer[side]["score"]
            assert expected[side]["only_words"] == answer[side]["only_words"]
            assert expected[side]["words"]["terms"][0]["term"] == answer[side]["words"]["terms"][0]["term"]


def test_the_same_question_is_answered_from_the_cache_and_an_unknown_paper_is_not(
    sentence_client: TestClient,
) -> None:
    """Repeating a comparison or swapping its sides gives the same sides, and an unknown name is a 404."""
    first = compared(sentence_client, {"paper_id": A}, {"paper_id": B})
    again = compared(sentence_client, {"paper_id": A}, {"paper_id": B})
    assert {**first, "took_ms": 0} == {**again, "took_ms": 0}
    turned = compared(sentence_client, {"paper_id": B}, {"paper_id": A})
    assert (first["a"], first["b"]) == (turned["b"], turned["a"])
    lost = sentence_client.post("/v1/compare", json={"a": {"paper_id": A}, "b": {"paper_id": "none"}})
    assert 404 == lost.status_code


def test_the_client_and_the_command(sentence_client: TestClient, hashed_data: Path, tmp_path: Path) -> None:
    """The client and the command compare papers by name, pasted or from a file."""
    client = python_client(sentence_client)
    found = client.compare(A, {"title": "Floods", "abstract": "Rivers flood. We measure floods."})
    assert (A, None) == (found.a.id, found.b.id)
    assert found.a.alignments
    assert 2 == len(found.b.sentences)
    body = json.loads(run("compare", A, B, "--data", hashed_data, "--json"))
    assert (A, B) == (body["a"]["id"], body["b"]["id"])
    file = tmp_path / "mine.txt"
    file.write_text("Floods\n\nRivers flood. We measure floods.\n", encoding="utf-8")
    shown = run("compare", file, B, "--data", hashed_data)
    assert "A: Floods" in shown
    assert "The match by facet" in shown
    assert "Affinity" in shown
    assert "No paper of this collection" in run("compare", A, "none", "--data", hashed_data, status=1)
