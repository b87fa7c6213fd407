"""Tests of `akin recommend` with named papers and libraries, for a folder and a running service."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from akin.cli.app import app
from akin.client.client import Client
from akin.client.library import looked_up, read_seeds, with_libraries
from akin.local.collection import Collection
from tests.support.builds import DEMO_CORPUS
from tests.support.commands import flat, run

DEMO = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
DRAFT = "Rivers flood towns. We fit a graph network. It forecasts floods."
LIBRARY = f"""
@article{{{DEMO[5]["id"]}, abstract = {{Ours.}}}}
@article{{b, title = {{{DEMO[7]["title"].upper()}}}}}
@article{{c, title = {{A draft}}, abstract = {{{DRAFT}}}, year = 2020}}
@article{{d, title = {{Neither here nor there}}}}
@article{{e, title
@article{{f, title = {{Too long}}, abstract = {{{"x" * 100_001}}}}}
@article{{b2, title = {{{DEMO[7]["title"]}}}}}
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return the path of a library with two papers of the collection."""
    path = tmp_path / "my.bib"
    path.write_text(LIBRARY, encoding="utf-8")
    return path


def answered(*arguments: Any) -> dict[str, Any]:
    """Return the JSON that a command prints, without the time it took."""
    output = run("recommend", *arguments, "--json")
    answer: dict[str, Any] = json.loads(output[output.index('{"results"') :])
    del answer["took_ms"]
    return answer


def test_a_library_is_a_list_of_seeds(data: Path, library: Path) -> None:
    """Library entries found by id or title become seeds once; others are used by abstract, or left out."""
    with Collection(data, device="cpu") as collection:
        found = looked_up(read_seeds([library]), collection.papers)
    assert [
        {"paper_id": DEMO[5]["id"]},
        {"paper_id": DEMO[7]["id"]},
        {"title": "A draft", "abstract": DRAFT},
    ] == found.seeds
    assert (3, 1, ["Neither here nor there", "Too long"]) == (found.n_known, found.n_pasted, found.left_out)
    assert [f"{library}:6: "] == [row[: len(f"{library}:6: ")] for row in found.broken]
    assert not found.past


def test_a_key_that_somebody_made_up_names_no_paper(data: Path, address: str, library: Path) -> None:
    """A citation key equal to a paper's id finds no paper if the titles differ, in all three interfaces."""
    library.write_text(
        f"@article{{{DEMO[5]['id']}, title = {{Quantum gravity}}, abstract = {{{DRAFT}}}}}\n"
        f"@article{{gone, title = {{Wrong}}, doi = {{10.5555/no}}, url = {{{DEMO[6]['id']}}}}}",
        encoding="utf-8",
    )
    with Collection(data, device="cpu") as collection, Client(address) as client:
        found = [looked_up(read_seeds([library]), each.papers) for each in (collection, client)]
    for seeds in found:
        assert ([{"title": "Quantum gravity", "abstract": DRAFT}], 0) == (seeds.seeds, seeds.n_known)
        assert ["Wrong"] == seeds.left_out
    assert "0 found in the collection, 1 used by their text" in run(
        "recommend", "--data", data, "--like", library
    )
    page = httpx.post(f"{address}/library", files={"file": ("my.bib", library.read_bytes())}, timeout=60)
    assert "0 of 2 papers are in this collection" in page.text


def test_an_entry_is_known_by_each_of_its_names(data: Path, library: Path) -> None:
    """An entry is found by any of its identifiers, even if the first is not in the collection."""
    library.write_text(
        f"@article{{a, doi = {{10.5555/no}}, url = {{{DEMO[6]['id']}}}}}\n"
        f"@article{{{DEMO[5]['id']}, year = 2020}}",
        encoding="utf-8",
    )
    with Collection(data, device="cpu") as collection:
        found = looked_up(read_seeds([library]), collection.papers)
    assert [{"paper_id": DEMO[6]["id"]}, {"paper_id": DEMO[5]["id"]}] == found.seeds


def test_a_long_library_counts_to_its_bound(data: Path, library: Path) -> None:
    """Only the first ``most`` entries of a library are read, and the result says that there were more."""
    with Collection(data, device="cpu") as collection:
        found = looked_up(read_seeds([library, library], most=4), collection.papers)
    assert (3, True) == (len(found.seeds), found.past)


def test_likes_and_dislikes_are_no_more_than_are_allowed(
    data: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of a library count as long as there is room for them, next to dislikes and named papers."""
    for place in ("akin.client.library.MAX_SEEDS", "akin.cli.search.recommend.MAX_SEEDS"):
        monkeypatch.setattr(place, 3)
    options = ("--data", data, "--like", library, "--unlike", DEMO[50]["id"])
    assert [False, False, True] == [each["negative"] for each in answered(*options, DEMO[3]["id"])["seeds"]]
    shown = run("recommend", *options, DEMO[3]["id"], "--limit", "1")
    assert "only the first 1 entry counts; give the others in another search." in shown
    params = {"seeds": [DEMO[3]["id"]], "like": library, "unlike": library}
    with Collection(data, device="cpu") as collection, pytest.warns(UserWarning, match="only the first 1"):
        sent = looked_up(with_libraries(params), collection.papers)
    assert [DEMO[3]["id"], {"paper_id": DEMO[5]["id"]}] == sent["seeds"]
    assert [{"paper_id": DEMO[5]["id"]}] == sent["negatives"]


def test_a_file_without_entries_is_named(data: Path, library: Path) -> None:
    """If no entry of a library can be read, the output names the file, also next to named papers."""
    library.write_text("garbage", encoding="utf-8")
    message = f"{library}: 0 found in the collection, 0 used by their text. no entry could be read"
    refused = run("recommend", "--data", data, "--like", library, status=1)
    assert message in flat(refused)
    assert "no entry of this one can be used" in flat(refused)
    assert message in flat(run("recommend", "--data", data, "--like", library, DEMO[3]["id"]))


def test_recommendations_are_those_of_the_interface(data: Path, address: str, library: Path) -> None:
    """A folder and a service give the answer of `/v1/recommendations` for the same seeds and options."""
    negative = library.with_name("not.bib")
    negative.write_text(f"@article{{x, title = {{{DEMO[40]['title']}}}}}", encoding="utf-8")
    options = [
        DEMO[3]["id"],
        *("--like", library, "--unlike", DEMO[50]["id"], "--unlike", negative, "--facet", "method"),
        *("--strategy", "all", "--negative-weight", "0.3", "--words", "0.5", "--specificity", "1"),
        *("--limit", "4", "--year-from", "2015", "--text", "Rivers flood towns."),
    ]
    names = [DEMO[place]["id"] for place in (3, 5, 7)]
    body = {
        "seeds": [
            {"paper_id": names[0], "facet": ["method"]},
            {"text": "Rivers flood towns.", "facet": ["method"]},
            *({"paper_id": name, "facet": ["method"]} for name in names[1:]),
            {"title": "A draft", "abstract": DRAFT, "facet": ["method"]},
        ],
        "negatives": [{"paper_id": DEMO[50]["id"]}, {"paper_id": DEMO[40]["id"]}],
        "strategy": "all",
        "negative_weight": 0.3,
        "words": 0.5,
        "specificity": 1,
        "limit": 4,
        "filters": {"year_from": 2015},
    }
    expected = httpx.post(f"{address}/v1/recommendations", json=body, timeout=60).json()
    of_folder, of_service = answered("--data", data, *options), answered("--url", address, *options)
    assert 4 == len(expected["results"])
    for name in ("results", "seeds", "unresolved", "total", "reason", "warnings"):
        assert expected[name] == of_folder[name] == of_service[name], name


def test_a_person_reads_what_became_of_the_library(data: Path, library: Path) -> None:
    """The output lists used and unused entries with reasons, and the papers with their closest seeds."""
    shown = run("recommend", "--data", data, "--like", library, "--unlike", DEMO[50]["id"], "--limit", "2")
    assert "my.bib: 3 found in the collection, 1 used by their text." in shown
    assert (
        "left out 2 entries that the collection does not have, without a usable abstract: "
        "Neither here nor there; Too long" in shown
    )
    assert "my.bib:6: not a valid BibTeX entry" in shown
    assert f"Similar to seed 1: {DEMO[7]['title']}" in shown
    assert f"Unlike negative 0: {DEMO[50]['title']}" in shown
    assert "← " in shown
    titles = run("recommend", "--data", data, DEMO[5]["title"], "--limit", "3", "--output", "titles")
    assert 3 == len(titles.splitlines())


def test_likes_and_dislikes_are_saved(data: Path, library: Path) -> None:
    """``--save`` saves the query with its seeds and negatives, to be watched."""
    run("recommend", "--data", data, "--like", library, "--unlike", DEMO[50]["id"], "--save", "floods")
    with Collection(data, device="cpu") as collection:
        (saved,) = collection.saved_queries()
        assert ("floods", "recommendations") == (saved.name, saved.kind)
        assert not collection.new_papers(saved.id).added


@pytest.mark.parametrize("command", ["search", "recommend"])
def test_a_query_is_saved_although_nobody_reads_the_output(
    data: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """As in ``akin search ... --save floods | head``, which closes the pipe early."""

    def closed(*_: Any, **__: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(f"akin.cli.search.{command}.print_answer", closed)
    query = ["--paper", DEMO[5]["id"]] if command == "search" else [DEMO[5]["id"]]
    result = CliRunner().invoke(app, [command, *query, "--data", str(data), "--save", "floods"])
    assert result.exit_code
    with Collection(data, device="cpu") as collection:
        assert ["floods"] == [each.name for each in collection.saved_queries()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Nothing to start from"),
        (("--like", "absent.bib"), "absent.bib"),
        (("nope", "--data", "x"), "either --data"),
    ],
)
def test_a_refused_query_says_why(data: Path, address: str, arguments: tuple[str, ...], message: str) -> None:
    """Without a seed, with a missing file, or with both a folder and a service, an error says why."""
    assert message in run("recommend", "--url", address, *arguments, status=1)


def test_a_library_given_as_a_paper_says_where_to_give_it(data: Path, library: Path) -> None:
    """If a file is given like the name of a paper, the line about it names --like."""
    shown = flat(run("recommend", library, "--data", data, status=1))
    assert f"For a library, give --like {library}." in shown


def test_a_title_longer_than_any_name_of_a_file_is_a_title(data: Path) -> None:
    """A title longer than any file name is looked up in the collection."""
    shown = run("recommend", DEMO[0]["id"], "--unlike", "ä" * 200, "--data", data)
    assert f"Left out: '{'ä' * 80}': No paper of this collection" in shown
