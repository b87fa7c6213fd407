"""Tests that the command lines in README and docs/ exist, that many run, and that the Python parses."""

import ast
import gzip
import importlib
import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import httpx
import pytest
import typer

from akin.cli.app import app
from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.clients import client_of
from tests.support.commands import run
from tests.support.documents import (
    NOT_RUN,
    PAGES,
    RUN_IN_TURN,
    SERVICE,
    block_lines,
    python_blocks,
    shown_lines,
    words_of,
)
from tests.support.servers.loopback import served

DRAFT = "Rivers flood towns. We fit a graph network. It forecasts floods."
OURS = {"akin", "evaluation", "indexer", "models", "service", "tests"}
# Values for the placeholders in the lines of the pages.
THEIRS = {
    "DIR": "my-papers",
    ".demo": "my-papers",
    "ID": "demo:p03-m07",
    "Its title, or most of it": "Flood forecasting",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_line_is_one_that_there_is(page: Path) -> None:
    """Every command, subcommand and option in the documentation exists."""
    wrong = [line for line in shown_lines(page) if not is_there(words_of(line)[1:])]
    assert [] == wrong


def is_there(words: list[str]) -> bool:
    """Return whether the command of these words exists and has all options among them."""
    command = typer.main.get_command(app)
    while isinstance(command, typer.core.TyperGroup) and words and not words[0].startswith("-"):
        # Placeholders for a group's command are replaced by one; a TOML file alone means training.
        name = {"SET": "demo", "example": "demo", "COMMAND": "status"}.get(words[0], words[0])
        name = "run" if name.endswith(".toml") else name
        found = command.get_command(typer.Context(command), name)
        if found is None:
            return False
        command = found.loaded() if hasattr(found, "loaded") else found
        words = words[1:]
    known = {"--help", "--version"} | {
        name for each in command.params for name in (*each.opts, *each.secondary_opts)
    }
    return all(word.partition("=")[0] in known for word in words if re.match(r"--?[a-z]", word))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("akin search --data DIR --facet method", True),
        ("akin search --faset method", False),
        ("akin serch", False),
        ("akin snapshot rollback --to 000012", True),
        ("akin snapshot rolback", False),
        ("akin train data cocited --held-out 300", True),
    ],
)
def test_a_line_that_is_wrong_is_seen(line: str, expected: bool) -> None:
    """A misspelt command, subcommand or option is noticed."""
    assert expected == is_there(words_of(line)[1:])


