"""Tests of `akin papers` and its client methods: paging, filtering, counting and finding by title."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

import akin
from akin.client.responses.papers import PaperList, TitlesAnswer
from service.app import create_app
from service.settings import Settings
from tests.support.builds import DEMO_CORPUS
from tests.support.commands import flat, run
from tests.support.servers.loopback import served

DEMO = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
IDS = [paper["id"] for paper in DEMO]
LATE = [paper["id"] for paper in DEMO if paper["year"] >= 2020]


@pytest.fixture(scope="module")
def address(hashed_data: Path) -> Iterator[str]:
    """Yield the address of a service over the demo corpus."""
    with served(create_app(Settings(data=hashed_data, device="cpu"))) as address:
        yield address


def printed_ids(*arguments: str | Path) -> list[str]:
    """Return the ids that `akin papers --output json` prints."""
    answer = json.loads(run("papers", *arguments, "--output", "json"))
    return [paper["id"] for paper in answer["papers"]]


@pytest.mark.parametrize("where", ["folder", "service"])
def test_pages_are_counted_from_one(hashed_data: Path, address: str, where: str) -> None:
    """Pages start at 1; the last page holds the rest and the page after it is empty."""
    source = ("--data", hashed_data) if where == "folder" else ("--url", address)
    for page, expected in ((1, IDS[:30]), (2, IDS[30:60]), (4, IDS[90:]), (5, [])):
        assert expected == printed_ids(*source, "--limit", "30", "--page", str(page))
    assert IDS == printed_ids(*source, "--limit", "500")
    assert [] == printed_ids("--data", hashed_data, "--page", str(2**40))
    assert LATE[20:40] == printed_ids(*source, "--year-from", "2020", "--page", "2")
    assert f"{len(LATE)}\n" == run("papers", *source, "--count", "--year-from", "2020")
    shown = run("papers", *source, "--limit", "2", "--page", "2").splitlines()
    assert f"{DEMO[2]['title']}  {DEMO[2]['year']} · {IDS[2]}" == shown[0]
    assert f"    {', '.join(DEMO[2]['authors'])} · {DEMO[2]['venue']}" == shown[1]
    assert "3 to 4 of 100 papers, generation 000001" == shown[-1]
    *table, note = run("papers", *source, "--limit", "3", "--output", "csv").splitlines()
    assert "3 papers of 100; --limit and --page give others." == note
    rows = csv.DictReader(table)
    assert IDS[:3] == [row["id"] for row in rows]
    shown = run("papers", *source, "--limit", "3", "--output", "titles").splitlines()
    assert (4, note) == (len(shown), shown[-1])
    assert 100 == len(run("papers", *source, "--limit", "500", "--output", "titles").splitlines())


@pytest.mark.parametrize("where", ["folder", "service"])
def test_a_title_is_found_as_it_is_remembered(hashed_data: Path, address: str, where: str) -> None:
    """A misspelt title in any case or some of its words find a paper; if nothing is like it, that is said."""
    source = ("--data", hashed_data) if where == "folder" else ("--url", address)
    wrong = DEMO[7]["title"].lower().replace("e", "a", 1)
    assert IDS[7] in run("papers", *source, "--title", wrong).splitlines()[0]
    found = json.loads(run("papers", *source, "--title", wrong, "--output", "json"))["results"]
    assert IDS[7] == found[0]["paper"]["id"]
    some = " ".join(DEMO[7]["title"].split()[-3:])
    assert IDS[7] in run("papers", *source, "--title", some)
    assert "No paper has a similar title, or one with these words." in run(
        "papers", *source, "--title", "xylophone quartz"
    )


@pytest.mark.parametrize("where", ["folder", "service"])
@pytest.mark.parametrize("n_only", [False, True])
def test_a_name_that_no_paper_has_is_reported(
    hashed_data: Path, address: str, where: str, *, n_only: bool
) -> None:
    """If no paper has a filter's name, listing and counting say so, and name those it may mean."""
    source = ("--data", hashed_data) if where == "folder" else ("--url", address)
    author = DEMO[0]["authors"][0]
    shown = flat(run("papers", *source, "--author", author.split()[-1], *(["--count"] if n_only else [])))
    assert f"no author is called exactly {author.split()[-1]}; did you mean " in shown
    assert n_only == shown.startswith("0 ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--title", "x", "--count"), "--title cannot be combined"),
        (("--title", "x", "--year-from", "2020"), "--title cannot be combined"),
        (("--title", "x", "--limit", "101"), "--limit is at most 100"),
        (("--count", "--page", "3"), "--count prints a number alone"),
        (("--count", "--output", "csv"), "--count prints a number alone"),
        (("--title", "x", "--output", "csv"), "text, titles or json, not csv"),
        (("--title", "?!"), "no letter"),
        (("--field", ""), "fields"),
    ],
)
def test_what_cannot_be_listed_says_why(hashed_data: Path, arguments: tuple[str, ...], message: str) -> None:
    """Contradicting options, and values without a name, end with a message."""
    assert message in run("papers", "--data", hashed_data, *arguments, status=1)


def test_help_lists_the_formats_that_papers_can_have(hashed_data: Path) -> None:
    """The formats in the help of `akin papers` are those that it prints, without tables of matches."""
    in_words = " ".join(re.sub(r"[^\w.,]+", " ", run("papers", "--help")).split())
    (formats,) = re.findall(r"programs\. One of ([\w, ]+)\.", in_words)
    assert "text, titles, json, csv, bibtex, ris" == formats
    for each in formats.split(", "):
        assert run("papers", "--data", hashed_data, "--limit", "1", "--output", each)


def test_the_clients_list_count_and_find(address: str) -> None:
    """Both clients list with filters, count, and find papers by title, with the same answers."""

    async def ask() -> tuple[PaperList, int, TitlesAnswer]:
        async with akin.AsyncClient(address) as client:
            return (
                await client.list_papers(limit=5, year_from=2020, fields=["Hydrology", "Robotics"]),
                await client.count_papers(has_facets=["other"]),
                await client.find_papers(DEMO[7]["title"], limit=1),
            )

    page, n_papers, found = anyio.run(ask)
    wanted = [p["id"] for p in DEMO if p["year"] >= 2020 and {"Hydrology", "Robotics"} & {*p["fields"]}]
    assert (wanted[:5], len(wanted)) == ([paper.id for paper in page.papers], page.total)
    assert [(IDS[7], 1.0)] == [(each.paper.id, each.similarity) for each in found.results]
    with akin.Client(address) as client:
        assert page == client.list_papers(limit=5, year_from=2020, fields=["Hydrology", "Robotics"])
        rest = client.list_papers(cursor=page.next_cursor, year_from=2020, fields=["Hydrology", "Robotics"])
        assert wanted[5:] == [paper.id for paper in rest.papers]
        assert n_papers == client.count_papers(has_facets=["other"])
        assert found.results == client.find_papers(DEMO[7]["title"], limit=1).results
