"""Tests of sentence search over HTTP: the nearest sentences by meaning or by function."""

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from models.annotator import Annotator
from models.types import Facet, Paper, Sentence
from service.search.engine import SearchEngine
from tests.support.answers import warned


def ask(client: TestClient, **body: Any) -> dict[str, Any]:
    """Return the answer to a search that must succeed."""
    response = client.post("/v1/sentences/search", json=body)
    assert 200 == response.status_code, response.text
    answer: dict[str, Any] = response.json()
    return answer


def by_brute_force(
    engine: SearchEngine, vector: np.ndarray, *, by: str, keep: Any, limit: int
) -> list[tuple[str, int]]:
    """Return (paper id, sentence) of the nearest rows with ``keep(paper, number)``, each wording once."""
    snapshot, segment = engine.snapshot, engine.snapshot.segments[0]
    rows = np.asarray(segment.vectors.rows if by == "meaning" else segment.function_vectors, np.float32)
    distances = np.sqrt(((rows - vector.astype(np.float32)) ** 2).sum(axis=1))
    found: dict[str, tuple[str, int]] = {}
    for row in np.lexsort((np.arange(len(rows)), distances)):
        position = int(snapshot.paper_of_row[row])
        paper, number = snapshot.paper(position), int(row - snapshot.offsets[position])
        if keep(paper, number):
            found.setdefault(paper.sentences[number].text.casefold(), (paper.id, number))
    return list(found.values())[:limit]


def numbers(answer: dict[str, Any]) -> list[tuple[str, int]]:
    """Return (paper id, sentence) of each result."""
    return [(found["paper"]["id"], found["sentence"]) for found in answer["results"]]


SOME_SENTENCE = {"paper_id": "demo:p03-m07", "sentence": 3}


FILTERS: list[tuple[dict[str, Any], Any]] = [
    (
        {"filters": {"has_facets": ["other"]}},
        lambda paper, number: Facet.OTHER in {sentence.facet for sentence in paper.sentences},
    ),
    ({}, lambda paper, number: True),
    (
        {"filters": {"year_from": 2015, "year_to": 2016}},
        lambda paper, number: paper.year in {2015, 2016},
    ),
    ({"facet": "method"}, lambda paper, number: paper.sentences[number].facet is Facet.METHOD),
    (
        {"facet": ["result", "background"], "filters": {"year_to": 2018}},
        lambda paper, number: (
            paper.year <= 2018
            and paper.sentences[number].facet in {Facet.RESULT, Facet.BACKGROUND, Facet.OBJECTIVE}
        ),
    ),
]


@pytest.mark.parametrize("by", ["meaning", "function"])
@pytest.mark.parametrize(("narrowed", "keep"), FILTERS)
def test_an_indexed_sentence_finds_the_nearest_of_other_papers(
    sentence_client: TestClient, sentence_engine: SearchEngine, by: str, narrowed: dict[str, Any], keep: Any
) -> None:
    """An indexed sentence finds what brute force finds under any filter, but nothing of its own paper."""
    snapshot = sentence_engine.snapshot
    of_kind = snapshot.vectors if by == "meaning" else snapshot.function_vectors
    vector = of_kind(snapshot.position("demo:p03-m07"))[3]
    expected = by_brute_force(
        sentence_engine,
        vector,
        by=by,
        keep=lambda paper, number: paper.id != "demo:p03-m07" and keep(paper, number),
        limit=30,
    )
    answer = ask(sentence_client, query=SOME_SENTENCE, by=by, limit=30, **narrowed)
    assert expected == numbers(answer)
    assert 30 == len(expected)


@pytest.mark.parametrize("by", ["meaning", "function"])
def test_a_text_is_one_sentence_without_context(
    sentence_client: TestClient, sentence_engine: SearchEngine, sentence_annotator: Annotator, by: str
) -> None:
    """A text of two sentences is encoded alone as one, and finds what brute force finds."""
    text = "Little is known about crops. We propose a causal model."
    paper = Paper("", "", text, (Sentence(text, 0, len(text)),))
    (own,) = sentence_annotator.annotate([paper])
    vector = own.encoded.sentences if by == "meaning" else own.functions
    assert vector is not None
    answer = ask(sentence_client, query={"text": f"  {text}\n"}, by=by, limit=20)
    assert by_brute_force(sentence_engine, vector, by=by, keep=lambda *_: True, limit=20) == numbers(answer)
    assert (text, None, None, by) == tuple(answer["query"][k] for k in ("text", "paper_id", "sentence", "by"))


def test_the_two_likenesses_differ(sentence_client: TestClient) -> None:
    """Searches by function and by meaning differ, and meaning is the default."""
    meaning, function = (ask(sentence_client, query=SOME_SENTENCE, by=by) for by in ("meaning", "function"))
    assert numbers(meaning) != numbers(function)
    assert numbers(meaning) == numbers(ask(sentence_client, query=SOME_SENTENCE))


