"""Tests of search by facets: several at once, facet filters, and the query's facets in the answer."""

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
from indexer.snapshot.columns import allowed_papers, papers_to_table
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator
from models.encoder import Encoder
from models.facets import SHIPPED_WEIGHTS
from models.taggers.files import content_of
from models.types import Facet, Filters, Paper, Sentence
from service.answer_warnings import WarningCode, warning
from service.app import create_app
from service.collection.generations import open_engine
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings
from tests.support import clients
from tests.support.annotators import KeywordTagger
from tests.support.answers import warned
from tests.support.builds import many_papers, write_corpus


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus under the hashing encoder."""
    with TestClient(create_app(Settings(data=hashed_data, device="cpu"))) as client:
        yield client


def search(client: TestClient, paper_id: str = "demo:p00-m03", **body: Any) -> dict[str, Any]:
    """Return the answer to a search for one demo paper."""
    return clients.search(client, query={"paper_id": paper_id}, **body)


def printed(hashed_data: Path, *arguments: str, status: int = 0) -> str:
    """Return the output of `akin search` without line wrapping."""
    command = ["search", "--data", str(hashed_data), "--limit", "2", *arguments]
    result = CliRunner().invoke(app, command)
    assert status == result.exit_code, result.output
    return " ".join(result.output.replace("│", "").split())


def test_several_facets_choose_the_sentences_of_each(client: TestClient) -> None:
    """A list of facets selects the sentences of all; a list of one is the same as the facet alone."""
    answer = search(client, facet=["result", "method"])
    facets = [sentence["facet"] for sentence in answer["query"]["sentences"]]
    assert [i for i, f in enumerate(facets) if f in {"method", "result"}] == answer["query"]["selected"]
    one, same = search(client, facet="method"), search(client, facet=["method"])
    assert one["results"] == same["results"]


def test_a_facet_missing_among_several_is_reported(client: TestClient) -> None:
    """If some of the facets are missing, the others are searched, and a warning names the missing ones."""
    answer = search(client, facet=["method", "other"], unlike={"facet": ["background", "other"]})
    assert answer["results"]
    assert [("facet_missing", ["other"]), ("unlike_facet_missing", ["other"])] == warned(answer)


def test_the_query_comes_back_with_its_facets(client: TestClient) -> None:
    """Every query sentence is returned with its text, its place and its facet."""
    paper = client.get("/v1/papers/demo:p00-m03").json()["paper"]
    sentences = search(client, facet="method")["query"]["sentences"]
    texts = [paper["abstract"][each["start"] : each["end"]] for each in paper["sentences"]]
    expected = [{**each, "text": text} for each, text in zip(paper["sentences"], texts, strict=True)]
    assert expected == sentences


def test_a_missing_facet_says_which_there_are(client: TestClient) -> None:
    """An empty answer has a reason for programs, and a detail with the facets that the query has."""
    answer = search(client, facet="other")
    assert ([], "no_sentence_of_that_facet") == (answer["results"], answer["reason"])
    assert (
        "No sentence of the query has the facet other; it has background, objective, method and result."
        == answer["detail"]
    )
    assert (None, None) == tuple(search(client)[key] for key in ("reason", "detail"))


def test_every_empty_answer_has_a_detail(client: TestClient) -> None:
    """If no paper passes the filters, the answer says so in words too."""
    answer = search(client, filters={"year_from": 2090})
    assert ("filtered_out", "No paper matches the filters; widen them.") == (
        answer["reason"],
        answer["detail"],
    )


def test_an_answer_says_if_only_the_query_passes_the_filters(client: TestClient) -> None:
    """If only the paper of the query passes the filters, the answer does not say that none does."""
    assert (
        search(client, filters={"ids": ["demo:p00-m03"]})["detail"]
        == "Only papers of the query itself match the filters, and these are left out; widen them."
    )


def with_facets(*facets: Facet | None) -> Paper:
    """Return a paper whose sentences have these facets."""
    sentences = tuple(Sentence("x.", 3 * i, 3 * i + 2, facet) for i, facet in enumerate(facets))
    return Paper("p", "T", "x. " * len(facets), sentences)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((), [True] * 5),
        ((Facet.METHOD,), [True, False, False, True, False]),
        ((Facet.BACKGROUND,), [True, False, True, False, False]),
        ((Facet.OBJECTIVE,), [False, False, True, False, False]),
        ((Facet.METHOD, Facet.RESULT), [False, False, False, True, False]),
        ((Facet.OTHER,), [False] * 5),
    ],
)
def test_a_filter_asks_for_a_sentence_of_each_facet(wanted: tuple[Facet, ...], expected: list[bool]) -> None:
    """A paper passes with at least one sentence of each facet; an objective also counts as background."""
    papers = [
        with_facets(Facet.BACKGROUND, Facet.METHOD),
        with_facets(None, None),
        with_facets(None, Facet.OBJECTIVE),
        with_facets(Facet.RESULT, Facet.METHOD, Facet.RESULT),
        with_facets(Facet.RESULT),
    ]
    table = papers_to_table(papers)
    for given in (table, table.slice(0, 5)):
        assert expected == allowed_papers(given, Filters(has_facets=wanted)).tolist()
    part = allowed_papers(table.slice(2), Filters(has_facets=wanted))
    assert (np.array(expected)[2:] == part).all()


def test_the_filter_acts_inside_the_search(client: TestClient) -> None:
    """The search finds all papers with such a sentence and no others."""
    found = search(client, filters={"has_facets": ["objective"]}, limit=100)["results"]
    snapshot = client.app.state.services.collection.engines.current.snapshot  # type: ignore[attr-defined]  # the client keeps its application
    papers = [snapshot.paper(i) for i in range(len(snapshot))]
    expected = {p.id for p in papers if any(s.facet is Facet.OBJECTIVE for s in p.sentences)}
    assert expected - {"demo:p00-m03"} == {result["paper"]["id"] for result in found}


@pytest.mark.parametrize(
    "body",
    [
        {"facet": []},
        {"facet": ["method", "vibe"]},
        {"facet": ["method"], "sentences": [0]},
        {"facet": {"name": "method"}},
        {"filters": {"has_facets": "method"}},
        {"filters": {"has_facets": ["vibe"]}},
        {"filters": {"has_facet": ["method"]}},
    ],
)
def test_a_wrong_facet_gets_a_problem(client: TestClient, body: dict[str, Any]) -> None:
    """Empty, unknown, misplaced or malformed facets get 422."""
    response = client.post("/v1/search", json={"query": {"paper_id": "demo:p00-m03"}, **body})
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])


FACETED = [
    (["--facet", "method", "--facet", "result"], {"facet": ["method", "result"]}),
    (
        ["--facet", "method", "--unlike", "background", "--unlike-weight", "0.6"],
        {"facet": "method", "unlike": {"facet": "background", "weight": 0.6}},
    ),
    (
        ["--sentences", "2", "--unlike-sentences", "0,1"],
        {"sentences": [2], "unlike": {"sentences": [0, 1]}},
    ),
    (["--unlike", "background", "--unlike", "result"], {"unlike": {"facet": ["background", "result"]}}),
    (
        ["--has-facet", "objective", "--has-facet", "other"],
        {"filters": {"has_facets": ["objective", "other"]}},
    ),
]


@pytest.mark.parametrize(("arguments", "body"), FACETED)
def test_the_command_line_answers_as_the_service(
    client: TestClient, hashed_data: Path, arguments: list[str], body: dict[str, Any]
) -> None:
    """Every flag about facets gives the same answer as its field of a request."""
    command = ["search", "--data", str(hashed_data), "--paper", "demo:p00-m03", "--limit", "3", "--json"]
    shown = CliRunner().invoke(app, command + arguments)
    assert 0 == shown.exit_code, shown.output
    by_command, by_request = json.loads(shown.stdout), search(client, limit=3, **body)
    for answer in (by_command, by_request):
        del answer["took_ms"], answer["next_cursor"]  # the command line does not page
    assert by_request == by_command


def test_contrast_is_shown(hashed_data: Path) -> None:
    """Both sides of the query are marked, and results show their distance from the unlike side."""
    shown = printed(hashed_data, "--paper", "demo:p00-m03", "--facet", "method", "--unlike", "background")
    assert "▷ 0 " in shown
    assert "▶ 2 " in shown
    assert "(distance 1." in shown
    assert "from what results should be unlike)" in shown
    assert "≠ " in shown
    plain = printed(hashed_data, "--paper", "demo:p00-m03", "--facet", "method")
    assert not {"▷", "≠", "(at"} & set(plain.split())


def test_the_facets_of_the_query_are_shown(hashed_data: Path) -> None:
    """Each sentence of the query is printed with its facet."""
    shown = printed(hashed_data, "--paper", "demo:p00-m03")
    assert all(f". {facet} " in shown for facet in ("background", "objective", "method", "result"))


def test_a_missing_facet_is_reported_on_the_command_line(hashed_data: Path) -> None:
    """The command prints the detail of an empty answer, and a note if the unlike facet is missing."""
    shown = printed(hashed_data, "--paper", "demo:p00-m03", "--facet", "other")
    assert "it has background, objective, method and result." in shown
    noted = printed(hashed_data, "--paper", "demo:p00-m03", "--facet", "method", "--unlike", "other")
    assert f"Note: {warning(WarningCode.UNLIKE_FACET_MISSING, 'other').message}" in noted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--unlike", "method", "--unlike-sentences", "0"], "not both"),
        (["--unlike-sentences", "a"], "--unlike-sentences 'a'"),
        (["--unlike-weight", "0.5"], "give --unlike FACET as well"),
        (["--facet", "method", "--unlike", "method"], "both like and unlike"),
    ],
)
def test_a_wrong_contrast_says_what_to_do(hashed_data: Path, arguments: list[str], message: str) -> None:
    """A contradictory contrast ends with one clear error."""
    shown = printed(hashed_data, "--paper", "demo:p00-m03", *arguments, status=1)
    assert shown.startswith("error:")
    assert message in shown


def test_facets_by_another_tagger_than_the_collections_are_reported(
    hashed_data: Path, hashing: Encoder
) -> None:
    """A query by facets gets a warning if a tagger other than that of the index tags the pasted paper."""
    given = replace(open_snapshot(hashed_data).paper(0), id="")
    other_tagger = warning(WarningCode.INDEXED_WITH_OTHER_TAGGER, "keywords")
    for name, expected in (("keywords", ()), ("others", (other_tagger,))):
        annotator = Annotator(hashing, tagger=KeywordTagger(name))
        engine = SearchEngine(open_snapshot(hashed_data), lambda made=annotator: made, n_candidates=50)
        answer = engine.search(SearchQuery((Seed(paper=given, aspect=Aspect(facets=(Facet.METHOD,))),)))
        assert expected == answer.warnings
        assert () == engine.search(SearchQuery((Seed(paper=given),))).warnings


def test_a_collection_outlives_the_weights_it_was_indexed_with(tmp_path: Path) -> None:
    """If the weights given to `akin index` are gone, the shipped tagger is used."""
    weights = tmp_path / "facets-mine.safetensors"
    weights.write_bytes(content_of(SHIPPED_WEIGHTS / "facets-surface.safetensors.halves.gz"))
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(3))
    options = ["--encoder", "hashing", "--tagger", str(weights)]
    done = CliRunner().invoke(app, ["index", str(corpus), "--data", str(tmp_path / "data"), *options])
    assert 0 == done.exit_code, done.output
    settings = Settings(data=tmp_path / "data")
    assert "facets-mine" == open_engine(settings).annotator.tagger.spec.name
    weights.unlink()
    assert "facets-surface" == open_engine(settings).annotator.tagger.spec.name
