"""Tests of searches by a short text, such as a claim or a few words, over HTTP and on the command line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from akin.cli.app import app
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.encoder import Encoder, load_encoder
from models.errors import SentenceSelectionError
from models.types import Facet, Filters
from service.app import create_app
from service.resolve.text_query import MAX_TEXT_CHARS, one_sentence
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings
from tests.support import clients
from tests.support.annotators import KeywordTagger
from tests.support.answers import explained, warned
from tests.support.sentence_engines import Whole, small_engine

ID = "demo:p03-m07"
CLAIM = "Graph networks forecast floods better than gauges do."


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under the hashing encoder."""
    service = create_app(Settings(data=hashed_data, device="cpu"))
    with TestClient(service, raise_server_exceptions=False) as client:
        yield client


def search(client: TestClient, **body: Any) -> dict[str, Any]:
    """Return the answer to a search that must succeed, without the time it took."""
    answer = clients.search(client, **body)
    del answer["took_ms"]
    return answer


@pytest.mark.parametrize("scorer", ["ot", "single", "mean_min", "attention", "exact_ot"])
def test_a_text_is_answered_and_explained(client: TestClient, scorer: str) -> None:
    """Every alignment is with the one query sentence, and they add up to the score."""
    answer = search(client, query={"text": CLAIM}, scorer=scorer, limit=20)
    assert 20 == len(answer["results"])
    for result in answer["results"]:
        cells = result["alignments"]
        assert {0} == {cell["query_sentence"] for cell in cells}
        assert 1 == pytest.approx(sum(cell["weight"] for cell in cells), abs=1e-6)
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)


def test_a_text_is_one_sentence_without_a_facet(client: TestClient) -> None:
    """A text counts as one sentence without title, id or facet, with white space around it removed."""
    text = "Rivers flood. We fit graphs. Gauges help."
    query = search(client, query={"text": f"\n {text} "})["query"]
    assert (None, "", [0], [], 0) == tuple(
        query[key] for key in ("id", "title", "selected", "unlike", "dropped_sentences")
    )
    assert [{"text": text, "start": 0, "end": len(text), "facet": None}] == query["sentences"]


def test_what_a_paper_says_finds_it(client: TestClient) -> None:
    """A sentence of a paper, given as text, finds that paper first and aligns with that sentence."""
    paper = client.get("/v1/papers/demo:p03-m07").json()["paper"]
    third = paper["sentences"][2]
    text = paper["abstract"][third["start"] : third["end"]]
    best = search(client, query={"text": text}, scorer="single", limit=1)["results"][0]
    assert ("demo:p03-m07", 2) == (best["paper"]["id"], best["alignments"][0]["sentence"])


def test_filters_and_reasons_apply(client: TestClient) -> None:
    """Filters apply, and an empty answer has its reason."""
    found = search(client, query={"text": CLAIM}, filters={"year_from": 2015}, limit=50)["results"]
    assert all(result["paper"]["year"] >= 2015 for result in found)
    assert found
    assert "filtered_out" == search(client, query={"text": CLAIM}, filters={"year_from": 2090})["reason"]


def test_another_language_is_reported_where_it_is_certain(client: TestClient) -> None:
    """A long text that is not English gets a warning; the language of a few words is not guessed."""
    french = "Les réseaux de neurones prévoient les crues des rivières mieux que les stations de mesure."
    assert ("text_not_english", ["fr"]) in warned(search(client, query={"text": french}))
    assert [] == search(client, query={"text": "state a gap"})["warnings"]


@pytest.mark.parametrize(
    "more",
    [
        {"sentences": [0]},
        {"facet": "method", "focus": 0.3},
        {"facet": "method", "unlike": {"facet": "background"}},
        {"unlike": {"facet": "background"}},
        {"unlike": {"sentences": [0]}},
        {"focus": 0.3},
    ],
)
def test_nothing_can_be_chosen_in_a_text(client: TestClient, more: dict[str, Any]) -> None:
    """Options that choose among sentences are refused with the remedy, never ignored."""
    response = client.post("/v1/search", json={"query": {"text": CLAIM}, **more})
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert "give the text as an abstract" in response.json()["detail"]


