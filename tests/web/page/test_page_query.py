"""Tests of the whole query on the page: facets of further papers, and a summary with removable parts."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import QueryParams

from models.types import Facet
from service.web.address.further import Further
from service.web.address.page_query import PageQuery
from service.web.views.summary import short
from tests.support.builds import DEMO_CORPUS
from tests.support.clients import client_of
from tests.support.examples.pages import PAPER, Page, page_at, query_of, ranked_ids

LIKE, UNLIKE = "demo:p01-m00", "demo:p02-m00"
ALL = PageQuery(
    paper=PAPER,
    facets=(Facet.METHOD, Facet.RESULT),
    unlike_facets=(Facet.BACKGROUND,),
    like=(Further(LIKE, (Facet.METHOD,)),),
    not_like=(Further(UNLIKE),),
    year_from=2000,
    venues=("Akin demo corpus (invented)",),
    fields=("Hydrology", "Protein design"),
    words=0.5,
)
FACETS = {
    paper["id"]: set(paper["facets"])
    for paper in map(json.loads, DEMO_CORPUS.read_text(encoding="utf-8").splitlines())
    if "facets" in paper
}


@pytest.fixture(scope="module")
def client(hashed_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus."""
    with client_of(hashed_data) as client:
        yield client


def summary(client: TestClient, address: str, *, status: int = 200) -> dict[str, str]:
    """Return the parts of the query in the summary, with the links that remove them."""
    answer = client.get(address)
    assert status == answer.status_code
    (line,) = re.findall(r'<p class="summary".*?</p>', answer.text, re.DOTALL)
    parts = line.split('<span class="part">')[1:]
    texts = [" ".join(Page(part).text.replace("×, remove", "").split()) for part in parts]
    return {text: Page(part).all("a")[0]["href"] for text, part in zip(texts, parts, strict=True)}


def test_a_further_paper_counts_in_its_own_respect(client: TestClient) -> None:
    """The facet after a paper in the address applies to it alone, and the API gives the same papers."""
    address = f"/?paper={PAPER}&like={LIKE}&in=method&not={UNLIKE}&in=background,result"
    page_query = PageQuery.of(QueryParams(address[2:]))
    body = {
        "seeds": [{"paper_id": PAPER}, {"paper_id": LIKE, "facet": "method"}],
        "negatives": [{"paper_id": UNLIKE, "facet": ["background", "result"]}],
    }
    assert {**body, "limit": 10} == page_query.body()
    out = client.post("/v1/recommendations", json=body).json()
    assert [each["paper"]["id"] for each in out["results"]] == ranked_ids(page_at(client, address))


@pytest.mark.parametrize(
    ("query", "like"),
    [
        (f"in=method&like={LIKE}", (Further(LIKE),)),
        (f"like={LIKE}&add=&in=method", (Further(LIKE),)),
        (f"like={LIKE}&in=", (Further(LIKE),)),
        (f"add={LIKE}&in=method,method", (Further(LIKE, (Facet.METHOD,)),)),
        (f"like={LIKE}&in=method&add={LIKE}&in=result", (Further(LIKE, (Facet.RESULT,)),)),
        (f"like={LIKE}&in=method&add={LIKE}", (Further(LIKE),)),
        (f"like={UNLIKE}&like={LIKE}&in=other", (Further(UNLIKE), Further(LIKE, (Facet.OTHER,)))),
    ],
)
def test_a_respect_goes_for_the_paper_before_it(query: str, like: tuple[Further, ...]) -> None:
    """A facet after no paper or an empty box is ignored, and a repeated paper replaces itself."""
    assert like == PageQuery.of(QueryParams(query)).like


def test_a_respect_that_is_none_is_refused(client: TestClient) -> None:
    """An unknown facet is refused with the known ones."""
    page = page_at(client, f"/?paper={PAPER}&like={LIKE}&in=method,colour", status=422)
    assert "in=colour; it may be one of background" in page.text


def test_more_like_this_carries_what_a_result_has(client: TestClient) -> None:
    """The link "More like this" carries the chosen facets that the result has, or none if it has none."""
    page = page_at(client, "/?paper=demo:p03-m07&facet=other&n=100")
    links = [query_of(each["href"]) for each in page.all("a") if "like=" in each.get("href", "")]
    carried = {each.name: each.facets for link in links for each in link.like}
    with_other = {name for name in carried if "other" in FACETS[name]}
    assert 0 < len(with_other) < len(carried) == 99
    assert {name: (Facet.OTHER,) if name in with_other else () for name in carried} == carried


def test_a_title_keeps_the_query(client: TestClient) -> None:
    """A title starts the same search from its paper: facets it has, further papers, filters and view."""
    like = (Further(LIKE, (Facet.RESULT,)),)
    page_query = replace(
        ALL, fields=(), facets=(Facet.OTHER, Facet.METHOD), like=like, view="table", limit=50
    )
    page = page_at(client, page_query.address())
    starts = [query_of(each["href"]) for each in page.all("a", title="Start")]
    assert len(starts) > 40
    for start in starts:
        facets = tuple(facet for facet in page_query.facets if facet in FACETS[start.paper])
        assert replace(page_query, paper=start.paper, facets=facets) == start
    (seed,) = [
        query_of(each["href"])
        for each in page.all("a", class_="long")
        if LIKE[5:] in each["href"].split("&")[0]
    ]
    assert replace(page_query, paper=LIKE, facets=(Facet.RESULT,), like=()) == seed


def test_sentences_of_another_paper_are_not_kept(client: TestClient) -> None:
    """Sentence numbers and texts are not kept for another paper."""
    for query in (f"paper={PAPER}&s=1&u=0", "text=sepsis", "title=A&abstract=We+do.+It+works."):
        start = query_of(page_at(client, f"/?{query}&from=2000").all("a", title="Start")[0]["href"])
        assert PageQuery(paper=start.paper, year_from=2000) == start


