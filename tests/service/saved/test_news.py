"""Tests of the new papers of a saved query: how many match, which are returned, and how others count."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.catalog.catalog import Catalog
from indexer.catalog.current import AddedPaper
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.types import StrengthLabel
from service.saved.news import news_of
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.timings import Timings
from tests.support.annotators import annotated, hashing_annotator
from tests.support.builds import Refusing, build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.examples.pages import page_at
from tests.support.servers.patience import soon

SONGS = {"id": "s/0", "title": "Songs of whales", "abstract": ["Whales sing songs.", "We hear whales."]}
OFTEN = Timings(follow_every_s=0.02, publish_every_s=0.05, keys_refresh_s=0.02)
WEAK = {"id": "t/1", "title": "Estates", "abstract": ["Zyx qwv.", "Plm okn ijb."]}
SEARCH = {"query": {"text": "whales sing"}}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of some papers, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(60)), folder / "data", hashing)
    return folder / "data"


@pytest.fixture
def client(built: Path, tmp_path: Path) -> Iterator[TestClient]:
    """Yield a client of a service over a copy of the collection that takes papers without keys."""
    data = Path(shutil.copytree(built, tmp_path / "data"))
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    with client_of(data, engine, timings=OFTEN, keyless="write", device="cpu", rate=0) as client:
        yield client


def songs(n_papers: int) -> list[dict[str, Any]]:
    """Return ``n_papers`` papers that match."""
    return [{**SONGS, "id": f"s/{number}"} for number in range(n_papers)]


def add(client: TestClient, *papers: dict[str, Any]) -> None:
    """Add papers and wait until they show."""
    answer = client.post("/v1/papers?wait=true", json={"papers": list(papers)})
    assert 200 == answer.status_code, answer.text


def save(client: TestClient, **body: Any) -> str:
    """Save a query and return its id."""
    answer = client.post("/v1/queries", json={"name": "whales", **(body or {"search": SEARCH})})
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["id"])


def news(client: TestClient, query: str, **params: Any) -> dict[str, Any]:
    """Return the new papers of a query."""
    answer = client.get(f"/v1/queries/{query}/new", params=params)
    assert 200 == answer.status_code, answer.text
    return dict(answer.json())


def ids(found: dict[str, Any]) -> list[str]:
    """Return the ids of the papers found, best first."""
    return [each["paper"]["id"] for each in found["results"]]


def test_news_need_not_be_nearest_neighbours(plain_engine: SearchEngine) -> None:
    """Related papers are news although their match is weak; papers of other subjects are not."""
    query = SearchQuery((Seed("demo:p03-m07"),), limit=99)
    added = [AddedPaper(paper.id, 0, 0) for paper in map(plain_engine.snapshot.paper, range(100))]
    shown = [each.ranked for each in news_of(plain_engine, query, added, since=-1, limit=99).papers]
    labels = {each.strength.label for each in shown if each.strength}
    assert StrengthLabel.WEAK in labels
    assert 5 <= len(shown) < 50
    assert [each.paper.id for each in shown] == [
        each.paper.id for each in plain_engine.search(query).results[: len(shown)]
    ]


def test_papers_past_the_limit_are_counted(client: TestClient) -> None:
    """The number of matches does not depend on the limit, and weak matches take no place of others."""
    query = save(client)
    add(client, *songs(12), WEAK)
    for limit in (1, 5, 12, 1000):
        found = news(client, query, limit=limit)
        assert (13, 12, min(limit, 12)) == (found["added"], found["matching"], len(found["results"]))
    assert 13 == news(client, query, limit=2, weak=True)["matching"]
    assert {each["id"] for each in songs(12)} == {*ids(news(client, query, limit=12))}
    assert 422 == client.get(f"/v1/queries/{query}/new?limit=1001").status_code


def test_no_more_papers_are_looked_at_than_may_be_shown(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If more papers match than may be shown, a warning says so."""
    monkeypatch.setattr("service.saved.news.MAX_NEWS", 6)
    query = save(client)
    add(client, *songs(8))
    found = news(client, query, limit=5)
    assert (6, 5, ["list_ends_at"]) == (
        found["matching"],
        len(found["results"]),
        [each["code"] for each in found["warnings"]],
    )


def test_papers_that_are_not_shown_are_not_marked_as_seen(client: TestClient) -> None:
    """The page says how many more papers match, and offers to mark them as seen only if all are shown."""
    path = f"/saved/{save(client)}"
    add(client, *songs(25), WEAK)
    page = page_at(client, path)
    assert "10 of 25 new papers" in page.text
    assert "15 more papers match; see all before you mark them as seen." in page.text
    assert "Mark all as seen" not in page.text
    (all_of_them,) = (each["href"] for each in page.all("a") if "whole" in each["href"])
    whole = page_at(client, all_of_them)
    assert "25 new papers" in whole.text
    assert 25 == len(whole.all("article"))
    assert "more papers match" not in whole.text
    assert "Mark all as seen" in whole.text


