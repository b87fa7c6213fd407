"""Tests of browsing without a query: papers by field, venue, year and part of an author's name."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from models.encoder import Encoder
from models.types import Facet
from service.api.schemas.search.filters import MAX_NAME_CHARS
from service.web.address.given import MAX_NAMES
from service.web.address.page_query import PageQuery
from tests.support.builds import DEMO_CORPUS, build_quietly, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER, page_at, query_of, ranked_ids

DEMO = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
VENUE = "Akin demo corpus (invented)"


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with client_of(hashed_data) as client:
        yield client


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client of a service over papers whose authors have similar names."""
    names = [
        ["Ann Lee", "Bo Chen"],
        ["Anna Lee"],
        ["Chen, Bo"],
        ["Hannah Leeds"],
        ["李 明"],
        ["Liv Moreño-Falk"],
        [],
    ]
    names += [[f"Kim Number{number:02}"] for number in range(MAX_NAMES + 1)]
    papers = [
        {"id": f"p{number}", "title": f"Title {number}", "abstract": "We do.", "authors": given}
        for number, given in enumerate(names)
    ]
    folder = tmp_path_factory.mktemp("authors")
    build_quietly(write_corpus(folder / "papers.jsonl", papers), folder / "data", hashing)
    with client_of(folder / "data") as client:
        yield client


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("field=Hydrology", lambda paper: "Hydrology" in paper["fields"]),
        ("field=hydrology&from=2020", lambda paper: "Hydrology" in paper["fields"] and paper["year"] >= 2020),
        (f"venue={quote(VENUE)}&to=2015", lambda paper: paper["year"] <= 2015),
        ("author=Tollander", lambda paper: any("Tollander" in name for name in paper["authors"])),
    ],
)
def test_papers_are_listed_without_a_query(client: TestClient, query: str, holds: object) -> None:
    """Papers that pass the filters are listed page by page, with their total, and back again."""
    expected = [paper["id"] for paper in DEMO if holds(paper)]  # type: ignore[operator]  # a function
    seen: list[str] = []
    address = f"/?{query}&n=3"
    while address:
        page = page_at(client, address)
        before, seen = seen, seen + ranked_ids(page)
        assert f"Papers {len(before) + 1} to {len(seen)} of {len(expected)}" in page.text
        assert bool(before) == bool(page.all("a", rel="prev"))
        for back in page.all("a", rel="prev"):
            assert before[-3:] == ranked_ids(page_at(client, back["href"]))
        address = next((each["href"] for each in page.all("a", rel="next")), "")
    assert expected == seen


def test_a_listed_paper_is_started_from_among_the_others(client: TestClient) -> None:
    """A title starts from its paper with the same filters, and the summary can remove each filter."""
    page = page_at(client, "/?field=Hydrology&from=2015&n=5")
    start = query_of(page.all("a", title="Start")[0]["href"])
    assert PageQuery(paper=start.paper, fields=("Hydrology",), year_from=2015, limit=5) == start
    parts = [query_of(each["href"]) for each in page.all("a", id="part-1") + page.all("a", id="part-2")]
    assert [PageQuery(fields=("Hydrology",), limit=5), PageQuery(year_from=2015, limit=5)] == parts
    assert "Papers from 2015 or later" in " ".join(page.text.replace("×", "").split())


def test_the_form_keeps_view_and_order_while_one_browses(client: TestClient) -> None:
    """Browsing keeps the view and order in the form for the next query."""
    page = page_at(client, "/?field=Hydrology&view=table&sort=year")
    kept = {each["name"]: each["value"] for each in page.all("input", type="hidden")}
    assert {"field": "Hydrology", "view": "table", "sort": "year"} == kept


def test_filters_that_leave_nothing_are_said(client: TestClient) -> None:
    """If filters leave nothing, the page says why and can remove them; invalid parameters are refused."""
    page = page_at(client, "/?field=Alchemy")
    assert "No field's name contains “Alchemy”." in page.text
    assert "No paper matches these filters" in page_at(client, "/?field=Hydrology&to=1900").text
    assert ["/"] == [each["href"].split("?")[0] for each in page.all("a", id="part-1")]
    page_at(client, "/?field=Hydrology&n=1000", status=422)
    page_at(client, "/?field=Hydrology&cursor=made-up", status=422)
    assert "About this collection" in page_at(client, "/?view=table&n=25").text


def test_the_collection_leads_to_its_parts(client: TestClient) -> None:
    """Fields, venues and years on the start page link to their papers."""
    page = page_at(client, "/")
    links = [query_of(each["href"]) for each in page.all("a") if each["href"].startswith("/?")]
    fields = [name for link in links for name in link.fields]
    assert 12 == len(fields)
    assert {name for paper in DEMO for name in paper["fields"]} > set(fields)
    assert [(VENUE,)] == [link.venues for link in links if link.venues]
    years = [paper["year"] for paper in DEMO]
    assert [(min(years), max(years))] == [(link.year_from, link.year_to) for link in links if link.year_from]


def test_names_of_a_result_filter_the_same_search(client: TestClient) -> None:
    """Authors and the venue of a result are links that filter the same query."""
    page = page_at(client, f"/?paper={PAPER}&facet=method&n=1")
    (first,) = ranked_ids(page)
    paper = next(paper for paper in DEMO if paper["id"] == first)
    links = [query_of(each["href"]) for each in page.all("a") if each["href"].startswith("/?")]
    named = [link for link in links if link.authors]
    assert [(name,) for name in paper["authors"]] == [link.authors for link in named]
    assert {PAPER} == {link.paper for link in named}
    found = page_at(client, named[0].address())
    assert first in ranked_ids(found)
    # In the box at the top, and among the filters.
    assert [paper["authors"][0]] * 2 == [
        each["value"] for each in found.all("input", name="author") if "value" in each
    ]
    assert any(link.venues == (VENUE,) and link.paper == PAPER for link in links)


