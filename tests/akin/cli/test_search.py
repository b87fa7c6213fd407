"""Tests of `akin search`: a folder and a running service give the same answers, in every format."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import rispy
from typer.testing import CliRunner

from akin.cli.app import app
from akin.cli.options import Output
from akin.cli.output import format_answer
from akin.cli.render import title_line
from akin.cli.search.query import read_query
from akin.client.responses.papers import Paper, PaperList, PaperSummary
from indexer.files.data_folder import CATALOG_FILE
from models.encoder import Encoder
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.settings import Settings
from tests.support.builds import ROOT, add_papers, build_quietly, many_papers, write_corpus
from tests.support.commands import flat, run
from tests.support.examples.bibtex import entries
from tests.support.servers.loopback import served
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS

QUERY = ("--paper", "demo:p03-m07", "--facet", "method", "--unlike", "background", "--year-from", "2019")


def answered(*arguments: Any) -> dict[str, Any]:
    """Return the JSON that a command prints, without the time it took."""
    answer: dict[str, Any] = json.loads(run(*arguments, "--json"))
    del answer["took_ms"]
    return answer


def test_a_service_answers_as_a_folder_does(data: Path, address: str, tmp_path: Path) -> None:
    """A folder and a service give the same answer to every kind of query, except for the service's cursor."""
    draft = tmp_path / "draft.txt"
    draft.write_text("Floods\n\nRivers flood towns. We fit a graph. It forecasts floods.", encoding="utf-8")
    for query in (
        QUERY,
        ("--abstract", draft, "--sentences", "1,2", "--unlike-sentences", "0", "--unlike-weight", "0.3"),
        ("--text", "graphs", "--scorer", "single", "--tau", "2", "--words", "0.5", "--specificity", "0"),
        (*QUERY[:2], "--author", "nobody", "--venue", "a", "--field", "b", "--has-facet", "method"),
    ):
        of_service = answered("search", "--url", address, *query)
        of_service["next_cursor"] = None
        assert answered("search", "--data", data, *query) == of_service
    shown = run("search", "--url", address, *QUERY, "--limit", "2")
    assert re.sub(r"[\d,]+ ms", "", run("search", "--data", data, *QUERY, "--limit", "2")) == re.sub(
        r"[\d,]+ ms", "", shown
    )


@pytest.mark.parametrize(
    ("command", "begins", "indent"),
    [
        (("search", *QUERY, "--limit", "2"), r" {5}\d\d% | {9}", 9),
        (("recommend", QUERY[1], "--limit", "2"), r" {5}\d\d% | {9}", 9),
        (("compare", QUERY[1], "demo:p03-m02"), r" {2}[ \d]\d ", 5),
    ],
)
def test_wrapped_sentences_continue_below_their_words(
    data: Path, command: tuple[str, ...], begins: str, indent: int
) -> None:
    """On a narrow terminal the rest of a sentence is indented as its first words are, and fits the width."""
    lines = run(*command, "--data", data, width=80).rstrip().splitlines()
    assert all(len(line) <= 80 for line in lines)
    n_wrapped = 0
    for line, following in pairwise(lines):
        if re.match(begins, line) and following[:1] == " " and not re.match(r" *\d", following):
            assert " " * indent == following[:indent]
            n_wrapped += 1
    assert n_wrapped > 4


def test_a_service_answers_sentences_and_pairs_too(data: Path, address: str, tmp_path: Path) -> None:
    """`akin sentences` and `akin compare` print the same for a service as for a folder."""
    draft = tmp_path / "draft.txt"
    draft.write_text("Floods\n\nRivers flood towns. We fit a graph.", encoding="utf-8")
    for query in (
        ("sentences", "We fit a graph.", "--facet", "method", "--year-from", "2019", "--limit", "3"),
        ("sentences", "--paper", QUERY[1], "--sentence", "0"),
        ("compare", QUERY[1], "demo:p03-m02"),
        ("compare", draft, QUERY[1]),
    ):
        assert answered(*query, "--data", data) == answered(*query, "--url", address)
        shown = [run(*query, *place) for place in (("--data", data), ("--url", address))]
        assert re.sub(r"[\d,.]+ ms", "", shown[0]) == re.sub(r"[\d,.]+ ms", "", shown[1])
        assert "--url" in flat(run(*query, status=1))
    title = "A long title of graphs " * 20  # longer than any file name
    assert "No paper of this collection" in flat(run("compare", title, QUERY[1], "--data", data, status=1))