def test_nothing_is_passed_over_while_a_part_of_the_collection_is_away(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a part of the collection is away nothing can be marked as seen, and papers stay new."""
    query = save(client)
    seen = client.get(f"/v1/queries/{query}").json()["seen_up_to"]
    add(client, *songs(2))
    with monkeypatch.context() as patched:
        patched.setattr(Snapshot, "away", property(lambda snapshot: {len(snapshot.segments) - 1}))
        found = news(client, query)
        assert (0.96 < found["coverage"] < 1, [], seen) == (True, ids(found), found["seen_up_to"])
        assert "cannot be searched now; try again later." in found["detail"]
        marked = client.post(f"/v1/queries/{query}/seen", json={"up_to": found["seen_up_to"]})
        assert seen == marked.json()["seen_up_to"]
        page = page_at(client, f"/saved/{query}")
        assert "Mark all as seen" not in page.text
        assert "% of the collection could be searched" in page.text
    found = news(client, query)
    assert (1, 2, True) == (found["coverage"], len(ids(found)), found["seen_up_to"] > seen)


def test_matches_that_cannot_be_measured_are_no_news_yet(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a part of the collection is away weak matches are unknown, so nothing is new; later it is."""
    query = save(client)
    add(client, *songs(2), WEAK)
    with monkeypatch.context() as patched:
        patched.setattr(Snapshot, "away", property(lambda _: {0}))
        found = news(client, query)
        assert ([], 0, True) == (ids(found), found["matching"], found["coverage"] < 1)
        assert "match is not known while a part" in found["detail"]
        assert 3 == len(ids(news(client, query, weak=True)))
    assert ["s/0", "s/1"] == sorted(ids(news(client, query)))


def test_news_say_the_least_that_was_searched(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """If several searches reach different shares, the answer has the least, with one warning."""
    query = save(client)
    add(client, *songs(8))
    assert 8 == news(client, query)["matching"]
    search = SearchEngine.search
    for lower in ([1.0, 0.75], [0.8, 0.75], [0.75, 1.0]):
        coverages = iter(lower)
        with monkeypatch.context() as patched:
            patched.setattr(
                SearchEngine,
                "search",
                lambda engine, searched, own=coverages: replace(search(engine, searched), coverage=next(own)),
            )
            found = news(client, query, limit=1)
        assert 0.75 == found["coverage"]
        assert [["75.0"]] == [
            each["about"] for each in found["warnings"] if each["code"] == "partial_coverage"
        ]


def test_a_search_whose_paper_was_deleted_says_so(client: TestClient) -> None:
    """A search that starts from a deleted paper says so in answer and page, until the paper is back."""
    add(client, SONGS, WEAK)
    alone = save(client, search={"query": {"paper_id": "s/0"}})
    body = {"seeds": ["p1", "s/0"], "negatives": ["t/1"]}
    several = save(client, name="several", recommendations=body)
    assert [[], []] == [news(client, each)["unresolved"] for each in (alone, several)]
    for name in ("s%2F0", "t%2F1"):
        client.delete(f"/v1/papers/{name}")
    found = [news(client, each) for each in (alone, several)]
    assert ["no_seed_resolved", "nothing_added"] == [each["reason"] for each in found]
    assert [[(0, False)], [(1, False), (0, True)]] == [
        [(lost["seed"], lost["negative"]) for lost in each["unresolved"]] for each in found
    ]
    page = page_at(client, f"/saved/{alone}").text
    assert "This search starts from s/0, which is no longer in the collection." in page
    assert "none of the papers that it starts from can be used" in page
    page = page_at(client, f"/saved/{several}").text
    assert "This search starts from s/0, which is no longer in the collection." in page
    assert "This search avoids t/1, which is no longer in the collection." in page
    add(client, SONGS)
    assert [] == news(client, alone)["unresolved"]


def test_papers_added_while_the_paper_of_a_search_is_away_stay_new(client: TestClient) -> None:
    """Papers added while no paper of the search can be used stay new, even if marked as seen meanwhile."""
    add(client, SONGS)
    query = save(client, search={"query": {"paper_id": "s/0"}})
    seen = client.get(f"/v1/queries/{query}").json()["seen_up_to"]
    client.delete("/v1/papers/s%2F0")
    add(client, {**SONGS, "id": "s/1"})
    found = news(client, query)
    assert ("no_seed_resolved", 1, seen) == (found["reason"], found["added"], found["seen_up_to"])
    client.post(f"/v1/queries/{query}/seen", json={"up_to": found["seen_up_to"]})
    add(client, SONGS)
    found = news(client, query)
    assert (["s/1"], True) == (ids(found), found["seen_up_to"] > seen)


def test_a_paper_is_new_once_its_text_can_be_encoded(built: Path, tmp_path: Path, hashing: Encoder) -> None:
    """A paper that could not be encoded is new when it can first be found, even if later ones were seen."""
    data = Path(shutil.copytree(built, tmp_path / "data"))
    engine = SearchEngine(open_snapshot(data), lambda: annotated(Refusing(hashing)), n_candidates=20)
    with client_of(data, engine, timings=OFTEN, keyless="write", device="cpu", rate=0) as client:
        query = save(client)
        feed = client.post(f"/v1/queries/{query}/feed").json()["feed"]
        bad = {**SONGS, "id": "s/bad", "abstract": ["POISON sings.", "We hear whales."]}
        client.post("/v1/papers", json={"papers": [bad, SONGS]})
        soon(lambda: ["s/0"] == ids(news(client, query)))
        client.post(f"/v1/queries/{query}/seen", json={"up_to": news(client, query)["seen_up_to"]})
        assert [] == ids(news(client, query))
        add(client, {**SONGS, "id": "s/bad"})
        assert ["s/bad"] == ids(news(client, query))
        assert "paper=s%2Fbad" in client.get(feed).text


def test_a_rollback_announces_nothing(client: TestClient, tmp_path: Path) -> None:
    """Papers that a rollback restores are not new to queries saved before or after it."""
    add(client, *songs(3))
    query, before = save(client), client.get("/readyz").json()["generation"]
    for number in range(2):
        assert 204 == client.delete(f"/v1/papers/s%2F{number}").status_code
    data = tmp_path / "data"
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, before, catalog=catalog)
    soon(lambda: client.get("/readyz").json()["generation"] == before)
    queries = [query, save(client, name="later", search=SEARCH)]
    assert [0, 0] == [news(client, each)["added"] for each in queries]
    add(client, {**SONGS, "id": "s/9"})
    assert [["s/9"], ["s/9"]] == [ids(news(client, each)) for each in queries]


def test_a_paper_is_new_once_its_addition_is_published(built: Path) -> None:
    """A paper that was deleted and is added again is no news while the generation before is served."""
    snapshot = open_snapshot(built)
    engine, query = SearchEngine(snapshot, hashing_annotator, n_candidates=20), SearchQuery((Seed("p2"),))
    for later, n_added in ((1, 0), (0, 1)):
        paper = AddedPaper("p1", snapshot.manifest.change + later, 1)
        assert n_added == news_of(engine, query, [paper], since=0, limit=1).n_added


def test_a_feed_holds_the_newest_matches(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed holds the latest matches, because readers keep earlier ones, even if those match better."""
    monkeypatch.setattr("service.api.routes.saved.queries._FEED_PAPERS", 2)
    feed = client.post(f"/v1/queries/{save(client)}/feed").json()["feed"]
    add(client, *({**SONGS, "id": f"old/{number}", "title": "Whales sing"} for number in range(3)))
    for number in range(2):
        paper = {**SONGS, "id": f"new/{number}", "abstract": ["Whales sing many songs.", "We hear ships."]}
        add(client, paper)
    read = client.get(feed).text
    assert [2, 0] == [read.count(f"paper={name}%2F") for name in ("new", "old")]


@pytest.mark.parametrize("n_weak", [0, 5, 30])
def test_better_matches_hide_no_newer_ones_from_a_feed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, n_weak: int
) -> None:
    """A feed has the newest matches even if more papers than one search returns match better."""
    monkeypatch.setattr("service.api.routes.saved.queries._FEED_PAPERS", 4)
    monkeypatch.setattr("service.saved.news.MAX_NEWS", 3)
    feed = client.post(f"/v1/queries/{save(client)}/feed").json()["feed"]
    add(client, *({**SONGS, "id": f"best/{number}", "title": "Whales sing"} for number in range(14)))
    add(client, {**SONGS, "id": "new/1", "abstract": ["Whales sing many songs.", "We hear ships."]})
    if n_weak:
        add(client, *({**WEAK, "id": f"weak/{number}"} for number in range(n_weak)))
    add(client, {**SONGS, "id": "new/2", "abstract": ["Whales sing many songs.", "We hear ships."]})
    read = client.get(feed).text
    assert [2, 2, 0] == [read.count(f"paper={name}%2F") for name in ("new", "best", "weak")]


def test_a_feed_says_if_only_the_last_papers_were_compared(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If more papers were added than are compared, the feed says so unless it is full."""
    monkeypatch.setattr("service.api.routes.saved.queries.MAX_ADDED", 3)
    feed = client.post(f"/v1/queries/{save(client)}/feed").json()["feed"]
    for number, is_limited in enumerate((False, False, True)):
        add(client, {**SONGS, "id": f"s/{number}"})
        assert is_limited == ("Only the last 50,000 papers added are compared" in client.get(feed).text)
    monkeypatch.setattr("service.api.routes.saved.queries._FEED_PAPERS", 3)
    assert "are compared" not in client.get(feed).text
