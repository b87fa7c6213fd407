"""Tests of Redis killed, paused and emptied under load: no search fails, and few wait for Redis."""

import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Self

import httpx
import pytest

from indexer.snapshot.opening import open_snapshot
from service.app import create_app
from service.cache.redis import RedisStore
from service.cache.store import Cache
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.servers.loopback import served
from tests.support.servers.patience import soon
from tests.support.servers.redis import RedisServer

N_CLIENTS = 4
N_ANSWERS = 40
PHASE_S = 0.1  # or longer, until there are N_ANSWERS
AWAY = ("paused", "killed")
SERVING = ("there", "resumed", "started")


class Load:
    """Clients that search one after the other, half of the time with repeated queries."""

    def __init__(self, address: str, ids: list[str]) -> None:
        self._address = address
        self._ids = ids
        self._numbers = count()
        self._ended = threading.Event()
        self.statuses: list[int] = []
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
        with httpx.Client(base_url=self._address, timeout=60) as client:
            while not self._ended.is_set():
                number = next(self._numbers)
                question = number // 16 * 8 + number % 8  # eight, the same eight again, and so on
                lap, place = divmod(question, len(self._ids))
                body = {"query": {"paper_id": self._ids[place]}, "limit": 1 + lap % 100}
                try:
                    status = client.post("/v1/search", json=body).status_code
                except httpx.HTTPError:
                    status = 0
                self.statuses.append(status)


class Clock:
    """A clock that stands still while ``stopped_at`` is set."""

    stopped_at: float | None = None

    def __call__(self) -> float:
        """Return the time in seconds."""
        return time.monotonic() if self.stopped_at is None else self.stopped_at


@pytest.fixture
def clock() -> Clock:
    """Return the clock that decides when Redis is tried again."""
    return Clock()


@pytest.fixture
def cache(redis_server: RedisServer, clock: Clock) -> Iterator[Cache]:
    """Yield a cache with only Redis, which is tried again quickly."""
    # More patient than the default, as this machine may be busy.
    store = RedisStore(redis_server.url, timeout_s=0.2, most_s=1.0, pause_s=0.3, clock=clock)
    cache = Cache(memory_mib=0, redis=store, key=b"k" * 32)
    yield cache
    cache.close()


def test_no_search_fails_whatever_becomes_of_redis(
    hashed_data: Path,
    redis_server: RedisServer,
    cache: Cache,
    clock: Clock,
) -> None:
    """Every search is answered while Redis is paused, emptied, killed and restarted under load.

    While Redis is away only the first few searches try it; once it is back it is used again.
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
    hits, errors, degraded = {}, {}, {}
    with served(app) as address, Load(address, ids) as load:
        for name, begin in phases.items():
            clock.stopped_at = time.monotonic() if name in AWAY else None  # no time for another try
            n_errors = cache.stats().redis_errors  # a server fails calls as it ends
            begin()
            before, start, n_answered = cache.stats(), time.monotonic(), len(load.statuses)
            while time.monotonic() < start + PHASE_S or len(load.statuses) < n_answered + N_ANSWERS:
                time.sleep(0.01)
            if name in SERVING:  # it is tried again after a pause
                soon(lambda: cache.stats().redis_hits > before.redis_hits + N_CLIENTS)  # noqa: B023 - called at once
            after = cache.stats()
            hits[name] = after.redis_hits - before.redis_hits
            errors[name] = after.redis_errors - n_errors
            degraded[name] = bool(cache.degradations())
    assert {200} == set(load.statuses)
    # Requests from before a phase may still be answered by the state before it.
    assert [True, False, True, True, False, True] == [hits[name] > N_CLIENTS for name in phases]
    assert [True, True] == [degraded[name] for name in AWAY]
    assert [False, False] == [degraded["resumed"], degraded["started"]]
    assert (0, []) == (cache.stats().redis_refused, cache.degradations())
    # After three failures Redis is not tried; requests already under way fail too.
    assert [] == [name for name in AWAY if not 3 <= errors[name] <= 3 + N_CLIENTS]


def never() -> None:
    """Fail, as no encoder may be loaded."""
    raise AssertionError("no search here pastes a paper")