def test_a_result_is_a_place_in_its_abstract(sentence_client: TestClient) -> None:
    """A result has text, offsets and facet of its sentence in the paper, and distances ascend."""
    answer = ask(sentence_client, query=SOME_SENTENCE)
    for found in answer["results"]:
        paper = sentence_client.get(f"/v1/papers/{found['paper']['id']}").json()["paper"]
        place = paper["sentences"][found["sentence"]]
        assert place == {key: found[key] for key in ("start", "end", "facet")}
        assert paper["abstract"][found["start"] : found["end"]] == found["text"]
        assert {key: paper[key] for key in found["paper"]} == found["paper"]
    distances = [found["distance"] for found in answer["results"]]
    assert sorted(distances) == distances
    assert 0 < distances[0]


def test_the_answer_has_the_query(sentence_client: TestClient) -> None:
    """The answer has the query sentence, the generation, and no warnings."""
    answer = ask(sentence_client, query=SOME_SENTENCE, by="function")
    paper = sentence_client.get("/v1/papers/demo:p03-m07").json()["paper"]
    place = paper["sentences"][3]
    assert {
        "paper_id": "demo:p03-m07",
        "title": paper["title"],
        "sentence": 3,
        "text": paper["abstract"][place["start"] : place["end"]],
        "facet": place["facet"],
        "by": "function",
    } == answer["query"]
    assert ("000001", None, None) == (answer["generation"], answer["reason"], answer["detail"])
    assert [] == answer["warnings"]


@pytest.mark.parametrize("by", ["meaning", "function"])
def test_an_empty_answer_has_its_reason(sentence_client: TestClient, by: str) -> None:
    """An empty answer has its reason: filtered out, or no sentence of that facet."""
    filtered = ask(sentence_client, query=SOME_SENTENCE, by=by, filters={"year_from": 2090})
    assert ([], "filtered_out") == (filtered["results"], filtered["reason"])
    assert "widen" in filtered["detail"]
    other = ask(sentence_client, query=SOME_SENTENCE, by=by, facet="other", filters={"year_to": 2017})
    assert ([], "no_sentence_of_that_facet") == (other["results"], other["reason"])
    assert "choose another" in other["detail"]


def test_a_foreign_text_gets_a_warning_unless_it_is_too_short_to_tell(sentence_client: TestClient) -> None:
    """A sentence that does not look English gets a warning; the language of three words is not guessed."""
    french = "Nous présentons un modèle pour la prévision des crues."
    assert [("text_not_english", ["fr"])] == warned(ask(sentence_client, query={"text": french}))
    assert [] == ask(sentence_client, query={"text": "state a gap"})["warnings"]


TEXT = {"text": "We study floods."}


BAD_REQUESTS: list[tuple[Any, int, str]] = [
    ({}, 422, "query"),
    ({"query": {}}, 422, "either text"),
    ({"query": {"text": " \n "}}, 422, "blank"),
    ({"query": {"text": "x" * 2001}}, 422, "text"),
    ({"query": {**TEXT, "paper_id": "demo:p03-m07"}}, 422, "either text"),
    ({"query": {**TEXT, "sentence": 0}}, 422, "query has no field sentence"),
    ({"query": {"paper_id": "demo:p03-m07"}}, 422, "query.sentence is missing"),
    ({"query": {"paper_id": "nope", "sentence": 0}}, 404, "No paper"),
    ({"query": {"paper_id": "demo:p03-m07", "sentence": 99}}, 422, "numbered 0 to"),
    ({"query": {"paper_id": "demo:p03-m07", "sentence": -1}}, 422, "sentence"),
    ({"query": {"paper_id": "demo:p03-m07", "sentence": "0"}}, 422, "sentence"),
    ({"query": {"paper_id": "demo:p03-m07", "sentence": 10**30}}, 422, "sentence"),
    ({"query": TEXT, "by": "vibe"}, 422, "by"),
    ({"query": TEXT, "facet": "vibe"}, 422, "facet"),
    ({"query": TEXT, "facet": []}, 422, "facet"),
    ({"query": TEXT, "limit": 101}, 422, "limit"),
    ({"query": TEXT, "limit": 0}, 422, "limit"),
    ({"query": TEXT, "filters": {"surprise": 1}}, 422, "filters"),
    ({"query": TEXT, "surprise": 1}, 422, "it has an unknown field"),
]


@pytest.mark.parametrize(("body", "status", "message"), BAD_REQUESTS)
def test_a_wrong_request_gets_a_problem(
    sentence_client: TestClient, body: Any, status: int, message: str
) -> None:
    """A wrong request gets a problem+json of at most 4 kB that says what is wrong."""
    response = sentence_client.post("/v1/sentences/search", json=body)
    assert (status, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert message in response.json()["detail"]
    assert len(response.content) <= 4096
