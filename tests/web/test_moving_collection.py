"""Tests of paging while the collection changes: later pages belong to the list of the first."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from service.search.engine import SearchEngine
from service.timings import Timings
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of

OFTEN = Timings(follow_every_s=0.02, publish_every_s=0.05)
MINE = {"id": "mine/1", "title": "Mine", "abstract": [f"Rivers flood town {i}." for i in range(9)]}


@pytest.fixture
def client(tmp_path: Path, hashing: Encoder) -> Iterator[TestClient]:
    """Yield a client of a service over some papers, which accepts others."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "c.jsonl", [*many_papers(30), MINE]), data, hashing)
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    with client_of(data, engine, timings=OFTEN, keyless="write", device="cpu", rate=0) as client:
        yield client


def next_of(page: str) -> str:
    """Return the address of the next page."""
    found = re.search(r'href="([^"]*cursor=[^"]*)"', page)
    assert found is not None
    return unescape(found[1])


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_the_next_page_is_of_the_paper_of_the_query(client: TestClient, change: str) -> None:
    """Later pages show the query's paper as on the first, even if it was replaced or deleted."""
    following = next_of(client.get("/", params={"paper": "mine/1", "n": 5}).text)
    before = client.get(following)
    assert (200, True) == (before.status_code, "Rivers flood town 8." in before.text)
    if change == "replaced":
        papers = [{**MINE, "abstract": ["Whales sing."]}]
        assert 200 == client.post("/v1/papers?wait=true", json={"papers": papers}).status_code
    else:
        assert 204 == client.delete("/v1/papers/mine/1").status_code
    rank = re.search(r'id="result-(\d+)"', before.text)
    assert rank is not None
    for address in (following, f"{following}&open={rank[1]}"):
        page = client.get(address)
        assert (200, True) == (page.status_code, "Rivers flood town 8." in page.text)
    assert 200 == client.get(following.replace("/?", "/results.csv?")).status_code
