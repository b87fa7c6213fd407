"""Tests of queries that cannot be answered or find nothing: the messages and the links that lead on."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from fastapi.testclient import TestClient

from models.encoder import Encoder
from models.types import Facet, Paper
from service.web.address.further import Further
from service.web.address.given import MAX_NAMES
from service.web.address.page_query import Order, PageQuery, View
from service.web.views.results.cards import in_short
from tests.support.builds import build_quietly, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER, Page, page_at, query_of, ranked_ids

OTHER, THIRD = "demo:p02-m00", "demo:p03-m00"
SEVERAL = "Rivers flood towns. We fit a graph network. It forecasts floods."


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with client_of(hashed_data) as client:
        yield client


@pytest.fixture(scope="module")
def venues(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client of a service over papers of many venues and two fields; one is right-to-left."""
    names = ["Journal of Rope", "Rope and Sail", "Kites"]
    names += [f"Workshop {number:02}" for number in range(MAX_NAMES + 1)]
    papers: list[dict[str, object]] = [
        {"id": f"p{number}", "title": f"Title {number}", "abstract": "We do.", "venue": name}
        for number, name in enumerate(names)
    ]
    papers[0] |= {"fields": ["Machine learning", "Ropes"], "authors": ["דנה לוי"]}
    papers[1] |= {"title": "חבלים ומפרשים", "abstract": "אנחנו קושרים חבלים.", "authors": ["Bo Chen"]}
    folder = tmp_path_factory.mktemp("venues")
    build_quietly(write_corpus(folder / "papers.jsonl", papers), folder / "data", hashing)
    with client_of(folder / "data") as client:
        yield client


def box(page: Page) -> dict[str, str]:
    """Return the search box at the top of the page."""
    return page.all("input", id="find")[0]


def mending(page: Page) -> PageQuery:
    """Return the query of the main link of an error page."""
    return query_of(page.all("a", class_="main")[0]["href"])


def links(page: Page) -> list[PageQuery]:
    """Return the queries of the links of a page."""
    return [query_of(each["href"]) for each in page.all("a") if each["href"].startswith("/?")]


@pytest.mark.parametrize("name", ["10.1234/nowhere", "arXiv:2212.99999"])
def test_a_paper_that_is_not_here_may_be_pasted(client: TestClient, name: str) -> None:
    """An unknown paper is named, its name stays in the box, and a form takes its abstract, filters kept."""
    page = page_at(client, f"/?{urlencode({'text': name, 'from': 2015})}", status=404)
    assert f"This paper is not in this collection: {name}." in page.text
    assert name == box(page)["value"]
    assert page.all("textarea", name="abstract")
    assert ["2015", "2015"] == [each["value"] for each in page.all("input", type="hidden", name="from")]


def test_a_mistyped_id_leads_to_the_papers_near_it(client: TestClient) -> None:
    """A mistyped id gets links to papers with similar ids, with the same filters."""
    page = page_at(client, f"/?paper={PAPER}x&from=2000", status=404)
    assert PageQuery(paper=PAPER, year_from=2000) in links(page)


def test_the_others_are_searched_for_without_a_paper_that_is_not_here(client: TestClient) -> None:
    """A link searches without the unknown paper, if there are further papers."""
    page = page_at(client, f"/?paper=nowhere&like={OTHER}&not={THIRD}&to=2020", status=404)
    assert "not in this collection: nowhere." in page.text
    rest = PageQuery(like=(Further(OTHER),), not_like=(Further(THIRD),), year_to=2020)
    assert "Search without this paper" in page.text
    assert rest == mending(page)
    assert "Search without this paper" not in page_at(client, "/?paper=nowhere&to=2020", status=404).text


def test_a_facet_without_a_paper_that_has_one_is_no_fault(client: TestClient) -> None:
    """An address with a facet and only unknown further papers gets a page that says so."""
    page = page_at(client, "/?like=nowhere&facet=method")
    assert "None of these papers can be used" in page.text


def test_a_further_paper_that_is_not_here_is_named_in_words_of_the_page(client: TestClient) -> None:
    """An unknown further paper is named in the page's words with similar ones, without names of the API."""
    page = page_at(client, f"/?paper={PAPER}&like={OTHER}x")
    assert "No paper here has this title or id." in page.text
    assert "did_you_mean" not in page.text
    assert "Did you mean" in page.text


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("from=9999", "Search without these years"),
        ("n=1000", "Search with ten results per page"),
        ("from=9999&n=1000", "Search without these years, ten results per page"),
    ],
)
def test_a_link_mends_what_is_wrong_alone(client: TestClient, wrong: str, words: str) -> None:
    """A link removes only the wrong values, and its words say which."""
    page = page_at(client, f"/?paper={PAPER}&{wrong}", status=422)
    assert f"{words}Start again" in page.text.replace("\n", "").replace("  ", "")
    assert PageQuery(paper=PAPER) == mending(page)