def test_the_lines_are_found() -> None:
    """Command lines are found in blocks and within sentences, and alternatives are separated."""
    lines = {line for page in PAGES for line in shown_lines(page)}
    assert len(lines) > 100
    assert any(line.startswith("akin train facets") for line in lines)
    assert any(line.startswith("akin train data cocited") and "--leave-out beir" in line for line in lines)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a collection of the demo papers, their corpus, a library and a draft."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copy(DEMO_CORPUS, folder / "papers.jsonl")
    run("index", folder / "papers.jsonl", "--data", folder / "my-papers", "--encoder", "hashing")
    (folder / "my.bib").write_text(f"@article{{a, title = {{A draft}}, abstract = {{{DRAFT}}}}}", "utf-8")
    (folder / "draft.txt").write_text(DRAFT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def address(scratch: Path) -> Iterator[str]:
    """Yield the address of a service over that collection."""
    with served(client_of(scratch / "my-papers").app) as address:
        yield address


@pytest.mark.parametrize("page", RUN_IN_TURN, ids=lambda page: page.name)
def test_a_pages_lines_run(page: Path, scratch: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of a page run in order, as a reader types them, with one collection and one service."""
    monkeypatch.chdir(scratch)
    lines = [line for line in block_lines(page) if not line.startswith(NOT_RUN)]
    assert lines
    made, seen = THEIRS["ID"], "12"
    for line in lines:
        if line.startswith("akin "):
            run(*(THEIRS.get(word, word).replace(SERVICE, address) for word in words_of(line)[1:]))
        else:
            assert line.startswith("curl "), line
            command = (
                line.replace(SERVICE, address)
                .replace("/ID", f"/{made}")
                .replace('"up_to": 12', f'"up_to": {seen}')
            )
            answer = sent(command)
            assert answer.status_code < 400, (line, answer.text)
            if answer.status_code in {201, 202}:
                made = str(answer.json()["id"])
            if "/new" in line:
                seen = str(answer.json()["seen_up_to"])


# Values for the placeholders in lines within sentences and tables.
OWN = {
    "DIR": "mine",
    "NAME": "hashing",
    "FILE": "long-draft.txt",
    "FILE...": "papers.jsonl",
    "TARGET": "copy",
    "MORE.jsonl": "more.jsonl",
    "SUBMISSIONS": "more.jsonl",
    "PROFILES": "profiles",
    "OUT": "matched",
}
IDS = ("demo:p03-m07", "demo:p01-m02", "demo:p05-m05")
DELETED = ("demo:p08-m01",)
# Lines that are not run here, and why. All lines are checked for their command and options.
REASONS = {
    "akin serve": "runs until it is stopped: tests/akin/cli/serving/test_serve.py",
    "akin mcp": "runs until it is stopped: tests/akin/test_mcp.py",
    "akin convert": "needs a published checkpoint: tests/models/encoders/test_checkpoints.py",
    "akin train": "needs a training set: tests/akin/training/",
    "akin evaluate": "needs a test collection: tests/evaluation/",
    "akin COMMAND": "stands for every command",
    "akin reindex": "takes seconds: tests/indexer/collection/test_reindex.py",
    "akin sentences": "the hashing encoder has no vectors of functions: tests/akin/cli/test_sentences.py",
    "akin index papers.jsonl --data DIR --replace": "takes seconds: tests/indexer/collection/build/",
    "akin index my.bib --data DIR [--fetch]": "asks services on the network: tests/akin/cli/test_lookups.py",
}
# Commands whose default encoder would take seconds to load.
ENCODES = ("akin embed", "akin analyze", "akin match")
ASK_A_COLLECTION = ("search", "recommend", "papers", "compare", "index", "snapshot")


@pytest.fixture(scope="module")
def mine(scratch: Path) -> Path:
    """Return the same folder with a second collection, more papers, and a reviewer's profile."""
    shutil.copytree(scratch / "my-papers", scratch / "mine")
    lines = (scratch / "papers.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (scratch / "more.jsonl").write_text("".join(lines[:3]).replace('"demo:', '"more:'), encoding="utf-8")
    (scratch / "papers.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (scratch / "long-draft.txt").write_text(f"{DRAFT} It runs on a laptop.", encoding="utf-8")
    (scratch / "profiles").mkdir()
    (scratch / "profiles" / "lee.jsonl").write_text("".join(lines[5:9]), encoding="utf-8")
    return scratch


def as_typed(line: str) -> list[str]:
    """Return the words of a line after ``akin``, with values for its placeholders."""
    names = cycle(DELETED if line.startswith(("akin delete", "akin purge")) else IDS)
    line = line.replace(' "..."', " floods").replace("search ...", "search --paper ID")
    words = [next(names) if word == "ID" else OWN.get(word, word) for word in words_of(line)[1:]]
    if words[0] in ASK_A_COLLECTION and not {"mine", "--data", "--url"} & set(words):
        words += ["--data", "mine"]
    return words + (["--encoder", "hashing"] if line.startswith(ENCODES) else [])


def test_the_lines_of_tables_and_sentences_run(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines in tables and sentences run in order, except mentions of a command without arguments."""
    monkeypatch.chdir(mine)
    pages = [ROOT / "docs" / name for name in ("tasks.md", "how-to/collections.md", "how-to/corpora.md")]
    blocks = {line for page in pages for line in block_lines(page)}
    lines = dict.fromkeys(line for page in pages for line in shown_lines(page) if line not in blocks)
    typed = [line for line in lines if len(words_of(line)) > 2 and not line.startswith(tuple(REASONS))]
    assert len(typed) > 30
    for line in typed:
        run(*as_typed(line))


def test_each_reason_is_that_of_a_line_and_names_what_is_there() -> None:
    """Every exception in ``REASONS`` fits a line of the documentation, and the tests it names exist."""
    lines = {line for page in PAGES for line in shown_lines(page)}
    assert [] == [start for start in REASONS if not any(line.startswith(start) for line in lines)]
    named = re.findall(r"tests/[\w/.]+", " ".join(REASONS.values()))
    assert [] == [name for name in named if not (ROOT / name).exists()]


def sent(line: str) -> httpx.Response:
    """Send the request of a curl line with httpx, as curl may be missing, and return the response."""
    words = shlex.split(line)[1:]
    url = next(word for word in words if word.startswith("http"))
    given = {kind: [words[i + 1] for i, word in enumerate(words) if word == kind] for kind in ("-H", "-d")}
    headers = dict(header.split(": ", 1) for header in given["-H"])
    body = given["-d"][0] if given["-d"] else None
    return httpx.request("GET" if body is None else "POST", url, headers=headers, content=body, timeout=30)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_every_python_example_is_python_of_this_version(page: Path) -> None:
    """Every Python example parses, and its imports from this repository exist."""
    for code in python_blocks(page):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in OURS:
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, each.name) for each in node.names), (node.module, code)
