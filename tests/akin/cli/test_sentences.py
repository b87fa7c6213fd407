"""Tests of ``akin sentences``, the search for sentences on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from akin.cli.app import app
from service.search.engine import SearchEngine
from service.search.sentences import SentenceQuery, search_sentences


def run(*arguments: str, data: Path = Path("unused"), status: int = 0) -> str:
    """Return what ``akin sentences`` prints, and check that its exit status is ``status``."""
    result = CliRunner().invoke(app, ["sentences", "--data", str(data), *arguments], env={"COLUMNS": "300"})
    assert status == result.exit_code, result.output
    return result.output


TEXT = {"text": "We study floods."}


SOME_SENTENCE = {"paper_id": "demo:p03-m07", "sentence": 3}


COMMANDS: list[tuple[list[str], dict[str, Any]]] = [
    (["We study floods."], {"query": TEXT}),
    (
        ["--paper", "demo:p03-m07", "--sentence", "3", "--by", "function", "--limit", "4"],
        {"query": SOME_SENTENCE, "by": "function", "limit": 4},
    ),
    (
        [
            *("We study floods.", "--facet", "method", "--facet", "result"),
            *("--year-from", "2021", "--has-facet", "other"),
        ],
        {
            "query": TEXT,
            "facet": ["method", "result"],
            "filters": {"year_from": 2021, "has_facets": ["other"]},
        },
    ),
]


@pytest.mark.parametrize(("arguments", "body"), COMMANDS)
def test_json_is_the_body_of_the_service(
    sentence_client: TestClient,
    sentence_engine: SearchEngine,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    body: dict[str, Any],
) -> None:
    """`akin sentences --json` prints the body of POST /v1/sentences/search, except for took_ms."""
    monkeypatch.setattr("akin.local.folder.open_engine", lambda *_: sentence_engine)
    printed = json.loads(run(*arguments, "--json"))
    answered = sentence_client.post("/v1/sentences/search", json=body).json()
    del printed["took_ms"], answered["took_ms"]
    assert answered == printed


def test_the_command_opens_the_data_folder(hashed_data: Path, plain_engine: SearchEngine) -> None:
    """`akin sentences --data` searches the collection in that folder."""
    arguments = ("--paper", "demo:p03-m07", "--sentence", "3", "--limit", "5", "--json")
    printed = json.loads(run(*arguments, data=hashed_data))
    answer = search_sentences(plain_engine, SentenceQuery(paper_id="demo:p03-m07", sentence=3, limit=5))
    found = [(each["paper"]["id"], each["sentence"]) for each in printed["results"]]
    assert [(each.paper.id, each.sentence) for each in answer.results] == found


def test_a_table_for_people(sentence_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output shows the query, and the distance, facet, sentence, paper and year of each result."""
    monkeypatch.setattr("akin.local.folder.open_engine", lambda *_: sentence_engine)
    answer = search_sentences(sentence_engine, SentenceQuery(paper_id="demo:p03-m07", sentence=3, limit=2))
    shown = run("--paper", "demo:p03-m07", "--sentence", "3", "--limit", "2")
    assert "(demo:p03-m07, sentence 3)" in shown
    for found in answer.results:
        sentence = found.paper.sentences[found.sentence]
        line = next(line for line in shown.splitlines() if f"{found.distance:.4f}" in line)
        assert sentence.text in line
        assert str(sentence.facet) in line
        assert found.paper.title in line
        assert f"{found.paper.id}, sentence {found.sentence} · {found.paper.year}" in shown
    assert "2 results in" in shown


def test_an_empty_table_says_why(sentence_engine: SearchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without results states the reason."""
    monkeypatch.setattr("akin.local.folder.open_engine", lambda *_: sentence_engine)
    assert "has a sentence of this facet" in run("We study floods.", "--facet", "other", "--year-to", "2017")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "as --paper ID --sentence N"),
        (["x", "--paper", "demo:p03-m07", "--sentence", "0"], "as --paper ID --sentence N"),
        (["x", "--paper", "demo:p03-m07"], "as --paper ID --sentence N"),
        (["--paper", "demo:p03-m07"], "as --paper ID --sentence N"),
        ([" "], "query.text: the text is blank"),
        (["x" * 2001], "query.text must have at most 2,000 characters"),
    ],
)
def test_a_wrong_command_says_what_to_do(arguments: list[str], message: str) -> None:
    """Wrong arguments end with a message that shows the right ones."""
    assert message in " ".join(run(*arguments, status=1).split())