@pytest.mark.parametrize("query", [f"paper={PAPER}&", ""])
def test_years_the_wrong_way_round_are_reported(client: TestClient, query: str) -> None:
    """Years in the wrong order are refused in searches and lists."""
    page = page_at(client, f"/?{query}from=2020&to=2010", status=422)
    assert "The first year, 2020, is after the last, 2010" in page.text


@pytest.mark.parametrize(
    "wrong", ["from=soon", "view=map", "facet=colour", "paper=two", "words=x", "in=x", "each=x", "open=x"]
)
def test_a_malformed_value_can_be_left_out(client: TestClient, wrong: str) -> None:
    """A link searches without the malformed value and keeps the rest of the address."""
    page = page_at(client, f"/?text=floods&paper=one&like={OTHER}&to=2020&{wrong}", status=422)
    name = wrong.split("=", maxsplit=1)[0]
    assert f"Search without “{name}”" in page.text
    own = "" if name == "paper" else "one"
    assert PageQuery(text="floods", paper=own, like=(Further(OTHER),), year_to=2020) == mending(page)


def test_a_list_remains_without_a_malformed_value(client: TestClient) -> None:
    """Filters alone are an address that can be asked, too."""
    page = page_at(client, "/?from=abc&venue=J", status=422)
    assert "Search without “from”" in page.text
    assert PageQuery(venues=("J",)) == mending(page)


def test_nothing_is_offered_where_nothing_is_left(client: TestClient) -> None:
    """No link is offered if only the wrong value is given, or if two values are malformed."""
    for query in ("from=soon", f"paper={PAPER}&from=soon&to=late"):
        assert "Search without" not in page_at(client, f"/?{query}", status=422).text


@pytest.mark.parametrize("page_query", [
    PageQuery(paper=PAPER, like=(Further(THIRD),), not_like=(Further(OTHER),), year_from=2015),
    PageQuery(text="floods", year_from=2015),
    PageQuery(paper=PAPER, like=(Further(THIRD),), not_like=(Further(OTHER),)),
])  # fmt: skip
def test_without_the_first_paper_the_rest_stays(client: TestClient, page_query: PageQuery) -> None:
    """Removing the first paper keeps papers to avoid and filters."""
    page = page_at(client, page_query.address())
    assert page_query.without_start() == query_of(page.all("a", id="part-1")[0]["href"])


@pytest.mark.parametrize("own", [f"paper={PAPER}", f"like={PAPER}", "text=floods"])
def test_papers_to_avoid_go_with_the_last_to_be_like(client: TestClient, own: str) -> None:
    """They alone are no search, so the link that takes the last other paper away leaves only the filters."""
    page = page_at(client, f"/?{own}&not={OTHER}&from=2015")
    (away,) = page.all("a", id="part-1")
    assert PageQuery(year_from=2015) == query_of(away["href"])
    assert ranked_ids(page_at(client, away["href"]))


@pytest.mark.parametrize(
    ("query", "page_query"),
    [
        ("venue=rope", PageQuery(venues=("Journal of Rope", "Rope and Sail"))),
        ("venue=kites", PageQuery(venues=("kites",))),
        ("field=learn", PageQuery(fields=("Machine learning",))),
    ],
)
def test_a_part_of_the_name_of_a_venue_or_field_is_enough(
    venues: TestClient, query: str, page_query: PageQuery
) -> None:
    """Part of the name of a venue or field is enough, and a whole name in any case is only that one."""
    page = page_at(venues, f"/?{query}")
    kept = {
        name: [each["value"] for each in page.all("input", type="hidden", name=name) if "id" not in each]
        for name in ("venue", "field")
    }
    assert {"venue": [*page_query.venues] * 2, "field": [*page_query.fields] * 2} == kept
    assert ranked_ids(page)
    assert ranked_ids(page_at(venues, f"/?text=title&{query}"))


def test_venues_that_are_too_many_are_linked(venues: TestClient) -> None:
    """If too many venues match, links choose one or none, with the rest of the query."""
    page = page_at(venues, "/?text=title&venue=work", status=422)
    assert f"{MAX_NAMES + 1} venues have this name, such as Workshop 00" in page.text
    assert PageQuery(text="title", venues=("Workshop 00",)) in links(page)
    assert "Search without the venue" in page.text
    assert PageQuery(text="title") == mending(page)


@pytest.mark.parametrize("part", ["venue", "field", "author"])
def test_a_name_that_nobody_has_is_reported(venues: TestClient, part: str) -> None:
    """A name that no paper has is reported in lists and searches."""
    for query in ("", "text=title&"):
        assert f"No {part}'s name contains “zzz”." in page_at(venues, f"/?{query}{part}=zzz").text