@pytest.mark.parametrize("facet", ["method", "background", ["background", "result"]])
@pytest.mark.parametrize("scorer", ["ot", "single"])
def test_a_facet_chooses_the_sentences_a_text_is_compared_with(
    client: TestClient, hashed_snapshot: Snapshot, facet: Any, scorer: str
) -> None:
    """Each match is with a sentence of the facet, all papers with one are found, and scores add up."""
    wanted = {facet} if isinstance(facet, str) else set(facet)
    wanted |= {"objective"} if "background" in wanted else set()
    answer = search(client, query={"text": CLAIM}, facet=facet, scorer=scorer, words=0, limit=100)
    text = load_encoder("hashing", device="cpu").encode([one_sentence(CLAIM)])[0].sentences
    nearest = {}
    for position in hashed_snapshot.positions.tolist():
        sentences = hashed_snapshot.paper(position).sentences
        own = hashed_snapshot.vectors(position)[[each.facet in wanted for each in sentences]]
        if len(own):
            nearest[hashed_snapshot.paper(position).id] = np.linalg.norm(own - text, axis=1).min()
    assert nearest.keys() == {each["paper"]["id"] for each in answer["results"]}
    for result in answer["results"]:
        cells = [*result["alignments"], *result["highlights"]]
        assert {result["paper"]["sentences"][each["sentence"]]["facet"] for each in cells} <= wanted
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)
        if scorer == "single":
            assert result["score"] == pytest.approx(-nearest[result["paper"]["id"]], abs=1e-3)


def test_papers_without_the_facet_of_a_text_are_reported(
    client: TestClient, hashed_snapshot: Snapshot
) -> None:
    """If no paper that passes the filters has a sentence of the facet, the answer says so."""
    lacking = [
        paper.id
        for paper in map(hashed_snapshot.paper, hashed_snapshot.positions.tolist())
        if Facet.OTHER not in {sentence.facet for sentence in paper.sentences}
    ][:5]
    answer = search(client, query={"text": CLAIM}, facet="other", filters={"ids": lacking})
    assert ([], "no_sentence_of_that_facet") == (answer["results"], answer["reason"])
    assert "has a sentence of this facet" in answer["detail"]
    none_of_these = search(client, query={"text": CLAIM}, facet="other", filters={"ids": ["nowhere"]})
    assert "filtered_out" == none_of_these["reason"]


def test_vectors_of_whole_papers_take_no_facet(tmp_path: Path, hashing: Encoder) -> None:
    """With one vector per paper a facet is refused, for a text as for a paper."""
    papers = [{"id": "a", "title": "A", "abstract": ["B.", "C."]}]
    engine = small_engine(tmp_path, Annotator(Whole(hashing), tagger=KeywordTagger()), papers)
    for seed in (Seed(text=CLAIM), Seed(paper_id="a")):
        chosen = replace(seed, aspect=Aspect(facets=(Facet.METHOD,)))
        with pytest.raises(SentenceSelectionError, match="one vector per paper"):
            engine.search(SearchQuery((chosen,)))
    assert ["a"] == [each.paper.id for each in engine.search(SearchQuery((Seed(text=CLAIM),))).results]


def test_a_title_finds_its_paper_first(tmp_path: Path, hashing: Encoder) -> None:
    """A text that is a title, in any spelling, finds the papers of that title first.

    Their distance by words is 0, although their abstracts are about something else and other papers have
    the same words; a few candidates are enough.
    """
    said = "Floods of rivers come when rain falls on hills."
    papers: list[dict[str, object]] = [
        {"id": f"p{number:02}", "title": f"Rain on hills {number}", "abstract": [said]}
        for number in range(400)
    ]
    papers += [
        {"id": each, "title": "Floods: Rivers", "abstract": ["Trains are late."]} for each in ("x", "y")
    ]
    whole = small_engine(tmp_path, Annotator(hashing, tagger=KeywordTagger()), papers)
    engine = SearchEngine(whole.snapshot, whole.load, n_candidates=5)

    def found(**options: Any) -> list[str]:
        query = SearchQuery((Seed(text="floods, RIVERS"),), limit=2, **options)
        results = engine.search(query).results
        for each in results:
            parts = [*each.alignments, *each.omitted, each.words]
            assert -each.score == pytest.approx(sum(part.weight * part.distance for part in parts), abs=1e-5)
        return [each.paper.id for each in results]

    assert ["x", "y"] == found()
    assert ["y"] == found(filters=Filters(exclude_ids=frozenset({"x"})))[:1]
    assert not {"x", "y"} & set(found(words=0.0))