def test_every_option_is_a_field_of_the_request(data: Path, address: str) -> None:
    """Options of the command line give the same results as the fields of a request body."""
    one = answered("search", "--data", data, "--text", "graphs")["results"][0]["paper"]
    commands: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        (
            (*QUERY, "--unlike-weight", "0.3", "--focus", "0.2", "--scorer", "mean_min", "--tau", "3"),
            {
                "query": {"paper_id": QUERY[1]},
                "facet": "method",
                "unlike": {"facet": "background", "weight": 0.3},
                "filters": {"year_from": 2019},
                "focus": 0.2,
                "scorer": "mean_min",
                "tau": 3,
            },
        ),
        (
            ("--text", "graphs", "--author", one["authors"][0], "--words", "0.5", "--specificity", "1"),
            {
                "query": {"text": "graphs"},
                "filters": {"authors": [one["authors"][0]]},
                "words": 0.5,
                "specificity": 1,
            },
        ),
        (
            ("--text", "graphs", "--venue", one["venue"], "--field", one["fields"][0], "--year-to", "2021"),
            {
                "query": {"text": "graphs"},
                "filters": {"venues": [one["venue"]], "fields": [one["fields"][0]], "year_to": 2021},
            },
        ),
        (("--text", "graphs", "--has-facet", "other"), {"query": {"text": "graphs"}, "filters": OTHER}),
    ]
    for arguments, body in commands:
        expected = httpx.post(f"{address}/v1/search", json=body).json()
        found = answered("search", "--data", data, *arguments)
        assert expected["results"] == found["results"], arguments


OTHER = {"has_facets": ["other"]}


@pytest.mark.parametrize("given", [(), ("--data", "x", "--url", "http://127.0.0.1:1")])
@pytest.mark.parametrize("command", [("search", "--text", "a"), ("watch",)])
def test_one_of_folder_and_service_is_required(command: tuple[str, ...], given: tuple[str, ...]) -> None:
    """Giving neither or both of --data and --url is an error that names them."""
    assert "either --data" in run(*command, *given, status=1)


def test_a_key_opens_the_service(data: Path) -> None:
    """`--key` is sent to the service; without a key, the message of the service is shown."""
    with Keys.open(data / CATALOG_FILE) as keys:
        token = keys.create("me", scope=Scope.READ, expires_days=1).token
    with served(create_app(Settings(data=data, device="cpu"))) as address:
        assert "No key was given" in flat(run("search", "--url", address, *QUERY, status=1))
        assert run("search", "--url", address, "--key", token, *QUERY, "--output", "titles")


def test_results_are_written_for_other_programs(data: Path) -> None:
    """CSV, BibTeX, RIS and titles list the papers in the order of the results."""
    expected = [
        each["paper"] for each in answered("search", "--data", data, *QUERY, "--limit", "4")["results"]
    ]

    def printed(form: str) -> str:
        return run("search", "--data", data, *QUERY, "--limit", "4", "--output", form)

    rows = list(csv.DictReader(io.StringIO(printed("csv"))))
    assert [(str(rank), each["id"], each["abstract"]) for rank, each in enumerate(expected, 1)] == [
        (row["rank"], row["id"], row["abstract"]) for row in rows
    ]
    assert [each["title"] for each in expected] == [
        each["title"].strip("{}") for each in entries(printed("bibtex")).values()
    ]
    assert [each["id"] for each in expected] == [each["id"] for each in rispy.loads(printed("ris"))]
    numbered = enumerate(expected, start=1)
    assert [
        f"{rank:>2}. {each['title']}  {each['year']} · {each['id']}" for rank, each in numbered
    ] == printed("titles").splitlines()


def test_results_are_a_table_to_paste(data: Path) -> None:
    """Searches and recommendations are printed as Markdown, LaTeX and TSV tables; lists of papers are not."""
    for query in (("search", *QUERY), ("recommend", QUERY[1], "demo:p03-m02")):
        command = (*query, "--data", data, "--limit", "3")
        titles = [each["paper"]["title"] for each in answered(*command)["results"]]
        head, *rows = csv.DictReader(io.StringIO(run(*command, "--output", "tsv")), delimiter="\t")
        assert titles == [row["Title"] for row in (head, *rows)]
        assert all(row["Match"] and row["Method"] for row in (head, *rows))
        first, line, *lines = run(*command, "--output", "markdown").splitlines()
        assert ("| Paper | Problem | Method | Result |", 3) == (first, len(lines))
        assert set(line) == set("| -")
        assert 3 == run(*command, "--output", "latex").count(r"\cite{")
    refused = run("papers", "--data", data, "--output", "markdown", status=2)
    assert "'markdown' is not one of 'text', 'titles', 'json', 'csv'" in refused


