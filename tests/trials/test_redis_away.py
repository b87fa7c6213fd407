"""Redis killed, paused and emptied while clients search: no search fails, and little time is lost."""

import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Self

import httpx
import numpy as np
import pytest
import structlog

from indexer.snapshot import open_snapshot
from service.app import create_app
from service.breaker import Breaker, BreakerState
from service.cache import Cache
from service.redis_store import RedisStore
from service.search import SearchEngine
from service.settings import Settings
from tests.support.servers.loopback import served
from tests.support.servers.redis import RedisServer

N_CLIENTS = 4
PHASE_S = 0.8
log = structlog.get_logger(__name__)


class Load:
    """Clients that search one after the other, half of the time for what was asked before."""

    def __init__(self, address: str, ids: list[str]) -> None:
        self._address = address
        self._ids = ids
        self._numbers = count()
        self._ended = threading.Event()
        self.answers: list[tuple[float, float, int]] = []
        self._threads = [threading.Thread(target=self._ask) for _ in range(N_CLIENTS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._address, timeout=10) as client:
            while not self._ended.is_set():
                number = next(self._numbers)
                question = number // 16 * 8 + number % 8  # eight, the same eight again, and so on
                lap, place = divmod(question, len(self._ids))
                body = {"query": {"paper_id": self._ids[place]}, "limit": 1 + lap % 100}
                started = time.monotonic()
                try:
                    status = client.post("/v1/search", json=body).status_code
                except httpx.HTTPError:
                    status = 0
                self.answers.append((started, time.monotonic() - started, status))

    def during(self, start: float, end: float) -> list[float]:
        """Seconds that each answer to a question of that time took."""
        return [took_s for asked, took_s, _ in self.answers if start <= asked < end]


@pytest.fixture
def cache(redis_server: RedisServer) -> Iterator[Cache]:
    """A cache with nothing in front of Redis; the breaker tries again soon enough for a test."""
    # More patient than by default: this machine may have other things to do.
    store = RedisStore(redis_server.url, timeout_s=0.2, most_s=1.0, breaker=Breaker(open_s=0.3))
    cache = Cache(memory_mib=0, redis=store, key=b"k" * 32)
    yield cache
    cache.close()


def test_no_search_fails_whatever_becomes_of_redis(
    hashed_data: Path,
    redis_server: RedisServer,
    cache: Cache,
) -> None:
    """Paused, emptied, killed and started again under load: every search answered, rates counted on.

    While it is away an answer takes at most what one try takes longer, and once back it serves again.
    """
    snapshot = open_snapshot(hashed_data)
    engine = SearchEngine(snapshot, never, n_candidates=50)  # type: ignore[arg-type]  # no paper is pasted
    app = create_app(Settings(data=hashed_data, rate=1_000_000, cache_mib=0), engine, cache=cache)
    ids = [snapshot.paper(position).id for position in range(len(snapshot))]
    phases = {
        "there": lambda: None,
        "paused": redis_server.pause,
        "resumed": redis_server.resume,
        "emptied": redis_server.flush,
        "killed": redis_server.stop,
        "started": redis_server.start,
    }
    times, hits, states = {}, {}, {}
    with served(app) as address, Load(address, ids) as load:
        for name, begin in phases.items():
            begin()
            before, start = cache.stats().redis_hits, time.monotonic()
            n_answered = len(load.answers)
            while time.monotonic() < start + PHASE_S or len(load.answers) < n_answered + 60:
                time.sleep(0.01)
            times[name], hits[name] = (start, time.monotonic()), cache.stats().redis_hits - before
            states[name] = cache.stats().breaker
    for name, span in times.items():  # for whoever wants the figures: pytest -rP
        took_ms = np.array(load.during(*span)) * 1000
        median, slowest = float(np.median(took_ms)), float(took_ms.max())
        log.info(name, searches=len(took_ms), median_ms=round(median, 1), slowest_ms=round(slowest, 1))
    assert {200} == {status for _, _, status in load.answers}
    assert [] == [name for name in phases if len(load.during(*times[name])) < 10]
    # Those under way when a phase began may still have had their answer from the one before.
    assert [True, False, True, True, False, True] == [hits[name] > N_CLIENTS for name in phases]
    assert BreakerState.CLOSED not in {states["paused"], states["killed"]}
    assert {BreakerState.CLOSED} == {states["resumed"], states["started"]}
    assert (0, False) == (cache.stats().redis_refused, cache.degraded)
    for away in ("paused", "killed"):
        start, end = times[away]
        took = load.during(start + PHASE_S / 2, end)
        assert np.median(took) < 2 * np.median(load.during(*times["there"])) + 0.01


def never() -> None:
    """Loads no encoder."""
    raise AssertionError("no search here pastes a paper")