@pytest.mark.parametrize("strategy", ["any", "all"])
def test_a_text_keeps_its_facet_among_several_seeds(
    client: TestClient, hashed_snapshot: Snapshot, strategy: str
) -> None:
    """A text is only compared with sentences of its facet, each of two texts with its own, a paper with all.

    All papers with such sentences are found, and the scores add up.
    """
    seeds = [{"text": CLAIM, "facet": "method"}, ID, {"text": CLAIM, "facet": ["result"]}]
    body = {"seeds": seeds, "strategy": strategy, "limit": 100, "negatives": ["demo:p01-m01"]}
    answer = client.post("/v1/recommendations", json=body).json()
    papers = map(hashed_snapshot.paper, hashed_snapshot.positions.tolist())
    having = {p.id for p in papers if {Facet.METHOD, Facet.RESULT} <= {each.facet for each in p.sentences}}
    assert having - {ID, "demo:p01-m01"} == {result["paper"]["id"] for result in answer["results"]}
    seen: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    for result in answer["results"]:
        assert result["score"] == pytest.approx(explained(result), abs=1e-5)
        for cell in result["alignments"]:
            if not cell["negative"]:
                seen[cell["seed"]].add(result["paper"]["sentences"][cell["sentence"]]["facet"])
    assert ({"method"}, {"result"}) == (seen[0], seen[2])
    assert len(seen[1]) > 2


def test_a_text_finds_by_its_facet_among_several_seeds(client: TestClient) -> None:
    """A paper scores higher if the text is in its method and the facet is method than with another facet."""
    paper = client.get("/v1/papers/demo:p07-m05").json()["paper"]
    place = next(each for each in paper["sentences"] if each["facet"] == "method")
    text = paper["abstract"][place["start"] : place["end"]]
    seeds = [{"text": text, "facet": "method", "weight": 20}, ID]
    found = client.post("/v1/recommendations", json={"seeds": seeds, "limit": 3}).json()["results"]
    assert "demo:p07-m05" == found[0]["paper"]["id"]
    seeds[0]["facet"] = "result"
    others = client.post("/v1/recommendations", json={"seeds": seeds, "limit": 3}).json()["results"]
    assert found[0]["score"] > others[0]["score"]


def test_what_to_be_unlike_takes_no_facet_as_a_text(client: TestClient) -> None:
    """A negative text with a facet is refused, because papers without such a sentence would be left out."""
    body = {"seeds": [ID], "negatives": [{"text": CLAIM, "facet": "method"}]}
    answer = client.post("/v1/recommendations", json=body).json()
    (lost,) = answer["unresolved"]
    assert (True, "selection_impossible") == (lost["negative"], lost["reason"])
    assert "a text among the negatives takes none" in lost["detail"]


@pytest.mark.parametrize(
    "query",
    [
        {"text": ""},
        {"text": " \n\t"},
        {"text": "x" * (MAX_TEXT_CHARS + 1)},
        {"text": 7},
        {"text": ["x"]},
        {"text": CLAIM, "abstract": "y"},
        {"text": CLAIM, "paper_id": "demo:p03-m07"},
        {"text": CLAIM, "title": "y"},
        {"text": None},
    ],
)
def test_a_wrong_text_gets_a_problem(client: TestClient, query: dict[str, Any]) -> None:
    """A text that is blank, too long, no string or given next to another query gets 422."""
    response = client.post("/v1/search", json={"query": query})
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])


@pytest.mark.parametrize("text", ["\x00a", "\u200b", "🙂", "\u202e\u202d", "a" * MAX_TEXT_CHARS, "数" * 999])
def test_odd_texts_are_harmless(client: TestClient, text: str) -> None:
    """Any characters in a text give an answer with scores of at most 0."""
    answer = search(client, query={"text": text})
    assert all(result["score"] <= 0 for result in answer["results"])
    assert answer["results"]


def test_the_command_line_asks_the_same(client: TestClient, hashed_data: Path) -> None:
    """``--text`` gives the answer of the service, and prints the text as the query."""
    command = ["search", "--data", str(hashed_data), "--text", CLAIM, "--limit", "3"]
    by_json = CliRunner().invoke(app, [*command, "--json"])
    assert 0 == by_json.exit_code, by_json.output
    printed = json.loads(by_json.stdout)
    del printed["took_ms"]
    answer = search(client, query={"text": CLAIM}, limit=3)
    assert answer["results"] == printed["results"]
    assert answer["query"] == printed["query"]
    assert f"Similar to: {CLAIM}" in " ".join(CliRunner().invoke(app, command).output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", CLAIM, "--paper", "demo:p03-m07"], "Name the query once"),
        (["--text", CLAIM, "--sentences", "0"], "give the text as an abstract"),
        (["--text", "  "], "blank"),
        (["--text", "x" * 2_001], "must have at most 2,000 characters"),
    ],
)
def test_a_wrong_command_says_what_to_do(hashed_data: Path, arguments: list[str], message: str) -> None:
    """A contradictory command ends with one clear error."""
    result = CliRunner().invoke(app, ["search", "--data", str(hashed_data), *arguments])
    assert 1 == result.exit_code
    assert message in " ".join(result.output.split())