def test_names_are_no_links_of_long_addresses(client: TestClient) -> None:
    """Names are no links if the query has a pasted abstract, which each link would repeat."""
    page = page_at(client, f"/?abstract={'We+do.+' * 200}")
    assert not [each for each in page.all("a") if "author=" in each["href"]]
    assert 10 == page.text.count(VENUE)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("Ann Lee", ("Ann Lee",)),
        ("ann lee", ("ann lee",)),
        ("lee", ("Ann Lee", "Anna Lee", "Hannah Leeds")),
        ("lee ann", ("Ann Lee", "Anna Lee")),
        ("bo", ("Bo Chen", "Chen, Bo")),
        ("李", ("李 明",)),
        ("MORENO", ("Liv Moreño-Falk",)),
        ("falk, liv", ("Liv Moreño-Falk",)),
        ("nnah", ("nnah",)),
        ("--", ("--",)),
        ("nobody", ("nobody",)),
    ],
)
def test_an_author_is_found_by_a_part_of_the_name(
    authors: TestClient, given: str, names: tuple[str, ...]
) -> None:
    """A whole name finds this author, in any case; other words find all names with words that begin so."""
    page = page_at(authors, f"/?author={quote(given)}")
    kept = [each["value"] for each in page.all("input", name="author") if "value" in each]
    assert names * 2 == tuple(kept)  # in the box at the top, and among the filters
    body = {"query": {"text": "we do"}, "filters": {"authors": list(names)}}
    found = authors.post("/v1/search", json=body).json()["results"]
    assert {each["paper"]["id"] for each in found} == set(ranked_ids(page))


def test_names_too_long_for_a_filter_are_no_links(tmp_path: Path, hashing: Encoder) -> None:
    """A card and the first page show them as text, and a part of such a name finds only the shorter ones."""
    long = {name: f"{name} {'B' * MAX_NAME_CHARS}" for name in ("Ann", "Rope", "Knots")}
    papers: list[dict[str, object]] = [
        {"id": "p0", "title": "Title", "abstract": "We do.", "authors": [long["Ann"], "Bo Chen"]},
        {"id": "p1", "title": "Other", "abstract": "We do.", "authors": ["Ann Lee"], "venue": "Rope Tests"},
    ]
    papers[0] |= {"venue": long["Rope"], "fields": [long["Knots"]]}
    build_quietly(write_corpus(tmp_path / "papers.jsonl", papers), tmp_path / "data", hashing)
    with client_of(tmp_path / "data") as client:
        for address in ("/", "/?paper=p1", "/?author=Bo+Chen"):
            page = page_at(client, address)
            assert long["Rope"] in page.text
            assert not [each for each in page.all("a") if "B" * MAX_NAME_CHARS in each["href"]]
            assert not [each for each in page.all("option") if "B" * MAX_NAME_CHARS in each.get("value", "")]
        assert ["p1"] == ranked_ids(page_at(client, "/?author=ann"))
        said = page_at(client, "/?author=BBBB").text
        assert f"No author's name of at most {MAX_NAME_CHARS} characters contains “BBBB”." in said


def test_too_many_authors_of_a_name_are_refused(authors: TestClient) -> None:
    """If too many authors match, some of their names are shown."""
    page = page_at(authors, "/?author=kim&paper=p0", status=422)
    assert "21 authors have this name, such as Kim Number00, Kim Number01" in page.text
    assert "at most 20 are allowed" in page.text


def test_the_command_line_filters_by_author(authors: TestClient) -> None:
    """The shown command has the whole names of the authors."""
    assert '"Ann Lee",' in page_at(authors, "/?paper=p4&author=lee").text


def test_a_draft_is_kept_where_too_many_authors_have_a_name(authors: TestClient) -> None:
    """If too many authors match, the query stays, and links choose one author or none."""
    page_query = PageQuery(
        title="My draft", abstract="We sing. We count.", facets=(Facet.METHOD,), authors=("kim",)
    )
    page = page_at(authors, page_query.address(), status=422)
    assert "21 authors have this name" in page.text
    assert "We count." in page.text
    assert ["My draft"] == [each["value"] for each in page.all("input", id="title")]
    links = {each["href"] for each in page.all("a")}
    assert page_query.address(authors=("Kim Number00",)) in links
    assert page_query.address(authors=()) in links
    alone = page_at(authors, "/?author=kim", status=422)
    assert PageQuery(authors=("Kim Number19",)).address() in {each["href"] for each in alone.all("a")}


@pytest.mark.parametrize(
    ("address", "status", "offered"),
    [
        ("/?paper=nope&from=1999", 404, False),
        ("/?paper=p0&title=My+draft&abstract=We+sing.&from=1999", 422, False),
        ("/?paper=nope&title=My+draft&abstract=We+sing.", 422, False),
        ("/?like=nope&title=My+draft&abstract=We+sing.&author=kim&from=1999", 422, False),
        ("/?paper=p0&from=99999", 422, True),
        ("/?field=a&from=99999", 422, True),
    ],
)
def test_years_are_dropped_only_where_they_are_wrong(
    authors: TestClient, address: str, status: int, offered: bool
) -> None:
    """The link "Search without these years" is offered only if the years are the fault; a draft stays."""
    page = page_at(authors, address, status=status)
    assert offered == ("Search without these years" in page.text)
    assert ("draft" in address) == bool(
        [each for each in page.all("input", name="title") if each.get("value")]
    )
