"""Tests of `/v1/queries`: queries of an owner, new papers until they are seen, and feeds without keys."""

import errno
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from defusedxml import ElementTree
from fastapi.testclient import TestClient

from indexer.files.data_folder import CATALOG_FILE, SECRET_FILE
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from service.access.api_keys import Keys, Scope
from service.context import Deadline
from service.search.engine import SearchEngine
from service.timings import Timings
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.servers.patience import soon

OFTEN = Timings(follow_every_s=0.02, publish_every_s=0.05, keys_refresh_s=0.02)
WHALES = {"id": "w/1", "title": "Whales", "abstract": ["Whales sing.", "We count whales."], "year": 2020}
SONGS = {
    "id": "w/2",
    "title": "Songs of whales",
    "abstract": ["Whales sing songs.", "We hear whales."],
    "year": 2021,
}
TAXES = {"id": "t/1", "title": "Taxes", "abstract": ["Revenue grows.", "Courts tax estates."], "year": 2021}
SEARCH = {"query": {"text": "whales sing"}, "limit": 5}
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of some papers, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(60)), folder / "data", hashing)
    return folder / "data"


@pytest.fixture
def data(built: Path, tmp_path: Path) -> Path:
    """Return this test's own copy of the collection."""
    return Path(shutil.copytree(built, tmp_path / "data"))


def serving(data: Path, **settings: Any) -> TestClient:
    """Return a client of a service over the collection that takes papers."""
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    given = {"keyless": "write", "device": "cpu", "rate": 0, **settings}
    return client_of(data, engine, timings=OFTEN, **given)


@pytest.fixture
def client(data: Path) -> Iterator[TestClient]:
    """Yield a client on the same machine, without keys."""
    with serving(data) as client:
        yield client


def add(client: TestClient, *papers: dict[str, Any], **options: Any) -> None:
    """Add papers and wait until they show."""
    answer = client.post("/v1/papers?wait=true", json={"papers": list(papers)}, **options)
    assert 200 == answer.status_code, answer.text


def save(client: TestClient, body: dict[str, Any] | None = None, **options: Any) -> str:
    """Save a query and return its path."""
    answer = client.post("/v1/queries", json=body or {"name": "whales", "search": SEARCH}, **options)
    assert 201 == answer.status_code, answer.text
    return str(answer.headers["Location"])


def news(client: TestClient, path: str, **params: Any) -> dict[str, Any]:
    """Return the new papers of a query."""
    answer = client.get(f"{path}/new", params=params)
    assert 200 == answer.status_code, answer.text
    return dict(answer.json())


def ids(found: dict[str, Any]) -> list[str]:
    """Return the ids of the papers found, best first."""
    return [each["paper"]["id"] for each in found["results"]]


def entries(feed: bytes) -> list[tuple[str, str]]:
    """Return the titles and addresses in a feed."""
    root = ElementTree.fromstring(feed)
    assert f"{ATOM}feed" == root.tag
    assert {"id", "title", "updated"} <= {child.tag.removeprefix(ATOM) for child in root}
    return [
        (str(entry.findtext(f"{ATOM}title")), entry.find(f"{ATOM}link").attrib["href"])
        for entry in root.iter(f"{ATOM}entry")
    ]


def test_what_is_new_is_listed_until_it_is_seen(client: TestClient) -> None:
    """Papers added later are new, best first with their scores, until they are marked as seen."""
    add(client, WHALES)
    path = save(client)
    nothing = news(client, path)
    assert ([], 0, "nothing_added") == (nothing["results"], nothing["added"], nothing["reason"])
    add(client, SONGS, TAXES)
    found = news(client, path, weak=True)
    assert (["w/2", "t/1"], 2, "whales") == (ids(found), found["added"], found["name"])
    first = found["results"][0]
    assert first["added_at"].endswith("Z")
    single = client.post("/v1/search", json=SEARCH).json()["results"]
    assert next(each["score"] for each in single if each["paper"]["id"] == "w/2") == first["score"]
    add(client, {**SONGS, "id": "w/3"})
    for _ in range(2):  # a lost answer is requested again
        seen = client.post(f"{path}/seen", json={"up_to": found["seen_up_to"]})
        assert (200, found["seen_up_to"]) == (seen.status_code, seen.json()["seen_up_to"])
    assert ["w/3"] == ids(news(client, path))
    assert client.post(f"{path}/seen", json={"up_to": 10**9}).status_code == 422


