"""Tests of the cache's parts: memory bounds, single flight, checked values, and a Redis that is down."""

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
import structlog
from redis import Redis
from structlog.testing import capture_logs

from models.errors import DeadlineError, InputError, MissingPackageError, PaperNotFoundError
from service.cache.redis import REDIS_REFUSES_WRITES, RedisStore
from service.cache.single_flight import Flights
from service.cache.store import TTL_S, Cache, open_cache
from service.context import Deadline, set_deadline
from service.settings import Settings
from tests.support.servers.patience import soon
from tests.support.servers.redis import RedisServer

KEY = b"k" * 32


def never() -> bytes:
    """Fail, because the value is kept and need not be made."""
    raise AssertionError("the value is kept and need not be made")


def patient(server: RedisServer, **given: object) -> RedisStore:
    """Return a store with timeouts so long that a busy machine does not run into them."""
    return RedisStore(server.url, timeout_s=5.0, most_s=5.0, **given)  # type: ignore[arg-type]  # keywords pass through


@contextmanager
def two_caches(server: RedisServer, *, other_key: bytes = KEY) -> Iterator[tuple[Cache, Cache]]:
    """Yield the caches of two processes over one Redis."""
    first = Cache(memory_mib=1, redis=patient(server), key=KEY)
    second = Cache(memory_mib=1, redis=patient(server), key=other_key)
    yield first, second
    first.close()
    second.close()


def test_memory_is_bounded_and_keeps_what_was_used_last() -> None:
    """Memory stays within its bound, and recently used values outlive others."""
    cache = Cache(memory_mib=1)
    for number in range(100):
        cache.value(str(number), lambda: b"v" * 70_000)
        cache.value("0", never)
        assert cache.stats().memory_bytes <= 1 << 20
    assert [b"v" * 70_000] * 2 == [cache.value(name, never) for name in ("0", "99")]
    assert b"anew" == cache.value("1", lambda: b"anew")
    for _ in range(2):  # as large as the bound, so too large together with its name
        assert 1 << 20 == len(cache.value("huge", lambda: b"v" * (1 << 20)))
    assert 100 + 1 + 2 == cache.stats().memory_misses
    assert b"anew" == cache.value("1", never)


def test_a_value_without_content_takes_room_too() -> None:
    """Empty values also count, so that their Python objects stay within the bound."""
    cache = Cache(memory_mib=1)
    for number in range(5_000):
        cache.value(str(number), bytes)
    assert (1 << 20) // 300 == cache.stats().memory_values


def run_together(n: int, call: Callable[[int], object]) -> list[object]:
    """Return the result or the type of the error of each of ``n`` concurrent calls."""

    def attempt(number: int) -> object:
        try:
            return call(number)
        except (DeadlineError, PaperNotFoundError) as error:
            return type(error)

    with ThreadPoolExecutor(n) as threads:
        return list(threads.map(attempt, range(n)))


def test_equal_values_requested_at_once_are_made_once() -> None:
    """If sixteen callers request a value at once, one makes it and all get it."""
    made, cache = [], Cache(memory_mib=1)

    def make() -> bytes:
        made.append(1)
        soon(lambda: cache.stats().joined == 15)
        return b"value"

    assert [b"value"] * 16 == run_together(16, lambda _: cache.value("name", make))
    assert (1, 15) == (len(made), cache.stats().joined)
    assert b"value" == cache.value("name", never)


def test_who_makes_it_may_be_given_up_and_another_takes_over() -> None:
    """If the first maker is abandoned midway, it alone fails; another caller makes the value for the rest."""
    flights, made, started = Flights(), [], threading.Event()

    def work(number: int) -> bytes:
        made.append(number)
        started.set()
        soon(lambda: flights.n_joined == (7 if len(made) == 1 else 7 + 6))
        if len(made) == 1:
            raise DeadlineError("gone")
        return b"value"

    def call(number: int) -> bytes:
        if number:
            started.wait()
        return flights.run("name", lambda: work(number))

    assert [DeadlineError, *[b"value"] * 7] == run_together(8, call)
    assert (0, 2) == (made[0], len(made))


def test_a_forked_process_waits_for_no_thread_of_the_other() -> None:
    """What was under way when a process forked is made anew in the child, whose threads do not make it."""
    flights: Flights[str, bytes] = Flights()
    begun, ended = threading.Event(), threading.Event()

    def work() -> bytes:
        begun.set()
        ended.wait()
        return b"value"

    with ThreadPoolExecutor(1) as threads:
        making = threads.submit(flights.run, "name", work)
        assert begun.wait(60)
        there = vars(flights).copy()
        flights.forget()
        assert b"anew" == flights.run("name", lambda: b"anew")
        vars(flights).update(there)
        ended.set()
        assert b"value" == making.result()