def test_the_whole_query_stands_in_a_line(client: TestClient) -> None:
    """The summary names each part in plain words, with a link that removes it."""
    title = client.get(f"/v1/papers/{PAPER}").json()["paper"]["title"]
    like = client.get(f"/v1/papers/{LIKE}").json()["paper"]["title"]
    unlike = client.get(f"/v1/papers/{UNLIKE}").json()["paper"]["title"]
    bare = {"paper": "", "facets": (), "unlike_facets": ()}
    expected = {
        f"Papers similar to {short(title)}": bare,
        "in method": {"facets": (Facet.RESULT,)},
        "and result": {"facets": (Facet.METHOD,)},
        "but different in background": {"unlike_facets": ()},
        f"like {short(like)} in method": {"like": ()},
        f"unlike {short(unlike)}": {"not_like": ()},
        "from 2000 or later": {"year_from": None},
        "in Akin demo corpus (invented)": {"venues": ()},
        "on Hydrology": {"fields": ("Protein design",)},
        "or Protein design": {"fields": ("Hydrology",)},
        "with shared words weighing 0.5": {"words": None},
    }
    parts = summary(client, ALL.address())
    assert list(expected) == list(parts)
    assert {text: replace(ALL, **left) for text, left in expected.items()} == {
        text: query_of(href) for text, href in parts.items()
    }


@pytest.mark.parametrize(
    ("query", "part", "words"),
    [
        (f"paper={PAPER}", "s=1", "in sentence 2"),
        (f"paper={PAPER}", "s=1&s=2", "in sentences 2, 3"),
        (f"paper={PAPER}&s=2", "u=1", "but different in sentence 2"),
        (f"paper={PAPER}", "to=2020", "from 2020 or before"),
        (f"paper={PAPER}", "from=2000&to=2020", "from 2000–2020"),
        (f"paper={PAPER}", "words=0", "without shared words"),
        ("text=sepsis", "facet=method", "in their method"),
        ("abstract=We+do.+It+works.", "from=2000", "from 2000 or later"),
    ],
)
def test_every_part_is_said(client: TestClient, query: str, part: str, words: str) -> None:
    """Sentences are numbered from 1, years have one or both ends, and each part can be removed."""
    without = summary(client, f"/?{query}&{part}")[words]
    assert PageQuery.of(QueryParams(query)) == query_of(without)


def test_a_text_keeps_its_facet_beside_further_papers(client: TestClient) -> None:
    """A text next to further papers keeps its facet, which the summary can remove."""
    alone = page_at(client, "/?text=graph+networks&facet=method")
    address = next(each["href"] for each in alone.all("a") if "like=" in each.get("href", ""))
    page_query = query_of(address)
    assert (Facet.METHOD,) == page_query.facets
    left = query_of(summary(client, address)["in their method"])
    assert ((), page_query.like) == (left.facets, left.like)
    assert {"text": "graph networks", "facet": "method"} == page_query.body()["seeds"][0]
    answer = client.post("/v1/recommendations", json=page_query.body()).json()
    assert [result["paper"]["id"] for result in answer["results"]] == ranked_ids(page_at(client, address))
    assert ranked_ids(page_at(client, address)) != ranked_ids(page_at(client, left.address()))


def test_a_pasted_text_without_a_title_has_a_name(client: TestClient) -> None:
    """A pasted abstract without a title is called "your text"."""
    assert ["Papers similar to your text"] == list(summary(client, "/?abstract=We+do.+It+works."))


def test_without_anything_to_be_like_one_starts_again(client: TestClient) -> None:
    """Removing the only paper to be like leads to the start, or to all papers that pass the filters."""
    (start, *_) = summary(client, f"/?paper={PAPER}&facet=method&n=25").values()
    assert "/" == start
    (listed, *_) = summary(client, f"/?paper={PAPER}&from=2000").values()
    assert "/?from=2000" == listed
    (start, *_) = summary(client, "/?text=sepsis").values()
    assert "/" == start


def test_a_query_that_is_refused_can_be_mended_part_by_part(client: TestClient) -> None:
    """The summary of a refused query can remove the wrong part."""
    parts = summary(client, f"/?paper={PAPER}&from=9999&like={LIKE}", status=422)
    assert 10 == len(ranked_ids(page_at(client, parts["from 9999 or later"])))


def test_long_titles_are_cut_in_the_line() -> None:
    """Titles are cut after a word, without punctuation before the dots, or anywhere without spaces."""
    assert "A title" == short("A title", 20)
    assert "Akin papers …" == short("Akin papers, found by sentences", 16)
    assert "AAAA …" == short("A" * 30, 4)


def test_a_respect_is_offered_where_a_paper_has_it(client: TestClient) -> None:
    """A further paper offers its facets; a chosen one that it lacks stays, with the reason."""
    lacking = next(name for name, facets in FACETS.items() if not facets & {"other", "objective"})
    html = client.get(f"/?paper={PAPER}&like={lacking}&in=other").text
    (select,) = re.findall(r'<select id="in-1".*?</select>', html, re.DOTALL)
    options = [(each["value"], "selected" in each) for each in Page(select).all("option")]
    assert [
        ("", False),
        *((facet, False) for facet in Facet if facet in FACETS[lacking]),
        ("other", True),
    ] == options
    assert "has the facet other" in Page(html).text


def test_a_respect_of_an_unknown_paper_is_kept(client: TestClient) -> None:
    """The facets of an unknown further paper stay in the form."""
    page = page_at(client, f"/?paper={PAPER}&like=none&in=method,result")
    assert ["method,result"] == [each["value"] for each in page.all("input", name="in")]