def test_weak_matches_are_no_news(client: TestClient) -> None:
    """Papers that match weakly are counted, but only listed with ``weak``."""
    path = save(client)
    add(client, {**TAXES, "title": "Estates", "abstract": ["Zyx qwv.", "Plm okn ijb."]})
    found = news(client, path)
    assert ([], 1, "no_match_added") == (ids(found), found["added"], found["reason"])
    assert ["t/1"] == ids(news(client, path, weak=True))


def test_likes_dislikes_and_filters_are_kept(client: TestClient) -> None:
    """Saved recommendations are returned as sent, and new papers follow their negatives and filters."""
    add(client, WHALES, TAXES)
    body = {"seeds": ["w/1"], "negatives": ["t/1"], "filters": {"year_from": 2020}, "limit": 1}
    path = save(client, {"name": "songs", "recommendations": body})
    like_whales = save(client, {"name": "whales", "search": {"query": {"paper_id": "w/1"}}})
    saved = client.get(path).json()
    assert (body, None, "recommendations") == (saved["recommendations"], saved["search"], saved["kind"])
    add(client, SONGS, {**SONGS, "id": "old", "year": 1999}, {**TAXES, "id": "t/2"})
    found = news(client, path, weak=True, limit=9)
    assert (["w/2", "t/2"], 2) == (ids(found), found["added"])
    assert ["w/2"] == ids(news(client, path, weak=True))
    client.delete("/v1/papers/w%2F1")
    for of_a_lost_seed in (path, like_whales):
        lost = news(client, of_a_lost_seed)
        assert ("no_seed_resolved", [0]) == (lost["reason"], [each["seed"] for each in lost["unresolved"]])


def test_a_saved_query_may_be_limited_to_some_papers(client: TestClient) -> None:
    """A query with a filter by ids only finds those papers."""
    narrow = {**SEARCH, "filters": {"ids": ["w/2"]}}
    path = save(client, {"name": "narrow", "search": narrow})
    add(client, WHALES)
    assert "nothing_added" == news(client, path)["reason"]
    add(client, SONGS)
    assert ["w/2"] == ids(news(client, path))


def test_saved_queries_are_listed_and_deleted(client: TestClient) -> None:
    """The list has no bodies, equal queries are saved once, and deleting twice is fine."""
    assert {"queries": []} == client.get("/v1/queries").json()
    assert 404 == client.get("/v1/queries/none").status_code
    assert 204 == client.delete("/v1/queries/none").status_code
    path = save(client)
    again = client.post(
        "/v1/queries", json={"name": "whales", "search": {**SEARCH, "include": [*REASON_DETAILS]}}
    )
    assert (200, path) == (again.status_code, again.headers["Location"])
    other = client.post("/v1/queries", json={"name": "whales", "search": {**SEARCH, "limit": 6}})
    assert (409, "urn:akin:problem:saved-query-conflict") == (other.status_code, other.json()["type"])
    (listed,) = client.get("/v1/queries").json()["queries"]
    assert (path, "whales", "search", None) == (
        f"/v1/queries/{listed['id']}",
        *(listed[name] for name in ("name", "kind", "feed")),
    )
    assert "search" not in listed
    for _ in range(2):
        assert 204 == client.delete(path).status_code
    for gone in (client.get(path), client.get(f"{path}/new"), client.post(f"{path}/feed")):
        assert (404, "urn:akin:problem:saved-query-not-found") == (gone.status_code, gone.json()["type"])


REASON_DETAILS = ("abstract", "sentences", "alignments", "highlights")