def test_what_cannot_be_answered_is_found_out_once() -> None:
    """All concurrent callers get the error of one attempt; the next call makes a new attempt."""
    flights, made = Flights(), []

    def work() -> bytes:
        made.append(1)
        soon(lambda: flights.n_joined == 7)
        raise PaperNotFoundError("none")

    assert [PaperNotFoundError] * 8 == run_together(8, lambda _: flights.run("name", work))
    assert 1 == len(made)
    assert b"there" == flights.run("name", lambda: b"there")


def test_who_waits_keeps_their_own_deadline() -> None:
    """A waiting caller whose deadline passes or whose client leaves gives up; the others get the value."""
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

    threading.Timer(0.3, gone.abandon).start()
    assert [b"value", DeadlineError, DeadlineError] == run_together(3, call)


def test_a_value_is_found_by_other_processes_and_after_a_restart(redis_server: RedisServer) -> None:
    """Another cache reads a value from Redis once and then keeps it in memory; in Redis it expires."""
    with two_caches(redis_server) as (first, second):
        assert b"value" == first.value("name", lambda: b"value")
        assert [b"value"] * 2 == [second.value("name", never) for _ in range(2)]
        stats = second.stats()
        assert (1, 0, 1) == (stats.redis_hits, stats.redis_misses, stats.memory_hits)
    with Redis.from_url(redis_server.url) as client:
        (key,) = client.keys()
        assert key.startswith(b"akin:1:")
        assert b"name" not in key
        assert 0 < client.ttl(key) <= TTL_S


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "longer", "another", "list"])
def test_a_damaged_or_foreign_value_is_a_miss(redis_server: RedisServer, damage: str) -> None:
    """A value in Redis that is not what was stored under its key is made again, never returned."""
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
        assert not second.degradations()


def test_services_with_other_secrets_share_nothing(redis_server: RedisServer) -> None:
    """Services with different secrets in one Redis neither find nor overwrite each other's values."""
    with two_caches(redis_server, other_key=b"o" * 32) as (first, second):
        first.value("name", lambda: b"first")
        assert b"second" == second.value("name", lambda: b"second")
        third = Cache(memory_mib=0, redis=first.redis, key=KEY)
        assert b"first" == third.value("name", never)


def test_large_values_are_made_and_not_kept(redis_server: RedisServer) -> None:
    """A value over a MiB is returned and kept nowhere."""
    with two_caches(redis_server) as (first, _), Redis.from_url(redis_server.url) as client:
        assert 2 << 20 == len(first.value("name", lambda: b"v" * (2 << 20)))
        assert ([], 0) == (client.keys(), first.stats().memory_values)


def test_a_paused_redis_costs_little_and_is_left_alone_until_it_is_back(
    redis_server: RedisServer, log_left_alone: None
) -> None:
    """After three failed calls Redis is only tried every five seconds, until a try succeeds."""
    now = [0.0]
    store = RedisStore(redis_server.url, timeout_s=0.5, clock=lambda: now[0])
    cache = Cache(memory_mib=0, redis=store, key=KEY)

    def ask(n: int) -> tuple[int, int]:
        """Request ``n`` values; return the number of Redis errors so far and of outages reported."""
        assert [b"value"] * n == [cache.value("name", lambda: b"value") for _ in range(n)]
        return cache.stats().redis_errors, len(cache.degradations())

    structlog.reset_defaults()
    with capture_logs() as logged:
        redis_server.pause()
        assert (2, 0) == ask(1)  # one read and one write
        assert (3, 1) == ask(50)
        now[0] = 4.9
        assert (3, 1) == ask(10)
        now[0] = 5.0
        assert (4, 1) == ask(10)
        redis_server.resume()
        redis_server.flush()  # answers again
        assert (4, 1) == ask(10)
        now[0] = 10.0
        assert (4, 0) == ask(1)
        assert b"value" == cache.value("name", never)
    assert [("failed", "redis"), ("works_again", "redis")] == [
        (e["event"], e["part"]) for e in logged if e.get("part") == "redis"
    ]
    cache.close()


def test_a_try_that_nothing_is_heard_of_is_followed_by_another() -> None:
    """A Redis that is down is tried again even if the previous try never ended."""
    now = [0.0]
    store = RedisStore("redis://127.0.0.1:9", clock=lambda: now[0])
    for _ in range(3):
        store.get("name")
    now[0] = 5.0
    assert [True, False] == [store.may_ask() for _ in range(2)]
    now[0] = 10.0
    assert store.may_ask()
    store.close()


