"""The cache's parts: bounds of memory, single flight, values that prove themselves, a Redis that is away."""

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from redis import Redis

from models.errors import DeadlineError, InputError, MissingPackageError, PaperNotFoundError
from service.cache.breaker import Breaker, BreakerState
from service.cache.lru import RecentValues
from service.cache.redis import RedisStore
from service.cache.single_flight import Flights
from service.cache.store import KEEP_S, Cache, open_cache
from service.context import Deadline, set_deadline
from service.settings import Settings
from tests.support.servers.patience import soon
from tests.support.servers.redis import RedisServer

KEY = b"k" * 32


def never() -> bytes:
    """Makes no value."""
    raise AssertionError("the value is kept and need not be made")


def patient(server: RedisServer, **given: object) -> RedisStore:
    """A store that a machine busy with other things does not make give up."""
    return RedisStore(server.url, timeout_s=5.0, most_s=5.0, **given)  # type: ignore[arg-type]  # keywords pass through


@contextmanager
def two_caches(server: RedisServer, *, other_key: bytes = KEY) -> Iterator[tuple[Cache, Cache]]:
    """Two processes' caches over one Redis."""
    first = Cache(memory_mib=1, redis=patient(server), key=KEY)
    second = Cache(memory_mib=1, redis=patient(server), key=other_key)
    yield first, second
    first.close()
    second.close()


def test_memory_is_bounded_and_keeps_what_was_used_last() -> None:
    """However much is put in, the bytes stay within the bound; what was just used outlives what was not."""
    values = RecentValues(10_000)
    for number in range(1_000):
        values.put(str(number), b"v" * 700)
        values.get("0")
        assert values.n_bytes <= 10_000
    assert (b"v" * 700, None, b"v" * 700) == (values.get("0"), values.get("1"), values.get("999"))
    values.put("0", b"")
    values.put("huge", b"v" * 10_001)
    assert (b"", None) == (values.get("0"), values.get("huge"))
    assert len(values) * 300 <= values.n_bytes <= 10_000


def run_together(n: int, call: Callable[[int], object]) -> list[object]:
    """What each of ``n`` calls at once gives or raises."""

    def attempt(number: int) -> object:
        try:
            return call(number)
        except (DeadlineError, PaperNotFoundError) as error:
            return type(error)

    with ThreadPoolExecutor(n) as threads:
        return list(threads.map(attempt, range(n)))


def test_equal_values_asked_for_at_once_are_made_once() -> None:
    """Of sixteen who ask, one makes the value and all get it."""
    made, cache = [], Cache(memory_mib=1)

    def make() -> bytes:
        made.append(1)
        time.sleep(0.2)
        return b"value"

    assert [b"value"] * 16 == run_together(16, lambda _: cache.value("name", make))
    assert (1, 15) == (len(made), cache.stats().joined)
    assert b"value" == cache.value("name", never)


def test_who_makes_it_may_be_given_up_and_another_takes_over() -> None:
    """The first is abandoned midway: it alone fails, the value is made once more, and the rest get it."""
    flights, made, started = Flights(), [], threading.Event()

    def work(number: int) -> bytes:
        made.append(number)
        started.set()
        time.sleep(0.2)
        if len(made) == 1:
            raise DeadlineError("gone")
        return b"value"

    def call(number: int) -> bytes:
        if number:
            started.wait()
        return flights.run("name", lambda: work(number))

    assert [DeadlineError, *[b"value"] * 7] == run_together(8, call)
    assert (0, 2) == (made[0], len(made))


def test_what_cannot_be_answered_is_found_out_once() -> None:
    """A paper that is not there is told to all who asked at once, and asking again asks anew."""
    flights, made = Flights(), []

    def work() -> bytes:
        made.append(1)
        time.sleep(0.2)
        raise PaperNotFoundError("none")

    assert [PaperNotFoundError] * 8 == run_together(8, lambda _: flights.run("name", work))
    assert 1 == len(made)
    assert b"there" == flights.run("name", lambda: b"there")


def test_who_waits_keeps_their_own_deadline() -> None:
    """One whose time is up, or whose client goes, leaves before the value is there; the others get it."""
    flights, begun, left = Flights(), threading.Event(), []

    def work() -> bytes:
        begun.set()
        soon(lambda: len(left) == 2)
        return b"value"

    async def deadlines() -> tuple[Deadline, Deadline]:
        return Deadline(0.4), Deadline(60.0)

    short, gone = asyncio.run(deadlines())

    def call(number: int) -> bytes:
        if number == 0:
            return flights.run("name", work)
        assert begun.wait(60)
        set_deadline(short if number == 1 else gone)
        try:
            return flights.run("name", never)
        finally:
            left.append(number)

    def abandon() -> None:
        gone._abandoned = True  # as the event loop does

    threading.Timer(0.3, abandon).start()
    assert [b"value", DeadlineError, DeadlineError] == run_together(3, call)