def test_the_order_of_lists_that_are_sets_makes_no_other_query(client: TestClient) -> None:
    """Filters, sentences, facets and details in another order are the same query; seeds are another one."""
    filters = {
        name: ["a", "b"] for name in ("venues", "fields", "authors", "ids", "exclude_ids", "has_facets")
    } | {"has_facets": ["method", "result"]}
    pasted = {"abstract": ["We count.", "Whales sing."], "sentences": [0, 1]}
    by_facet = {"abstract": ["We count.", "Whales sing."], "facet": ["method", "result"]}
    body = {"seeds": [pasted, by_facet], "filters": filters, "include": ["abstract", "sentences"]}
    path = save(client, {"name": "a", "recommendations": body})
    turned = {
        "seeds": [{**pasted, "sentences": [1, 0]}, {**by_facet, "facet": ["result", "method"]}],
        "filters": {name: names[::-1] for name, names in filters.items()},
        "include": ["sentences", "abstract"],
    }
    again = client.post("/v1/queries", json={"name": "a", "recommendations": turned})
    assert (200, path) == (again.status_code, again.headers["Location"])
    assert body == client.get(path).json()["recommendations"]
    one = save(client, {"name": "one", "search": {"query": {"text": "whales"}, "facet": "method"}})
    same = {"name": "one", "search": {"query": {"text": "whales"}, "facet": ["method"]}}
    assert one == client.post("/v1/queries", json=same).headers["Location"]
    for other in (
        {**body, "seeds": body["seeds"][::-1]},
        {**body, "seeds": [{**pasted, "abstract": pasted["abstract"][::-1]}, by_facet]},
        {**body, "include": ["abstract"]},
    ):
        assert 409 == client.post("/v1/queries", json={"name": "a", "recommendations": other}).status_code
    plain = {"name": "whales", "search": SEARCH}
    path = save(client, plain)
    details = {"name": "whales", "search": {**SEARCH, "include": [*REASON_DETAILS[::-1]]}}
    for same in (details, plain):
        answer = client.post("/v1/queries", json=same)
        assert (200, path) == (answer.status_code, answer.headers["Location"])


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"name": "a"}, "search"),
        ({"name": "a", "search": SEARCH, "recommendations": {"seeds": ["w/1"]}}, "search"),
        ({"name": "", "search": SEARCH}, "name"),
        ({"name": "a\nb", "search": SEARCH}, "name"),
        ({"name": "a", "search": {**SEARCH, "cursor": "x"}}, "search"),
        ({"name": "a", "recommendations": {"seeds": []}}, "recommendations.seeds"),
        ({"search": SEARCH}, "name"),
    ],
)
def test_what_cannot_be_saved_is_refused(client: TestClient, body: dict[str, Any], named: str) -> None:
    """A query without name or content is refused with the name of the field, and nothing is saved."""
    answer = client.post("/v1/queries", json=body)
    assert 422 == answer.status_code
    assert named in answer.json()["detail"]
    assert [] == client.get("/v1/queries").json()["queries"]


@pytest.mark.parametrize(
    "body",
    [
        {"search": {**SEARCH, "sentences": [1]}},
        {"search": {"query": {"paper_id": "p1"}, "sentences": [999]}},
        {"search": {"query": {"abstract": ["We count.", "Whales sing."]}, "sentences": [2]}},
        {"recommendations": {"seeds": [{"paper_id": "p1", "sentences": [999]}], "negatives": ["p2"]}},
    ],
)
def test_sentences_that_do_not_exist_are_not_saved(client: TestClient, body: dict[str, Any]) -> None:
    """A query whose sentences cannot be chosen is refused in the words of a search, and is not saved."""
    refused = client.post("/v1/queries", json={"name": "a", **body})
    assert 422 == refused.status_code
    if "search" in body:
        assert client.post("/v1/search", json=body["search"]).json()["detail"] == refused.json()["detail"]
    assert [] == client.get("/v1/queries").json()["queries"]


def test_a_paper_that_is_both_a_seed_and_a_negative_is_not_saved(client: TestClient) -> None:
    """A query with the same sentences among seeds and negatives is refused in the words of an answer."""
    both = {"seeds": ["p1", "p2"], "negatives": ["p3", "p2"]}
    refused = client.post("/v1/queries", json={"name": "a", "recommendations": both})
    assert 422 == refused.status_code
    assert client.post("/v1/recommendations", json=both).json()["detail"] == refused.json()["detail"]
    apart = {**both, "negatives": [{"paper_id": "p2", "sentences": [0]}]}
    assert 201 == client.post("/v1/queries", json={"name": "a", "recommendations": apart}).status_code


def test_seeds_that_cannot_be_used_yet_are_named(client: TestClient) -> None:
    """A query for a paper to be added is saved, and its answer and its feed say that it cannot run yet."""
    search = {"query": {"paper_id": "w/1"}, "sentences": [1]}
    body = {"seeds": ["w/1", {"paper_id": "p1", "sentences": [999]}, "p2"], "negatives": ["w/2"]}
    for kept in ({"name": "a", "search": search}, {"name": "b", "recommendations": body}):
        for status in (201, 200):
            saved = client.post("/v1/queries", json=kept)
            assert status == saved.status_code
        lost = {(each["seed"], each["negative"]): each["reason"] for each in saved.json()["unresolved"]}
        others = {(1, False): "selection_impossible", (0, True): "not_indexed"} if "b" == kept["name"] else {}
        assert {(0, False): "not_indexed", **others} == lost
    queries = client.get("/v1/queries").json()["queries"]
    feeds = [client.post(f"/v1/queries/{each['id']}/feed").json()["feed"] for each in queries]

    def notes() -> list[str | None]:
        return [
            ElementTree.fromstring(client.get(feed).content).findtext(f"{ATOM}subtitle") for feed in feeds
        ]

    assert ["Nothing can be new to this query, because none of its seeds can be used.", None] == notes()
    add(client, WHALES)
    assert [None, None] == notes()


