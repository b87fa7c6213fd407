"""Tests of long lists over HTTP: pages of any size fit together, and lists end where they should."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import HealthCheck, example, settings
from hypothesis import given as having
from hypothesis import strategies as st
from pydantic import SecretStr

from indexer.index.vector_index import VectorIndex
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.types import Hits
from service.app import create_app
from service.search.aspect import Part
from service.search.candidates import ALL_AT_ONCE, find_candidates, list_candidates
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.answers import warned
from tests.support.examples.long_lists import N_PAPERS, build_many

SHARED = SecretStr("0123456789abcdef" * 2)
BODY: dict[str, Any] = {"query": {"paper_id": "many/17"}}
FILTERED = {**BODY, "filters": {"year_from": 2012}}  # fewer papers, to save time


def opened(data: Path) -> TestClient:
    """Return a client of a newly started service over ``data``."""
    return TestClient(create_app(Settings(data=data, device="cpu", secret=SHARED, cache_mib=0)))


@pytest.fixture(scope="module")
def many_data(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a data folder with more than a thousand papers under the hashing encoder."""
    return build_many(tmp_path_factory.mktemp("many") / "data", hashing)


@pytest.fixture(scope="module")
def client(many_data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over more than a thousand papers."""
    with opened(many_data) as client:
        yield client


def answer(client: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a search that must succeed."""
    response = client.post("/v1/search", json=body)
    assert 200 == response.status_code, response.text
    found: dict[str, Any] = response.json()
    return found


def pages(client: TestClient, body: dict[str, Any], limits: Iterator[int]) -> Iterator[list[str]]:
    """Yield the ids of each page up to the end of the list."""
    cursor = None
    for limit in limits:
        request = {**body, "limit": limit, "include": []}
        page = answer(client, {**request, **({"cursor": cursor} if cursor else {})})
        yield [result["paper"]["id"] for result in page["results"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def whole(client: TestClient, body: dict[str, Any], *limits: int) -> list[str]:
    """Return the ids of the whole list, in pages of these sizes, the last size repeated to the end."""
    sizes = (limits[min(number, len(limits) - 1)] for number in range(10_000))
    return [paper_id for page in pages(client, body, sizes) for paper_id in page]


PASTED = {"title": "Floods", "abstract": "river flood. We use a causal graph. All rights reserved."}


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        {"query": PASTED, "scorer": "single"},
        {"query": {"paper_id": "many/3"}, "sentences": [0], "unlike": {"sentences": [1]}},
    ],
)
def test_a_thousand_results_without_a_gap(client: TestClient, body: dict[str, Any]) -> None:
    """The pages have every paper of the collection except the query's own, each once."""
    ids = whole(client, body, 100)
    own = {body["query"].get("paper_id")} - {None}
    assert N_PAPERS - len(own) == len(ids)
    assert {f"many/{i}" for i in range(N_PAPERS)} - own == set(ids)


@pytest.fixture(scope="module")
def filtered(client: TestClient) -> list[str]:
    """Return the whole list of ``FILTERED``."""
    return whole(client, FILTERED, 10, 100)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(limits=[10] * 40)
@having(limits=st.lists(st.integers(1, 100), min_size=1, max_size=9))
def test_the_list_does_not_depend_on_how_it_is_cut(
    client: TestClient, filtered: list[str], limits: list[int]
) -> None:
    """Pages of any sizes, put together, are the same list."""
    # The size of the first page decides how many papers are re-ranked together.
    assert filtered == whole(client, FILTERED, 10, *limits, 100)


def test_the_first_page_is_what_it_is_without_pages(client: TestClient) -> None:
    """The first page is the same with and without a limit of ten, and the best candidates come in order."""
    assert answer(client, BODY)["results"] == answer(client, {**BODY, "limit": 10})["results"]
    scores = [result["score"] for result in answer(client, {**BODY, "limit": 100})["results"]]
    assert sorted(scores, reverse=True) == scores


@pytest.mark.parametrize(
    ("n_papers", "limit", "n_pages"), [(30, 10, 3), (31, 10, 4), (10, 10, 1), (3, 10, 1)]
)
def test_the_list_ends_with_its_last_page(
    client: TestClient, n_papers: int, limit: int, n_pages: int
) -> None:
    """The last page has no cursor and is not empty, even if the papers fill it."""
    body = {**BODY, "filters": {"ids": [f"many/{i}" for i in range(100, 100 + n_papers)]}}
    found = list(pages(client, body, iter([10] * 99)))
    assert (n_pages, n_papers) == (len(found), sum(map(len, found)))


def test_a_list_ends_at_its_bound(many_data: Path) -> None:
    """A list ends at the longest length, which its total counts too, with a warning on the last page."""
    engine = SearchEngine(open_snapshot(many_data), pytest.fail, n_candidates=200, max_listed=250)
    with TestClient(create_app(Settings(data=many_data, device="cpu"), engine)) as client:
        assert 250 == len(whole(client, BODY, 100)) < N_PAPERS
        last = answer(client, {**BODY, "limit": 100})
        for _ in range(2):
            assert ([], 250) == (last["warnings"], last["total"])
            last = answer(client, {**BODY, "limit": 100, "cursor": last["next_cursor"]})
    assert (None, [("list_ends_at", ["250"]), 250]) == (last["next_cursor"], [*warned(last), last["total"]])


def test_every_page_counts_the_whole_list(client: TestClient) -> None:
    """``total`` on every page is the number of papers that pass the filters, without the query's own."""
    ids = [f"many/{i}" for i in range(10, 260)]
    body = {**BODY, "filters": {"ids": ids}, "limit": 100, "include": []}
    totals, cursor = [], None
    while cursor or not totals:
        page = answer(client, {**body, **({"cursor": cursor} if cursor else {})})
        totals.append(page["total"])
        cursor = page["next_cursor"]
    assert [249] * 3 == totals
    assert N_PAPERS - 1 == answer(client, BODY)["total"]
    assert 0 == answer(client, {**BODY, "filters": {"year_from": 2090}})["total"]
    assert 0 == answer(client, {**BODY, "filters": {"ids": ["many/17"]}})["total"]


def test_papers_that_are_what_was_pasted_are_not_counted(client: TestClient) -> None:
    """With a pasted seed ``total`` is null or exact, and exact on the last page, without the seed's copy."""
    paper = client.get("/v1/papers/many/17").json()["paper"]
    pasted = {"title": paper["title"], "abstract": paper["abstract"]}
    body: dict[str, Any] = {"seeds": [pasted], "limit": 100, "include": []}
    assert client.post("/v1/recommendations", json=body).json()["total"] is None
    read: list[str] = []
    totals, cursor = [], None
    while cursor or not totals:
        page = client.post(
            "/v1/recommendations", json={**body, **({"cursor": cursor} if cursor else {})}
        ).json()
        read += [result["paper"]["id"] for result in page["results"]]
        totals.append(page["total"])
        cursor = page["next_cursor"]
    assert "many/17" not in read
    assert {None, len(read)} == set(totals)
    assert len(read) == totals[-1] < N_PAPERS


@pytest.mark.parametrize("depth", [625])
def test_scores_descend_within_a_stretch_and_may_rise_after_it(client: TestClient, depth: int) -> None:
    """In pages of a hundred, scores descend within windows of 625 papers and rise after some of them."""
    request = {**BODY, "limit": 100, "include": []}
    scores, cursor = [], None
    while cursor or not scores:
        page = answer(client, {**request, **({"cursor": cursor} if cursor else {})})
        scores += [result["score"] for result in page["results"]]
        cursor = page["next_cursor"]
    for start in range(0, len(scores), depth):
        stretch = scores[start : start + depth]
        assert sorted(stretch, reverse=True) == stretch
    assert any(scores[start] > scores[start - 1] for start in range(depth, len(scores), depth))


def test_a_cursor_outlives_a_restart(client: TestClient, many_data: Path) -> None:
    """Another process continues a list from the cursor of the first with the same bytes."""
    first = answer(client, BODY)
    body = {**BODY, "cursor": first["next_cursor"]}
    with opened(many_data) as other:
        for request in (BODY, body):
            contents = {timeless(service.post("/v1/search", json=request)) for service in (client, other)}
            assert 1 == len(contents)
    assert first["results"] != answer(client, body)["results"]


def timeless(response: Response) -> bytes:
    """Return the body without the time it took."""
    assert 1 == response.content.count(b'"took_ms":')
    return re.sub(rb'"took_ms":[0-9.]+', b"", response.content)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_generation_that_is_gone_is_said_to_be(tmp_path: Path, hashing: Encoder, seed: int) -> None:
    """A cursor of another generation gets 410 with the remedy, even if both have the same number."""
    with opened(build_many(tmp_path / "before", hashing, n_papers=40)) as client:
        first = answer(client, BODY)
    with opened(build_many(tmp_path / "data", hashing, seed=seed, n_papers=40)) as other:
        response = other.post("/v1/search", json={**BODY, "cursor": first["next_cursor"]})
    problem = response.json()
    assert (410, "urn:akin:problem:cursor-expired") == (response.status_code, problem["type"])
    assert "Start again without a cursor" in problem["detail"]


@pytest.mark.parametrize(
    "change",
    [
        {"query": {"paper_id": "many/18"}},
        {"scorer": "single"},
        {"filters": {"year_from": 1991}},
        {"cursor": "A" * 76},
        {"cursor": "no cursor"},
        {"cursor": ""},
        {"cursor": "x" * 201},
        {"cursor": "\ud800" * 76},
        {"cursor": 7},
    ],
)
def test_a_cursor_that_does_not_fit_is_a_problem(client: TestClient, change: dict[str, Any]) -> None:
    """An altered cursor, or one sent with another search, gets 422 and an explanation."""
    cursor = answer(client, BODY)["next_cursor"]
    content = json.dumps({**BODY, "cursor": cursor, **change})
    response = client.post("/v1/search", content=content, headers={"Content-Type": "application/json"})
    assert (422, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert "cursor" in response.json()["detail"]


class Forgetful:
    """An approximate index that overlooks other rows for each number of hits, as the worst case."""

    def __init__(self, index: VectorIndex, n_rows: int) -> None:
        self._index, self._n_rows = index, n_rows

    def search(
        self, queries: np.ndarray, k: int, *, together: bool = False, allowed: np.ndarray | None = None
    ) -> Hits:
        """Search the rows not overlooked, or all rows if all are requested."""
        kept = np.random.default_rng(k).random(self._n_rows) < 0.7
        kept = kept if allowed is None else kept & allowed
        exhausted = k >= np.count_nonzero(kept)
        return self._index.search(queries, k, together=together, allowed=allowed if exhausted else kept)

    def save(self, path: Path) -> None:
        """Save nothing."""


def test_an_approximate_list_is_stable_however_far_it_is_read(many_data: Path) -> None:
    """Each longer list begins with every shorter one, even if the index finds other rows."""
    snapshot = open_snapshot(many_data)
    snapshot.__dict__["index"] = Forgetful(snapshot.index, snapshot.n_rows)
    allowed = np.ones(len(snapshot), dtype=bool)
    # So many sentences that not all distances are computed at once.
    query = np.tile(snapshot.vectors(5), (ALL_AT_ONCE // snapshot.n_rows + 1, 1))
    parts = [Part(query, tuple(range(len(query))))]
    lists = [
        list_candidates(snapshot, parts, n_papers=n, first=50, allowed=allowed)
        for n in (50, 51, 200, 700, 1_200, N_PAPERS, 9_999)
    ]
    for shorter, longer in itertools.pairwise(lists):
        assert shorter == longer[: len(shorter)]
    assert list(range(N_PAPERS)) == sorted(lists[-1])
    plain = find_candidates(snapshot, query, n_papers=1_200, allowed=allowed)
    assert lists[4] != [candidate.position for candidate in plain]


@pytest.mark.parametrize("n_excluded", [1, 32, 33, 300])
def test_few_papers_left_out_are_left_out_like_many(many_data: Path, n_excluded: int) -> None:
    """Dropping excluded papers from the hits gives the same list as excluding them in the index."""
    snapshot: Snapshot = open_snapshot(many_data)
    query = snapshot.vectors(5)
    everything = find_candidates(snapshot, query, n_papers=N_PAPERS, allowed=np.ones(N_PAPERS, dtype=bool))
    allowed = np.ones(N_PAPERS, dtype=bool)
    allowed[[candidate.position for candidate in everything[:n_excluded]]] = False
    found = find_candidates(snapshot, query, n_papers=200, allowed=allowed)
    assert [c.score for c in everything[n_excluded : n_excluded + 200]] == [c.score for c in found]
    assert not {c.position for c in everything[:n_excluded]} & {c.position for c in found}


@pytest.mark.parametrize("strategy", ["any", "all"])
def test_recommendations_are_read_page_by_page(client: TestClient, strategy: str) -> None:
    """Pages of any size form one list of every paper except the seeds and negatives, each once."""
    seeds = [{"paper_id": "many/17"}, {"paper_id": "many/400"}]
    body: dict[str, Any] = {
        "seeds": seeds,
        "negatives": [{"paper_id": "many/9"}],
        "strategy": strategy,
        "include": [],
    }
    read: list[str] = []
    cursor, limit, warnings = None, 30, ["none yet"]
    first = client.post("/v1/recommendations", json={**body, "limit": 30}).json()
    while cursor is not None or not read:
        page = client.post(
            "/v1/recommendations", json={**body, "limit": limit, **({"cursor": cursor} if cursor else {})}
        ).json()
        read += [result["paper"]["id"] for result in page["results"]]
        cursor, limit, warnings = page["next_cursor"], 100, page["warnings"]
    assert [result["paper"]["id"] for result in first["results"]] == read[:30]
    assert (N_PAPERS - 3, N_PAPERS - 3) == (len(read), len(set(read)))
    assert {"many/17", "many/400", "many/9"}.isdisjoint(read)
    assert [] == warnings


def test_a_cursor_of_another_kind_of_list_is_refused(client: TestClient) -> None:
    """A cursor of a search is refused by recommendations, and the reverse."""
    body = {"seeds": [{"paper_id": "many/17"}]}
    of_search = answer(client, BODY)["next_cursor"]
    refused = client.post("/v1/recommendations", json={**body, "cursor": of_search})
    assert (422, "urn:akin:problem:cursor") == (refused.status_code, refused.json()["type"])
    of_list = client.post("/v1/recommendations", json=body).json()["next_cursor"]
    assert 422 == client.post("/v1/search", json={**BODY, "cursor": of_list}).status_code
