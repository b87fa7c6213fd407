"""Tests of saved searches on the page: saved by name, opened and followed, only by their owner."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect

from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.types import Facet
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import Timings
from service.web.address.further import Further
from service.web.address.page_query import PageQuery
from service.web.saved import to_keep
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import Page, page_at
from tests.support.servers.browser import VisitFn, barriers
from tests.support.servers.loopback import served

OFTEN = Timings(follow_every_s=0.02, publish_every_s=0.05, keys_refresh_s=0.02)
WHALES: dict[str, Any] = {
    "id": "w/1",
    "title": "Whales",
    "abstract": ["Whales sing.", "We count whales."],
    "year": 2020,
    "doi": "10.5555/whales",
}
SONGS = {"id": "w/2", "title": "Songs of whales", "abstract": ["Whales sing songs.", "We hear whales."]}
ESTATES = {"id": "t/1", "title": "Estates", "abstract": ["Zyx qwv.", "Plm okn ijb."]}
ABSTRACT = "Whales sing. We count whales."
QUERIES = (
    PageQuery(text="whales sing", facets=(Facet.METHOD,), limit=25),
    PageQuery(paper="w/1", sentences=(1,), unlike_sentences=(0,), year_from=2000, venues=("A", "B")),
    PageQuery(paper="w/1", facets=(Facet.METHOD, Facet.RESULT), unlike_facets=(Facet.BACKGROUND,), words=0.0),
    PageQuery(title="T", abstract=ABSTRACT, year_to=2020, fields=("F",), authors=("A",)),
    PageQuery(
        paper="w/1", sentences=(0,), like=(Further("w/2", (Facet.METHOD,)),), not_like=(Further("t/1"),)
    ),
    PageQuery(paper="w/1", unlike_facets=(Facet.RESULT,), like=(Further("w/2"),), not_like=(Further("t/1"),)),
    PageQuery(text="whales sing", like=(Further("w/2", (Facet.METHOD, Facet.RESULT)),)),
    PageQuery(text="whales sing", facets=(Facet.METHOD,), like=(Further("w/2", (Facet.RESULT,)),)),
    PageQuery(
        text="whales sing",
        facets=(Facet.BACKGROUND, Facet.METHOD),
        unlike_facets=(Facet.RESULT,),
        like=(Further("w/2"), Further("p3", (Facet.RESULT,))),
        not_like=(Further("t/1", (Facet.METHOD,)),),
    ),
    PageQuery(abstract=ABSTRACT, not_like=(Further("w/2"),)),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return the folder of a collection to be copied."""
    folder = tmp_path_factory.mktemp("built")
    papers = [*many_papers(60), WHALES]
    build_quietly(write_corpus(folder / "c.jsonl", papers), folder / "data", hashing)
    return folder / "data"


@pytest.fixture
def data(built: Path, tmp_path: Path) -> Path:
    """Return a copy of the collection."""
    return Path(shutil.copytree(built, tmp_path / "data"))


def engine_of(data: Path) -> SearchEngine:
    """Return an engine over the collection."""
    return SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)