@pytest.mark.parametrize("part", ["venues", "fields"])
def test_programs_learn_which_name_is_unknown(venues: TestClient, part: str) -> None:
    """The API names an unknown venue or field, and a similar one."""
    body = {"query": {"text": "we do"}, "filters": {part: ["rope"]}}
    said = venues.post("/v1/search", json=body).json()["detail"]
    assert f"no {part[:-1]} is called exactly rope; did you mean " in said


def test_names_keep_their_direction_beside_others() -> None:
    """In a short line, right-to-left names do not change the order of authors, venue and year."""
    paper = Paper("p", "T", "", (), authors=("محمد علي", "فاطمة حسن"), venue="מדע", year=2012)
    assert "\u2068محمد علي\u2069 and \u2068فاطمة حسن\u2069 · \u2068מדע\u2069 · 2012" == in_short(paper)
    assert "Bo Chen and others · 2012" == in_short(replace(paper, authors=("Bo Chen", "A", "B"), venue=""))


def test_text_runs_its_own_way(venues: TestClient) -> None:
    """Titles, sentences and names have automatic text direction."""
    page = page_at(venues, "/?paper=p1&n=3")
    assert {"auto"} == {each["dir"] for each in page.all("h1") + page.all("p", class_="abstract")}
    assert {"auto"} == {each["dir"] for each in page.all("h3")}
    assert ["auto"] == [each["dir"] for each in page.all("a", id="part-1")]
    listed = page_at(venues, "/?author=דנה")
    assert {"auto"} == {each["dir"] for each in listed.all("h3") + listed.all("p", class_="opening")}
    assert listed.all("bdi")


def test_a_text_of_several_sentences_may_be_an_abstract(client: TestClient) -> None:
    """A text of several sentences gets a link to search it as an abstract, even if it is too long."""
    page_query = PageQuery(text=SEVERAL, facets=(Facet.METHOD,), year_from=2015, limit=25)
    page = page_at(client, page_query.address())
    pasted = query_of(page.all("a", id="as-abstract")[0]["href"])
    assert PageQuery(abstract=SEVERAL, year_from=2015, limit=25) == pasted
    assert 3 == len(page_at(client, pasted.address()).all("li", class_="choice"))
    assert [] == page_at(client, "/?text=We+count+floods.").all("a", id="as-abstract")
    long = page_at(client, PageQuery(text=SEVERAL * 40).address(), status=422)
    assert "at most 2,000 characters" in long.text
    assert PageQuery(abstract=SEVERAL * 40) == query_of(long.all("a", id="as-abstract")[0]["href"])
    assert "maxlength" not in box(long)


def test_a_text_beside_further_papers_keeps_its_facets(client: TestClient) -> None:
    """The facets of a text can be chosen next to further papers."""
    page = page_at(client, f"/?text=floods&like={OTHER}")
    (method,) = page.all("a", id="facet-method")
    page_query = PageQuery(text="floods", facets=(Facet.METHOD,), like=(Further(OTHER),))
    assert page_query == query_of(method["href"])
    assert 10 == len(page_at(client, page_query.address()).all("article"))


def test_the_box_at_the_top_keeps_how_results_are_shown(client: TestClient) -> None:
    """The box at the top keeps filters, view, order and number of results, but not the query."""
    page_query = PageQuery(
        paper=PAPER,
        like=(Further(OTHER),),
        year_from=2000,
        fields=("Hydrology",),
        limit=25,
        view=View.TABLE,
        order=Order.YEAR,
    )
    top = client.get(page_query.address()).text.partition('role="search"')[2].partition("</form>")[0]
    kept = [(each["name"], each["value"]) for each in Page(top).all("input", type="hidden")]
    assert list(page_query.beside.parameters()) == kept
    assert {"from", "field", "n", "view", "sort"} == {name for name, _ in kept}


def test_a_comparison_needs_two_papers(client: TestClient) -> None:
    """Comparing needs two papers: no error before any is named, then one for the missing paper."""
    empty = page_at(client, "/compare")
    assert not any(each.get("role") == "alert" for _, each in empty.tags)
    assert box(empty)
    for names, said in (
        (f"a={quote(PAPER)}&b=none", "The second paper is not in this collection: none."),
        (f"a=none&b={quote(PAPER)}", "The first paper is not in this collection: none."),
        (f"a={quote(PAPER)}", "The second paper is not named yet"),
    ):
        page = client.get(f"/compare?{names}")
        assert said in page.text
        assert 1 == page.text.count("aria-invalid")
    assert box(page_at(client, "/batch"))
