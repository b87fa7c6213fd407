"""A Redis client with short timeouts that works without Redis when it is unavailable."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar, cast

from models.errors import InputError
from models.extras import needed
from service.degradation import Degradation, Outage

if TYPE_CHECKING:
    from redis import ConnectionPool, Redis

PREFIX: Final = "akin:1:"  # of every key, counted up when values come to mean something else
TIMEOUT_S: Final = (
    0.05  # for one read from, or connection to, a server in the same network: a hundred times its usual
)
# For a call in all: names that do not resolve and answers that trickle in are no matter of single reads.
_MOST_S: Final = 0.25
_THREADS: Final = 8
# After so many failures in a row it is away: one may be a busy moment.
_MOST_FAILURES: Final = 3
AWAY: Final = Degradation(
    "redis",
    "Redis does not respond: each process caches answers and counts requests by itself.",
    "Make Redis reachable again; its error is in the log.",
)
REFUSES: Final = Degradation(
    "redis",
    "Redis refuses to store anything: each process caches answers and counts requests by itself.",
    "Give Akin a Redis that is no replica, has memory and disk left and the replicas it needs, and a user "
    "that may write; its error is in the log.",
)
# How answers begin that refuse all that is written and have no class of their own: it could not save its
# memory to disk, or has too few replicas.
_REFUSED_IN_WORDS: Final = frozenset({"MISCONF", "NOREPLICAS"})
# What is written to find out whether it stores again.
_PROBE: Final = f"{PREFIX}probe"
_Answer = TypeVar("_Answer")


class RedisStore:
    """A client of the Redis at ``url`` that never raises for its absence; connects when first asked.

    While it is away one call in ``pause_s`` seconds finds out whether it still is. ``clock`` gives seconds
    that only ever rise. Raises InputError for a URL that is none, MissingPackageError.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        most_s: float = _MOST_S,
        pause_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_s = most_s
        self._pause_s = pause_s
        self._clock = clock
        self._n_failures = 0  # in a row
        self._not_before = 0.0
        self.outage = Outage(AWAY)
        self._client = redis_client(url, timeout_s=timeout_s)
        exceptions = import_module("redis.exceptions")
        self._faults = (exceptions.RedisError, OSError)  # TimeoutError is an OSError
        # It answered, if only to refuse (a key of another type): it is not away.
        self._refusals = exceptions.ResponseError
        # But this it does to all that is written.
        self._refuses = (
            exceptions.ReadOnlyError,
            exceptions.OutOfMemoryError,
            exceptions.NoPermissionError,
        )
        self._must_write = False
        # A thread of its own for each call: how long a name takes to resolve is not ours to bound.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="redis")
        self._lock = Lock()
        self.errors = 0

    @property
    def pool(self) -> "ConnectionPool":
        """Its connections, for libraries that talk to Redis themselves, inside ``ask``."""
        return self._client.connection_pool

    def get(self, key: str) -> bytes | None:
        """The value under a key; none where there is none, or no Redis."""
        return self.ask(lambda client: cast("bytes | None", client.get(key)), None)

    def put(self, key: str, value: bytes, *, keep_s: int) -> None:
        """Keeps a value for some seconds, if it can."""
        self.ask(lambda client: bool(client.set(key, value, ex=keep_s)), False)

    def ask(self, work: "Callable[[Redis], _Answer]", otherwise: _Answer) -> _Answer:
        """What ``work`` gets from the client, or ``otherwise`` where Redis does not respond in time."""
        if not self.may_ask():
            return otherwise
        future = self._threads.submit(self._done, work)
        try:
            answer = future.result(self._most_s)
        except self._faults as error:
            future.cancel()
            self._failed(error)
            return otherwise
        self._succeeded()
        return answer

    async def ask_aside(self, work: "Callable[[Redis], _Answer]", otherwise: _Answer) -> _Answer:
        """The same for the event loop, which goes on meanwhile."""
        if not self.may_ask():
            return otherwise
        future = self._threads.submit(self._done, work)
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(future), self._most_s)
        except self._faults as error:
            self._failed(error)
            return otherwise
        self._succeeded()
        return answer

    def close(self) -> None:
        """Closes the connections; asking again opens new ones."""
        self._client.close()
        self.pool.disconnect()

    def may_ask(self) -> bool:
        """Whether Redis is asked now: always, but in an outage once in a while, by one of all threads."""
        if self.outage.problem is None:
            return True
        with self._lock:
            may = self._clock() >= self._not_before
            if may:  # the others do without until it is known what comes of it
                self._not_before = self._clock() + self._pause_s
            return may

    def _done(self, work: "Callable[[Redis], _Answer]") -> _Answer:
        """What ``work`` gets; after a refusal only where something can be stored again."""
        if self._must_write:
            self._client.set(_PROBE, b"", ex=1)
        return work(self._client)

    def _succeeded(self) -> None:
        self._n_failures = 0
        self._must_write = False
        self.outage.end()

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.errors += 1
            self._n_failures += 1
            self._not_before = self._clock() + self._pause_s
        if (refused := self._refused(error)) is not None:
            self._must_write = True
            self.outage.begin(refused, REFUSES)
        elif isinstance(error, self._refusals):
            self._succeeded()
        elif self._n_failures >= _MOST_FAILURES and self.outage.problem is None:
            self.outage.begin(type(error).__name__)

    def _refused(self, error: Exception) -> str | None:
        """The name of an error with which Redis refuses all that is written; ``None`` for any other."""
        word = str(error).partition(" ")[0]
        if isinstance(error, self._refusals) and word in _REFUSED_IN_WORDS:
            return word
        return type(error).__name__ if isinstance(error, self._refuses) else None


def redis_client(url: str, *, timeout_s: float) -> "Redis":
    """A client that asks once and waits ``timeout_s``; it connects when first asked.

    Raises InputError for a URL that is none, MissingPackageError.
    """
    with needed("AKIN_REDIS_URL", extra="redis"):
        from redis import Redis  # noqa: PLC0415 - optional
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415
    try:
        return Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(
                NoBackoff(), 0
            ),  # the library's own would wait for seconds; who asks again asks later
        )
    except ValueError as error:  # never the URL itself: it may hold a password
        raise InputError(
            "AKIN_REDIS_URL cannot be used: expected redis://HOST:PORT/NUMBER, rediss://... or unix://PATH"
        ) from error