def test_a_feed_is_read_by_whoever_knows_its_address(data: Path) -> None:
    """A feed has the new matches without a key, until it or the key that made it is revoked."""
    with Keys.open(data / CATALOG_FILE) as keys:
        mine, other, admin = (
            keys.create(name, scope=scope, expires_days=1)
            for name, scope in (("me", Scope.INGEST), ("you", Scope.READ), ("all", Scope.ADMIN))
        )
        as_me, as_you, as_admin = ({"headers": {"x-api-key": each.token}} for each in (mine, other, admin))
        with serving(data) as client:
            path = save(client, **as_me)
            assert 404 == client.post(f"{path}/feed", **as_you).status_code
            assert 404 == client.get(f"{path}/new", **as_you).status_code
            assert 401 == client.get(f"{path}/new").status_code
            assert [] == client.get("/v1/queries", **as_admin).json()["queries"]
            assert 200 == client.get(path, **as_admin).status_code
            address = client.post(f"{path}/feed", **as_me).json()["feed"]
            assert address == client.post(f"{path}/feed", **as_me).json()["feed"]
            assert address == client.get(path, **as_me).json()["feed"]
            add(
                client,
                {**SONGS, "title": "<b>Songs</b> & \u0001whales", "url": 'https://x.org/a?b=1&c="2"'},
                {**WHALES, "url": "javascript:alert(1)"},
                {**TAXES, "title": "Estates", "abstract": ["Zyx qwv.", "Plm okn ijb."]},
                **as_me,
            )
            read = client.get(address)
            assert (200, "application/atom+xml") == (
                read.status_code,
                read.headers["content-type"].split(";")[0],
            )
            assert [
                ("Whales", "http://testserver/?paper=w%2F1"),
                ("<b>Songs</b> & whales", 'https://x.org/a?b=1&c="2"'),
            ] == sorted(entries(read.content), reverse=True)
            seen = client.get(f"{path}/new", **as_me).json()["seen_up_to"]
            client.post(f"{path}/seen", json={"up_to": seen}, **as_me)
            assert 2 == len(entries(client.get(address).content))
            assert 404 == client.get(address[:-1] + ("A" if address[-1] != "A" else "B")).status_code
            assert 204 == client.delete(f"{path}/feed", **as_me).status_code
            assert 404 == client.get(address).status_code
            later = client.post(f"{path}/feed", **as_me).json()["feed"]
            assert (200, 404) == (client.get(later).status_code, client.get(address).status_code)
            keys.revoke("me")
            soon(lambda: client.get(later).status_code == 401)


def test_readers_of_a_closed_feed_take_no_turns_of_the_next(data: Path) -> None:
    """Whoever has the address of a closed feed uses up its own rate, not that of the feed opened since."""
    with serving(data, rate=3) as client:
        path = save(client)
        address = client.post(f"{path}/feed").json()["feed"]
        client.delete(f"{path}/feed")
    with serving(data, rate=3) as client:
        later = client.post(f"{path}/feed").json()["feed"]
        read = [client.get(address).status_code for _ in range(12)]  # more, as a new minute may begin
        assert {404, 429} == {*read}
        assert 200 == client.get(later).status_code


def test_an_admin_leaves_the_mark_of_others_where_it_is(data: Path) -> None:
    """An admin key reads others' queries, makes and revokes feeds and deletes, but marks nothing as seen."""
    with Keys.open(data / CATALOG_FILE) as keys:
        mine, admin = (
            keys.create(name, scope=scope, expires_days=1).token
            for name, scope in (("me", Scope.INGEST), ("all", Scope.ADMIN))
        )
    as_me, as_admin = {"x-api-key": mine}, {"x-api-key": admin}
    with serving(data) as client:
        path = save(client, headers=as_me)
        add(client, SONGS, headers=as_me)
        found = client.get(f"{path}/new", headers=as_admin).json()
        assert ["w/2"] == ids(found)
        seen = {"up_to": found["seen_up_to"]}
        assert 404 == client.post(f"{path}/seen", json=seen, headers=as_admin).status_code
        assert ["w/2"] == ids(client.get(f"{path}/new", headers=as_me).json())
        page = path.replace("/v1/queries", "/saved")
        for headers, may_mark in ((as_admin, False), (as_me, True)):
            assert may_mark == ("Mark all as seen" in client.get(page, headers=headers).text)
        assert 200 == client.post(f"{path}/feed", headers=as_admin).status_code
        assert 204 == client.delete(f"{path}/feed", headers=as_admin).status_code
        assert 200 == client.post(f"{path}/seen", json=seen, headers=as_me).status_code
        assert 204 == client.delete(path, headers=as_admin).status_code
        assert 404 == client.get(path, headers=as_me).status_code