@pytest.fixture
def client(data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over it, which accepts papers without keys."""
    with client_of(data, engine_of(data), timings=OFTEN, keyless="write", device="cpu", rate=0) as client:
        yield client


@pytest.fixture
def address(data: Path) -> Iterator[str]:
    """Yield the address of such a service."""
    settings = Settings(data=data, keyless="write", device="cpu", rate=0)
    with served(create_app(settings, engine_of(data), timings=OFTEN)) as address:
        yield address


def save(client: TestClient, kept: dict[str, Any], name: str = "whales", **options: Any) -> str:
    """Save a query and return its id."""
    answer = client.post("/v1/queries", json={"name": name, **kept}, **options)
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["id"])


def add(post: Callable[..., Any], *papers: dict[str, Any]) -> None:
    """Add papers and wait until they show."""
    answer = post("/v1/papers?wait=true", json={"papers": list(papers)})
    assert 200 == answer.status_code, answer.text


@pytest.mark.parametrize("page_query", QUERIES)
def test_a_saved_query_is_searched_again(client: TestClient, page_query: PageQuery) -> None:
    """Opening a saved search gives the same query, with likes, dislikes, facets and filters."""
    path = f"/saved/{save(client, to_keep(page_query))}"
    opened = client.get(f"{path}/search", follow_redirects=False)
    assert (303, page_query.address()) == (opened.status_code, opened.headers["location"])
    assert page_query.address() in [each["href"] for each in page_at(client, path).all("a", class_="main")]


@pytest.mark.parametrize("page_query", [QUERIES[0], QUERIES[4]])
def test_the_form_holds_the_query(client: TestClient, page_query: PageQuery) -> None:
    """The form on the results saves their query, but not how it is shown."""
    add(client.post, SONGS, ESTATES)
    page = page_at(client, page_query.address(opened=1))
    forms = [each for each in page.all("form") if each.get("action") == "/v1/queries"]
    assert to_keep(page_query) == json.loads(forms[0]["data-body"])


@pytest.mark.parametrize(
    "kept",
    [
        {"search": {"query": {"paper_id": "w/1"}, "scorer": "single"}},
        {"search": {"query": {"paper_id": "w/1"}, "unlike": {"facet": "method", "weight": 0.9}}},
        {"search": {"query": {"title": "T", "abstract": ["One sentence.", "Another."]}}},
        {"recommendations": {"seeds": ["w/1", {"paper_id": "w/2", "weight": 2.0}]}},
        {"recommendations": {"seeds": ["w/1", {"title": "T", "abstract": "A sentence."}]}},
        {"recommendations": {"seeds": ["w/1"], "strategy": "all"}},
        {"recommendations": {"seeds": [f"p{number}" for number in range(60)]}},
    ],
)
def test_what_the_page_cannot_ask_is_said(client: TestClient, kept: dict[str, Any]) -> None:
    """A search saved by a program, which the page cannot ask, is not opened as another search."""
    path = f"/saved/{save(client, kept)}"
    assert "with options that the page does not have" in page_at(client, f"{path}/search", status=422).text
    page = page_at(client, path)
    assert "A program saved this search" in page.text
    assert not page.all("a", class_="main")


@pytest.mark.parametrize(
    ("kept", "page_query"),
    [
        (
            {"recommendations": {"seeds": ["w/1", "w/2"], "negatives": [{"paper_id": "t/1"}]}},
            PageQuery(paper="w/1", like=(Further("w/2"),), not_like=(Further("t/1"),)),
        ),
        ({"search": {"query": {"paper_id": "w/1"}, "fields": "brief"}}, None),
        ({"search": {"query": {"paper_id": "w/1"}, "max_alignments": 3}}, PageQuery(paper="w/1")),
        (
            {"search": {"query": {"paper_id": "w/1"}, "sentences": [1, 0]}},
            PageQuery(paper="w/1", sentences=(0, 1)),
        ),
        ({"search": {"query": {"text": "whales sing\n"}}}, PageQuery(text="whales sing")),
    ],
)
def test_what_a_program_saved_is_opened_where_it_asks_the_same(
    client: TestClient, kept: dict[str, Any], page_query: PageQuery | None
) -> None:
    """A search saved by a program opens if the page can ask it, however it is written."""
    answer = client.post("/v1/queries", json={"name": "n", **kept})
    if page_query is None:
        assert 422 == answer.status_code
        return
    opened = client.get(f"/saved/{answer.json()['id']}/search", follow_redirects=False)
    assert page_query.address() == opened.headers["location"]


def test_new_papers_are_shown_until_they_are_seen(client: TestClient) -> None:
    """New papers are shown with their day until marked as seen, weak matches only if requested."""
    query = save(client, to_keep(PageQuery(text="whales sing")))
    path = f"/saved/{query}"
    assert "No new papers" in page_at(client, path).text
    assert "Nothing was added since" in page_at(client, "/saved").text
    add(client.post, SONGS, ESTATES)
    assert "Nothing was added since" not in page_at(client, "/saved").text
    page = page_at(client, path)
    assert ["Songs of whales"] == titles(page)
    assert "1 new paper" in page.text
    assert "2 papers were added; those that are hardly related are left out" in page.text
    assert "Whales sing songs." in page.text
    assert re.search(r"Added on \d{1,2} [A-Z][a-z]+ \d{4}", page.text)
    assert {"Songs of whales", "Estates"} == set(titles(page_at(client, f"{path}?weak=1")))
    links = page_at(client, f"{path}?whole=1").all("a")
    assert f"{path}?weak=1&whole=1" in [each.get("href") for each in links]
    marked = next(each for each in page.all("form") if each.get("action", "").endswith("/seen"))
    assert 200 == client.post(marked["action"], content=marked["data-body"], headers=JSON).status_code
    seen = page_at(client, path)
    assert [] == titles(seen)
    assert "seen up to" in seen.text
    assert "Nothing was added since" in page_at(client, "/saved").text


JSON = {"Content-Type": "application/json"}


def titles(page: Page) -> list[str]:
    """Return the titles of the listed papers."""
    ids = [each["href"] for each in page.all("a", title="Start")]
    by_id = {"w%2F2": "Songs of whales", "t%2F1": "Estates"}
    return [next(title for name, title in by_id.items() if name in each) for each in ids]


def test_each_sees_their_own(data: Path) -> None:
    """With keys, saved searches are shown only to their owner, except a feed by its address."""
    with Keys.open(data / CATALOG_FILE) as keys:
        mine, other = (
            {"X-API-Key": keys.create(name, scope=Scope.READ, expires_days=1).token}
            for name in ("mine", "other")
        )
    with client_of(data, engine_of(data), timings=OFTEN, device="cpu", rate=0) as client:
        query = save(client, to_keep(PageQuery(paper="w/1")), name="<b>mine</b>", headers=mine)
        paths = ("/saved", f"/saved/{query}", f"/saved/{query}/search")
        for headers, statuses in (({}, [401] * 3), (other, [200, 404, 404]), (mine, [200, 200, 303])):
            found = [client.get(path, headers=headers, follow_redirects=False) for path in paths]
            assert statuses == [each.status_code for each in found]
            assert (headers is mine) == ("&lt;b&gt;mine" in found[0].text)
            assert all("text/html" in each.headers["content-type"] for each in found[:2])
        feed = client.post(f"/v1/queries/{query}/feed", headers=mine).json()["feed"]
        page = Page(client.get(paths[1], headers=mine).text)
        assert [feed] == [each["href"] for each in page.all("link", rel="alternate")]
        assert 200 == client.get(feed).status_code


def test_no_form_of_another_site_changes_anything(client: TestClient) -> None:
    """Requests that another site can send without permission, forms and plain text, change nothing."""
    query = save(client, to_keep(PageQuery(paper="w/1")))
    body = json.dumps({"name": "theirs", **to_keep(PageQuery(paper="w/1"))})
    types = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None)
    for content_type in types:
        headers = {"Origin": "https://elsewhere.example"}
        headers |= {"Content-Type": content_type} if content_type else {}
        sent = client.post("/v1/queries", content=body, headers=headers)
        seen = client.post(f"/v1/queries/{query}/seen", content='{"up_to": 1}', headers=headers)
        assert {422} == {sent.status_code, seen.status_code}
    for method in ("POST", "PUT", "DELETE"):
        for path in ("/saved", f"/saved/{query}", f"/saved/{query}/search"):
            assert 405 == client.request(method, path).status_code
    preflight = client.options(
        f"/v1/queries/{query}",
        headers={"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "DELETE"},
    )
    assert "access-control-allow-origin" not in preflight.headers
    assert 1 == len(client.get("/v1/queries").json()["queries"])


def test_a_search_is_saved_followed_and_deleted(visit_at: VisitFn, address: str) -> None:
    """On the page a search is saved, read, marked as seen, followed by a feed, and deleted."""
    page = visit_at(address, PageQuery(text="whales sing").address())
    page.get_by_text("Save this search").click()
    page.get_by_label("Name").fill("Whale songs")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".keep .said")).to_have_text("Saved.")
    page.goto(PageQuery(paper="w/1").address())
    page.get_by_text("Save this search").click()
    page.get_by_label("Name").fill("Whale songs")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".keep .said")).to_contain_text("Another query is saved under this name")
    assert [] == barriers(page)
    with httpx.Client(base_url=address) as client:
        add(client.post, SONGS)
    page.get_by_role("link", name="Saved searches").click()
    expect(page.get_by_role("heading", name="Whale songs")).to_be_visible()
    assert [] == barriers(page)
    page.get_by_role("link", name="New papers").click()
    expect(page.get_by_role("heading", name="Songs of whales")).to_be_visible()
    expect(page.locator(".asks")).to_have_text("Papers that say something like “whales sing”")
    assert [] == barriers(page)
    page.get_by_role("button", name="Make an Atom feed").click()
    feed = page.get_by_role("link", name="Atom feed")
    expect(feed).to_be_visible()
    assert "Songs of whales" in httpx.get(f"{address}{feed.get_attribute('href')}").text
    page.get_by_role("button", name="Mark all as seen").click()
    expect(page.get_by_role("heading", name="No new papers")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="End the feed").click()
    expect(page.get_by_role("button", name="Make an Atom feed")).to_be_visible()
    page.get_by_role("link", name="Open the search").click()
    expect(page.get_by_role("heading", name="whales sing")).to_be_visible()
    page.get_by_role("link", name="Saved", exact=True).click()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=re.compile("^Delete")).click()
    expect(page.get_by_text("Nothing is saved yet")).to_be_visible()
    assert [] == barriers(page)