def test_a_value_is_found_by_other_processes_and_after_a_restart(redis_server: RedisServer) -> None:
    """What one cache made another reads from Redis, once, and keeps in memory; it expires in Redis."""
    with two_caches(redis_server) as (first, second):
        assert b"value" == first.value("name", lambda: b"value")
        assert [b"value"] * 2 == [second.value("name", never) for _ in range(2)]
        stats = second.stats()
        assert (1, 0, 1) == (stats.redis_hits, stats.redis_misses, stats.memory_hits)
    with Redis.from_url(redis_server.url) as client:
        (key,) = client.keys()
        assert key.startswith(b"akin:1:")
        assert b"name" not in key
        assert 0 < client.ttl(key) <= KEEP_S


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "longer", "another", "list"])
def test_a_damaged_or_foreign_value_is_a_miss(redis_server: RedisServer, damage: str) -> None:
    """Whatever stands under a value's key but the value itself is made anew, never returned."""
    with two_caches(redis_server) as (first, second), Redis.from_url(redis_server.url) as client:
        first.value("name", lambda: b"value")
        (key,) = client.keys()
        first.value("other", lambda: b"value of another")
        (other,) = set(client.keys()) - {key}
        kept = client.get(key)
        damaged = {
            "cut": kept[:-1],
            "flipped": kept[:-1] + bytes([kept[-1] ^ 1]),
            "emptied": b"",
            "longer": kept + b"x",
            "another": client.get(other),
            "list": None,
        }[damage]
        client.delete(key)
        client.lpush(key, b"x") if damaged is None else client.set(key, damaged)
        assert b"anew" == second.value("name", lambda: b"anew")
        assert not second.degraded


def test_services_with_other_secrets_share_nothing(redis_server: RedisServer) -> None:
    """In one Redis, a service neither finds nor overwrites what one with another secret keeps."""
    with two_caches(redis_server, other_key=b"o" * 32) as (first, second):
        first.value("name", lambda: b"first")
        assert b"second" == second.value("name", lambda: b"second")
        third = Cache(memory_mib=0, redis=first.redis, key=KEY)
        assert b"first" == third.value("name", never)


def test_large_values_are_made_and_not_kept(redis_server: RedisServer) -> None:
    """A value over a MiB is answered and leaves no trace."""
    with two_caches(redis_server) as (first, _), Redis.from_url(redis_server.url) as client:
        assert 2 << 20 == len(first.value("name", lambda: b"v" * (2 << 20)))
        assert ([], 0) == (client.keys(), first.stats().memory_values)


def test_a_paused_redis_costs_little_and_is_left_alone_until_it_is_back(redis_server: RedisServer) -> None:
    """Three calls ask it in vain, further ones do not ask; once back, one try finds it."""
    now = [0.0]
    store = RedisStore(redis_server.url, timeout_s=0.05, breaker=Breaker(clock=lambda: now[0]))
    cache = Cache(memory_mib=0, redis=store, key=KEY)
    redis_server.pause()
    assert [b"value"] * 50 == [cache.value("name", lambda: b"value") for _ in range(50)]
    assert (3, BreakerState.OPEN, True) == (cache.stats().redis_errors, cache.stats().breaker, cache.degraded)
    redis_server.resume()
    cache.value("name", lambda: b"value")
    assert cache.degraded
    now[0] = 5.0
    cache.value("name", lambda: b"value")
    assert (False, b"value") == (cache.degraded, cache.value("name", never))
    cache.close()


def test_connections_that_a_restart_cut_are_no_failure(redis_server: RedisServer) -> None:
    """A Redis that was killed and started again between two calls is found at once."""
    store = patient(redis_server)
    assert store.get("name") is None
    redis_server.stop()
    redis_server.start()
    store.put("name", b"value", keep_s=60)
    assert (b"value", 0) == (store.get("name"), store.errors)
    store.close()


def test_an_answer_without_an_end_is_given_up() -> None:
    """An answer that trickles in, a byte in time for every read, is given up as a whole."""
    given_up = threading.Event()

    def dribble(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            while not given_up.wait(0.02):
                connection.sendall(b"$")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=dribble, args=(listener,))
        thread.start()
        store = RedisStore(f"redis://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.5, most_s=0.1)
        assert store.get("name") is None
        given_up.set()
        assert 1 == store.errors
        thread.join()
        store.close()


def test_a_url_that_is_none_is_refused_without_being_shown() -> None:
    """The error names the setting and what is expected, and no password."""
    with pytest.raises(InputError, match="AKIN_REDIS_URL") as refused:
        open_cache(Settings(redis_url="http://me:hush@redis", secret="s" * 32))  # type: ignore[arg-type]  # converted
    assert "hush" not in str(refused.value)


def test_without_the_client_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis asked for without the package that speaks to it is an error with its remedy."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingPackageError, match=r"akin\[redis\]"):
        RedisStore("redis://127.0.0.1")
