"""Tests that answers over a part of the collection say so in every format, if need be in a header."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from fastapi.testclient import TestClient

from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from service.api.formats import LIST_FORMATS, Format
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery
from tests.support.annotators import hashing_annotator
from tests.support.clients import client_of

ID = "demo:p00-m00"
_search = SearchEngine.search


def _partly(engine: SearchEngine, query: SearchQuery) -> SearchAnswer:
    return replace(_search(engine, query), coverage=0.75)


@pytest.fixture(scope="module")
def client(hashed_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Yield a client of a service over the demo corpus with a quarter of it missing."""
    data = copytree(hashed_data, tmp_path_factory.mktemp("partly") / "data")
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    with (
        client_of(data, engine, device="cpu", keyless="write") as client,
        pytest.MonkeyPatch.context() as away,
    ):
        away.setattr(SearchEngine, "search", _partly)
        yield client


@pytest.mark.parametrize("form", [form for form in LIST_FORMATS if form is not Format.JSON])
def test_files_say_how_much_was_searched(client: TestClient, form: Format) -> None:
    """Files of searches and recommendations have the coverage in a header."""
    for path, body in (
        ("/v1/search", {"query": {"paper_id": ID}}),
        ("/v1/recommendations", {"seeds": [{"paper_id": ID}]}),
    ):
        answer = client.post(path, json=body, headers={"Accept": form})
        assert (200, "0.75") == (answer.status_code, answer.headers["X-Akin-Coverage"]), path


def test_a_list_of_two_searches_says_how_much_both_searched(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a part goes away between the searches of a list, page and file say so, and nothing is cached."""

    def losing(engine: SearchEngine, query: SearchQuery) -> SearchAnswer:
        return replace(_search(engine, query), coverage=0.75 if query.page.offset else 1.0)

    by_year, said = f"paper={ID}&sort=year", "Only 75.0 % of the collection could be searched"
    for search, partly in ((losing, True), (_search, False)):
        monkeypatch.setattr(SearchEngine, "search", search)
        assert partly == (said in client.get(f"/?{by_year}").text)
        file = client.get(f"/results.csv?{by_year}&whole=1")
        assert ("0.75" if partly else "1.0") == file.headers["X-Akin-Coverage"]


def test_the_routes_of_semantic_scholar_say_how_much_was_searched(client: TestClient) -> None:
    """Semantic Scholar's routes have the coverage in a header, for one paper and for lists."""
    one = client.get(f"/recommendations/v1/papers/forpaper/{ID}")
    lists = client.post("/recommendations/v1/papers/", json={"positivePaperIds": [ID]})
    assert ["0.75", "0.75"] == [each.headers["X-Akin-Coverage"] for each in (one, lists)]


def test_a_service_whose_shards_are_all_away_is_not_ready(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no part of the collection can be searched, /readyz gets 503 and other routes answer."""
    monkeypatch.setattr(Snapshot, "away", property(lambda _: frozenset({0})))
    answer = client.get("/readyz")
    assert (503, "urn:akin:problem:shard-away") == (answer.status_code, answer.json()["type"])
    assert "Retry-After" in answer.headers
    assert [200, 200] == [client.get(path).status_code for path in ("/livez", f"/v1/papers/{ID}")]
    monkeypatch.undo()
    assert 200 == client.get("/readyz").status_code


def test_a_feed_says_how_much_was_searched(client: TestClient) -> None:
    """A feed has the coverage in a header; it is 1 if nothing was added, because nothing is searched."""
    search = {"query": {"text": "We measure the songs of whales."}}
    path = client.post("/v1/queries", json={"name": "whales", "search": search}).headers["Location"]
    address = client.post(f"{path}/feed").json()["feed"]
    assert "1.0" == client.get(address).headers["X-Akin-Coverage"]
    paper = {"id": "w", "title": "Whales", "abstract": ["We measure the songs of whales."]}
    assert 200 == client.post("/v1/papers?wait=true", json={"papers": [paper]}).status_code
    assert "0.75" == client.get(address).headers["X-Akin-Coverage"]