def test_failures_that_are_not_in_a_row_are_no_outage(redis_server: RedisServer) -> None:
    """Two failures, a success and two more failures are no outage; a third failure in a row is."""
    store = patient(redis_server)

    def fail(_: Redis) -> None:
        raise ConnectionError

    for work in (fail, fail, Redis.ping, fail, fail):
        store.ask(work, None)
    assert (4, []) == (store.errors, store.outage.degradations())
    store.ask(fail, None)
    assert ["redis"] == [each.part for each in store.outage.degradations()]
    store.close()


@pytest.mark.parametrize(
    ("refuses", "accepts", "error"),
    [
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "ReadOnlyError"),
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "OutOfMemoryError"),
        (
            ("ACL", "SETUSER", "default", "-set"),
            ("ACL", "SETUSER", "default", "+set"),
            "NoPermissionError",
        ),
        (
            ("CONFIG", "SET", "min-replicas-to-write", "1"),
            ("CONFIG", "SET", "min-replicas-to-write", "0"),
            "NOREPLICAS",
        ),
    ],
    ids=["replica", "memory", "permission", "replicas"],
)
def test_a_redis_that_stores_nothing_is_left_alone_until_it_does(
    redis_server: RedisServer, refuses: tuple[str, ...], accepts: tuple[str, ...], error: str
) -> None:
    """A Redis that refuses to store counts as down, even for reads, until it stores again."""
    now = [0.0]
    store = patient(redis_server, clock=lambda: now[0])
    with Redis.from_url(redis_server.url) as client:
        store.put("name", b"value", keep_s=60)
        client.execute_command(*refuses)  # type: ignore[no-untyped-call]  # the library's
        try:
            assert b"value" == store.get("name")
            store.put("name", b"other", keep_s=60)
            assert (error, [REDIS_REFUSES_WRITES]) == (store.outage.problem, store.outage.degradations())
            for now[0] in (5.0, 10.0):
                assert store.get("name") is None
                assert [REDIS_REFUSES_WRITES] == store.outage.degradations()
        finally:
            client.execute_command(*accepts)  # type: ignore[no-untyped-call]  # the library's
        now[0] = 15.0
        assert b"value" == store.get("name")
        assert [] == store.outage.degradations()
        store.put("name", b"other", keep_s=60)
        assert b"other" == store.get("name")
    store.close()


def test_a_redis_that_cannot_save_is_left_alone(redis_server: RedisServer, log_left_alone: None) -> None:
    """A Redis that cannot save is an outage, shown and logged; a key of the wrong type is only an error."""
    structlog.reset_defaults()
    store = patient(redis_server)
    with capture_logs() as logged, Redis.from_url(redis_server.url) as client, redis_server.unable_to_save():
        client.rpush("list", b"value")
        client.config_set("save", "3600 1")
        try:
            client.bgsave()
            soon(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
            assert store.get("list") is None
            assert (None, 1) == (store.outage.problem, store.errors)
            store.put("name", b"value", keep_s=60)
            assert ("MISCONF", [REDIS_REFUSES_WRITES]) == (store.outage.problem, store.outage.degradations())
        finally:
            client.config_set("save", "")
    assert [("failed", "redis", "MISCONF")] == [(e["event"], e["part"], e["error"]) for e in logged]
    store.close()


def test_connections_that_a_restart_cut_are_no_failure(redis_server: RedisServer) -> None:
    """A Redis that was killed and restarted between two calls is used at once without an error."""
    store = patient(redis_server)
    assert store.get("name") is None
    redis_server.stop()
    redis_server.start()
    store.put("name", b"value", keep_s=60)
    assert (b"value", 0) == (store.get("name"), store.errors)
    store.close()


def test_an_answer_without_an_end_is_given_up() -> None:
    """An answer that trickles in, with each byte in time for its read, is given up as a whole."""
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
    """The error for an invalid URL names the setting but not the password in it."""
    with pytest.raises(InputError, match="AKIN_REDIS_URL") as refused:
        open_cache(Settings(redis_url="http://me:hush@redis", secret="s" * 32))  # type: ignore[arg-type]  # converted
    assert "hush" not in str(refused.value)


def test_without_the_client_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the redis package, asking for a Redis raises an error with the install command."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingPackageError, match=r"akin\[redis\]"):
        RedisStore("redis://127.0.0.1")
