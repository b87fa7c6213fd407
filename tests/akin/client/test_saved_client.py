"""Tests of saved queries in the Python clients: saving, reading, marking as seen, and feeds."""

import inspect
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import akin
from akin.client.requests import feed_address
from indexer.snapshot.opening import open_snapshot
from models.errors import ServiceError
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import Timings
from tests.support.annotators import hashing_annotator
from tests.support.servers.loopback import served

OFTEN = Timings(follow_every_s=0.02, publish_every_s=0.05)
WHALES = {"id": "w/1", "title": "Whales", "abstract": ["Whales sing.", "We count whales."]}

ESTATES = {"id": "e/1", "title": "Zyx", "abstract": ["Zyx qwv.", "Plm okn ijb."]}


@pytest.fixture
def address(hashed_data: Path, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a service over a copy of the demo collection, which accepts papers."""
    data = Path(shutil.copytree(hashed_data, tmp_path / "data"))
    engine = SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)
    app = create_app(Settings(data=data, keyless="write", device="cpu"), engine, timings=OFTEN)
    with served(app) as address:
        yield address


def test_a_query_is_kept_and_its_news_are_listed_once(address: str) -> None:
    """A query is saved, listed, read, marked, followed and deleted, and every step can be repeated."""
    with akin.Client(address) as client:
        saved = client.save_query("songs", search={"text": "whales sing", "limit": 5})
        assert saved == client.save_query("songs", search={"text": "whales sing", "limit": 5})
        assert ({"query": {"text": "whales sing"}, "limit": 5}, None) == (saved.search, saved.recommendations)
        likes = client.save_query("likes", recommendations={"seeds": ["demo:p03-m07"], "negatives": ["w/1"]})
        assert {"seeds": ["demo:p03-m07"], "negatives": ["w/1"]} == likes.recommendations
        assert ["likes", "songs"] == [each.name for each in client.saved_queries()]
        assert saved == client.saved_query(saved.id)
        assert ((), "nothing_added") == (
            client.new_papers(saved.id).results,
            client.new_papers(saved.id).reason,
        )
        client.add([WHALES, ESTATES], wait=True)  # type: ignore[list-item]  # mappings of these keys
        assert 2 == len(client.new_papers(saved.id, weak=True).results)
        assert 1 == len(client.new_papers(saved.id, weak=True, limit=1).results)
        news = client.new_papers(saved.id)
        assert (["w/1"], 2) == ([each.paper.id for each in news.results], news.added)
        assert "Whales sing." in [text for text, _ in news.results[0].matching()]
        assert "1 paper similar to “songs”" in (news._repr_html_() or "")
        feed = client.open_feed(saved.id)
        assert feed.startswith(f"{address}/v1/feeds/")
        below = feed_address(httpx.URL("https://h/akin/"), replace(saved, feed="/v1/feeds/x"))
        assert "https://h/akin/v1/feeds/x" == below
        assert "<title>Whales</title>" in httpx.get(feed).text
        for _ in range(2):
            assert news.seen_up_to == client.mark_seen(saved.id, news.seen_up_to).seen_up_to
            client.close_feed(saved.id)
        assert 404 == httpx.get(feed).status_code
        assert not client.new_papers(saved.id, weak=True).added
        for _ in range(2):
            client.delete_query(saved.id)
        with pytest.raises(ServiceError, match="no such saved query") as gone:
            client.saved_query(saved.id)
        assert 404 == gone.value.status


def test_the_same_without_blocking(address: str) -> None:
    """AsyncClient saves, reads, marks, follows and deletes queries like Client."""

    async def ask() -> dict[str, Any]:
        async with akin.AsyncClient(address) as client:
            saved = await client.save_query("songs", search={"text": "whales sing"})
            await client.add([WHALES], wait=True)  # type: ignore[list-item]  # a mapping of these keys
            news = await client.new_papers(saved.id, weak=True)
            seen = await client.mark_seen(saved.id, news.seen_up_to)
            feed = await client.open_feed(saved.id)
            found = {
                "ids": [each.paper.id for each in news.results],
                "same": saved.search == (await client.saved_query(saved.id)).search,
                "names": [each.name for each in await client.saved_queries()],
                "seen": seen.seen_up_to == news.seen_up_to,
                "feed": httpx.get(feed).status_code,
            }
            await client.close_feed(saved.id)
            await client.delete_query(saved.id)
            return {**found, "left": await client.saved_queries()}

    expected = {"ids": ["w/1"], "same": True, "names": ["songs"], "seen": True, "feed": 200, "left": ()}
    assert expected == anyio.run(ask)


def test_both_clients_take_the_same() -> None:
    """Client and AsyncClient have the same methods with the same parameters."""

    def methods(client: type) -> dict[str, list[str]]:
        found = inspect.getmembers(client, inspect.isfunction)
        return {
            name.removeprefix("a") if name == "aclose" else name: [*inspect.signature(method).parameters]
            for name, method in found
            if not name.startswith("_")
        }

    assert methods(akin.Client) == methods(akin.AsyncClient)