def test_links_of_a_feed_are_whole(data: Path) -> None:
    """Links in a feed are absolute, by the setting or by the host of the request."""

    def links(client: TestClient, path: str, host: str) -> list[str]:
        read = client.get(path, headers={"host": host}).content
        return [each.attrib["href"] for each in ElementTree.fromstring(read).iter(f"{ATOM}link")]

    with serving(data) as client:
        saved = save(client)
        path = client.post(f"{saved}/feed").json()["feed"]
        add(client, WHALES)
        for host, root in (("localhost:9000", "localhost:9000"), ('x"/><b>', "testserver")):
            assert [f"http://{root}{path}", f"http://{root}/?paper=w%2F1"] == links(client, path, host)
    with serving(data, public_url="https://x.org/akin/") as client:
        public = "https://x.org/akin"
        assert f"{public}{path}" == client.get(saved).json()["feed"]
        assert [f"{public}{path}", f"{public}/?paper=w%2F1"] == links(client, path, "localhost:9000")


def test_no_feed_is_made_whose_address_would_not_last(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that can store no secret refuses to create a feed, and shows no address of an earlier one."""
    with serving(data) as client:
        path = save(client)
        feed = client.post(f"{path}/feed").json()["feed"]
    (data / SECRET_FILE).rename(data / "elsewhere")
    with monkeypatch.context() as patched:
        patched.setattr("service.secret._make", refuse_to_write)
        with serving(data) as client:
            refused = client.post(f"{path}/feed")
            assert (409, True) == (refused.status_code, "set AKIN_SECRET" in refused.json()["detail"])
            assert [None] == [each["feed"] for each in client.get("/v1/queries").json()["queries"]]
            assert None is client.get(path).json()["feed"]
    (data / "elsewhere").rename(data / SECRET_FILE)
    with serving(data) as client:
        assert feed == client.get(path).json()["feed"]


def refuse_to_write(*_: object) -> None:
    """Raise the error of a folder that cannot be written to."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_without_keys_a_feed_is_for_this_machine(data: Path) -> None:
    """Without keys a feed is for this machine; once keys exist, no key opens a feed made without one."""
    with serving(data) as client:
        feed = client.post(f"{save(client)}/feed").json()["feed"]
        assert 200 == client.get(feed).status_code
        assert 401 == client.get(feed, headers={"x-forwarded-for": "1.2.3.4"}).status_code
        with Keys.open(data / CATALOG_FILE) as keys:
            token = keys.create("me", scope=Scope.READ, expires_days=1).token
        soon(lambda: client.get(feed).status_code == 401)
        assert 401 == client.get(feed, headers={"x-api-key": token}).status_code


def test_a_feed_counts_as_one_caller(data: Path) -> None:
    """Reading one feed too often is refused, while other feeds go on; wrong addresses do not count."""
    with serving(data, rate=4) as client:
        first = client.post(f"{save(client)}/feed").json()["feed"]
        second = client.post(f"{save(client, {'name': 'b', 'search': SEARCH})}/feed").json()["feed"]
        for _ in range(9):
            assert 404 == client.get(f"{first}A").status_code
        statuses = [client.get(first).status_code for _ in range(6)]
        assert 200 == statuses[0]
        assert 429 == statuses[-1]
        assert 200 == client.get(second).status_code


def test_the_place_at_the_database_is_free_while_news_are_computed(data: Path) -> None:
    """While news wait for a place to compute they hold no place at the database, so writes go on."""
    with serving(data, running=1, queue=1) as client:
        path = save(client)
        add(client, SONGS)
        queues = client.app.state.services.queues  # type: ignore[attr-defined]
        assert client.portal is not None
        with ThreadPoolExecutor(1) as pool, ExitStack() as working:
            taken = queues.computing.place(Deadline(600))
            working.enter_context(client.portal.wrap_async_context_manager(taken))
            waiting = pool.submit(news, client, path)
            soon(lambda: queues.computing.waiting == 1)
            assert 0 == queues.storing.running
            refused = client.get(f"{path}/new")
            assert (503, True) == (refused.status_code, "Retry-After" in refused.headers)
            add(client, WHALES)
            working.close()
            assert ["w/2"] == ids(waiting.result())
        assert {"w/2", "w/1"} == {*ids(news(client, path))}