def test_notes_on_results_go_to_standard_error(tmp_path: Path, hashing: Encoder) -> None:
    """Notes on weak matches and unknown seeds go to standard error, except in JSON, which includes them."""
    papers, data = many_papers(30), tmp_path / "data"
    twins = [{**each, "id": f"{each['id']}-again"} for each in papers]
    build_quietly(write_corpus(tmp_path / "c.jsonl", [*papers, *twins]), data, hashing)
    weak, lost = ("search", "--text", "Whales sing."), ("recommend", "p3", "nobody")
    for form in ("titles", "csv", "markdown", "latex", "tsv", "bibtex", "ris", "json"):
        for command, note in ((weak, "Note: There is no good match"), (lost, "Left out: 'nobody': No paper")):
            result = CliRunner().invoke(app, [*command, "--data", str(data), "--output", form])
            assert 0 == result.exit_code, result.output
            assert (form != "json") is (note in flat(result.stderr)), (form, result.stderr)
            assert note not in flat(result.stdout)
    for command, strength in ((weak, "weak"), (("search", "--paper", "p3"), "fair")):
        (row, *_) = csv.DictReader(io.StringIO(run(*command, "--data", data, "--output", "csv")))
        (best, *_) = answered(*command, "--data", data)["results"]
        assert strength == row["strength"]
        assert best["strength"] == {"label": strength, "nearer_than": float(row["nearer_than"])}


def test_no_cell_is_a_formula() -> None:
    """A CSV list of papers escapes formulas for spreadsheets, like the service's, and has no rank column."""
    paper = Paper("=a", "+b", "@c", (), 2020, "-d", ("=e", "f"), None, None, ("=g",))
    text = format_answer(Output.CSV, PaperList((paper,), 1, None, "000001"))
    (row,) = csv.DictReader(io.StringIO(text))
    assert "rank" not in row
    assert ["'=a", "'+b", "'@c", "'-d", "'=e; f", "'=g"] == [
        row[name] for name in ("id", "title", "abstract", "venue", "authors", "fields")
    ]


def print_to(descriptor: int, *arguments: str | Path, columns: str = "") -> None:
    """Run a command in a separate process, with a terminal as its standard output."""
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "CI", "TERM"}}
    environment |= {"TERM": "xterm", **({"COLUMNS": columns} if columns else {})}
    command = [sys.executable, *AKIN_WITHOUT_WEIGHTS, *map(str, arguments)]
    subprocess.run(command, stdout=descriptor, env=environment, cwd=ROOT, check=True)


@pytest.mark.system
def test_lines_are_as_wide_as_a_terminal_and_no_narrower_elsewhere(data: Path) -> None:
    """On a narrow terminal long titles are cut; otherwise each title stays whole on its line."""
    title = "A title that is much longer than any line of a narrow terminal " * 3
    add_papers(data, ("long", title.strip(), "Rivers flood. " * 30))
    command = ("search", "--data", data, "--text", title.strip(), "--limit", "1")
    given = [str(part) for part in command]
    lines = CliRunner().invoke(app, given, env={"COLUMNS": None, "CI": None}).stdout.splitlines()
    heading = next(line for line in lines if line.startswith(" 1. "))
    assert title.strip() in heading
    assert not [line for line in lines if line != line.rstrip()]
    ours, theirs = pty.openpty()
    print_to(theirs, *command, "--output", "titles", columns="60")
    os.close(theirs)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", os.read(ours, 10_000).decode()).splitlines()
    os.close(ours)
    assert 1 == len(shown)
    assert 60 >= len(shown[0])
    assert re.fullmatch(r" 1\. A title that is much .*…  long", shown[0].rstrip())


def test_a_title_of_wide_characters_is_cut_by_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has as many columns as the terminal, although some characters take two."""
    monkeypatch.setenv("COLUMNS", "60")
    paper = PaperSummary("p", "洪水预测" * 12, 2020, None, (), None, None)
    assert 59 <= title_line(paper).cell_len <= 60


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Do models know numbers? Probing them\n\nWe ask. They do.", "Do models know numbers? Probing them"),
        ("On floods.\n\nWe measure.", "On floods."),
        ("We study floods. They rise.\n\nWe measure.", ""),
    ],
)
def test_a_first_paragraph_may_be_a_title(tmp_path: Path, written: str, title: str) -> None:
    """A title may have two parts; several sentences up to a full stop belong to the abstract."""
    draft = tmp_path / "draft.txt"
    draft.write_text(written, encoding="utf-8")
    assert title == read_query(paper_id="", sources=[str(draft)])["title"]
