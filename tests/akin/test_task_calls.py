"""Tests that every Python call on the page of tasks runs, on a collection and on a client of a service."""

import ast
import gzip
import json
import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import akin
from service.app import create_app
from service.settings import Settings
from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.servers.loopback import served

IDS = ("demo:p03-m07", "demo:p01-m02", "demo:p05-m05")
DRAFT = "Rivers flood towns. We fit a graph network. It forecasts floods. It runs on a laptop."
# Calls of the page with a value for each ``...``; these calls run in the others' place.
FILLED = {
    "papers.add([...])": 'papers.add([{"id": "whales", "title": "Whales", "abstract": "Whales sing."}])',
    "papers.search(title=..., abstract=..., sentences=[0, 3])": (
        "papers.search(title='Floods', abstract=DRAFT, sentences=[0, 3])"
    ),
    'papers.search(text="...")': 'papers.search(text="flood forecasts")',
    "client.batch(...)": "client.batch(seeds=[ID], limit=3)",
    'papers.analyze("...")': "papers.analyze(DRAFT)",
    "papers.count_papers(...)": 'papers.count_papers(has_facets=["method"])',
    'papers.find_papers("...")': 'papers.find_papers("Flood")',
    "papers.papers([...])": "papers.papers([ID, ID])",
    "papers.embed([...])": "papers.embed([{'title': 'Floods', 'abstract': DRAFT}])",
    "papers.match([...], {...})": 'papers.match([ID], {"lee": [ID, ID]})',
    "papers.save_query(...)": "papers.save_query('floods', search={'query': {'text': 'flood forecasts'}})",
    "papers.new_papers(...)": "papers.new_papers(made['save_query'].id)",
}


def python_calls(page: Path) -> list[str]:
    """Return the calls in the column "in Python" of a page's tables."""
    calls = []
    for table in re.findall(r"(?m)(?:^\|.*\n)+", page.read_text(encoding="utf-8")):
        head, _, *rows = [re.split(r"\s*(?<!\\)\|\s*", line.strip())[1:-1] for line in table.splitlines()]
        if "in Python" in head:
            calls += [code for row in rows for code in re.findall(r"`([^`]+)`", row[head.index("in Python")])]
    return [code for code in calls if "(" in code]


CALLS = python_calls(ROOT / "docs" / "tasks.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the working folder of a reader, with a small corpus, a library, and the page's index of both."""
    folder = tmp_path_factory.mktemp("tasks")
    lines = DEMO_CORPUS.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["id"] in IDS]
    (folder / "papers.jsonl.gz").write_bytes(gzip.compress("".join(kept).encode()))
    bib = f"@article{{a, title = {{A draft}}, abstract = {{{DRAFT}}}, doi = {{10.1/a}}}}"
    (folder / "my.bib").write_text(bib, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for code in CALLS:
            if code.startswith("akin."):
                eval(code, {"akin": akin}).close()  # noqa: S307 - ours
        yield folder


def answers(papers: object) -> dict[str, Any]:
    """Run the calls that ``papers``, a collection or a client, has; return their answers by method."""
    made: dict[str, Any] = {}
    ids = cycle(IDS)
    for code in CALLS:
        owner, _, _ = code.partition(".")
        method = re.sub(r"^\w*\.(\w+)\(.*", r"\1", code)
        if owner == "akin" or (owner == "client" and not isinstance(papers, akin.Client)):
            continue
        # Another paper for each ID; the deleted paper is the one that was added.
        numbered = re.sub(r"\bID\b", lambda _: repr(next(ids)), FILLED.get(code, code))
        numbered = "papers.delete('whales')" if method == "delete" else numbered
        numbered = re.sub(r"^(?:answer)?\.", "made['search'].", numbered)
        names = {"papers": papers, "client": papers, "made": made, "DRAFT": DRAFT}
        made[method] = eval(numbered, names)  # noqa: S307 - ours
    return made


def test_every_call_runs_on_a_collection_and_on_a_client(folder: Path) -> None:
    """Both give answers of the same types."""
    assert len(CALLS) > 20
    with akin.open(folder / "DIR") as collection:
        here = answers(collection)
    app = create_app(Settings(data=folder / "DIR", keyless="write"))
    with served(app) as address, akin.Client(address) as client:
        there = answers(client)
    assert {"batch"} == there.keys() - here.keys()
    assert {name: type(each) for name, each in here.items()} == {name: type(there[name]) for name in here}


def test_a_filled_call_is_the_one_of_the_page() -> None:
    """Each call in ``FILLED`` is on the page, has dots, and differs from the page only in their place."""
    assert set(FILLED) == {code for code in CALLS if "..." in code}
    for code, filled in FILLED.items():
        pattern = re.escape(code).replace(re.escape('"..."'), ".+").replace(re.escape("..."), ".+")
        assert re.fullmatch(pattern, filled), code
        assert ast.parse(filled)
