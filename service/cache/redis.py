"""A Redis client with short timeouts, which carries on without Redis when it is unavailable."""

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

PREFIX: Final = "akin:1:"  # of every key; the number increases when the meaning of values changes
TIMEOUT_S: Final = (
    0.05  # for one read or connection to a server in the same network: a hundred times the usual time
)
# For a whole call: timeouts of single reads do not cover name resolution and answers that trickle in.
_MAX_CALL_S: Final = 0.25
_THREADS: Final = 8
# Redis counts as away after this many failures in a row: a single one may be a busy moment.
_MAX_FAILURES: Final = 3
REDIS_UNAVAILABLE: Final = Degradation(
    "redis",
    "Redis does not respond: each process caches answers and counts requests by itself.",
    "Make Redis reachable again; its error is in the log.",
)
REDIS_REFUSES_WRITES: Final = Degradation(
    "redis",
    "Redis refuses to store anything: each process caches answers and counts requests by itself.",
    "Give Akin a Redis that is no replica, has memory and disk left and the replicas it needs, and a user "
    "that may write; its error is in the log.",
)
# The first words of errors that refuse all writes and have no class of their own: Redis could not save its
# memory to disk, or has too few replicas.
_REFUSED_IN_WORDS: Final = frozenset({"MISCONF", "NOREPLICAS"})
# The key that is written to find out whether Redis stores values again.
_PROBE: Final = f"{PREFIX}probe"
_Answer = TypeVar("_Answer")


class RedisStore:
    """A client of the Redis at ``url`` that never raises if Redis is unavailable; connects on first use.

    While Redis is away, one call every ``pause_s`` seconds checks whether it is back. ``clock`` is monotonic,
    in seconds. Raises InputError for an invalid URL, MissingPackageError.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        most_s: float = _MAX_CALL_S,
        pause_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_s = most_s
        self._pause_s = pause_s
        self._clock = clock
        self._n_failures = 0  # in a row
        self._not_before = 0.0
        self.outage = Outage(REDIS_UNAVAILABLE)
        self._client = redis_client(url, timeout_s=timeout_s)
        exceptions = import_module("redis.exceptions")
        self._faults = (exceptions.RedisError, OSError)  # TimeoutError is an OSError
        # Redis answered, if only with a refusal (a key of another type): it is not away.
        self._refusals = exceptions.ResponseError
        # These errors, in contrast, refuse all writes.
        self._refuses = (
            exceptions.ReadOnlyError,
            exceptions.OutOfMemoryError,
            exceptions.NoPermissionError,
        )
        self._must_write = False
        # Each call has its own thread, since the time to resolve a host name cannot be limited.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="redis")
        self._lock = Lock()
        self.errors = 0

    @property
    def pool(self) -> "ConnectionPool":
        """The connections, for libraries that talk to Redis themselves, inside ``ask``."""
        return self._client.connection_pool

    def get(self, key: str) -> bytes | None:
        """Return the value of a key; ``None`` if there is no value, or no Redis."""
        return self.ask(lambda client: cast("bytes | None", client.get(key)), None)

    def put(self, key: str, value: bytes, *, keep_s: int) -> None:
        """Store a value for ``keep_s`` seconds, if Redis is available."""
        self.ask(lambda client: bool(client.set(key, value, ex=keep_s)), False)

    def ask(self, work: "Callable[[Redis], _Answer]", otherwise: _Answer) -> _Answer:
        """Return the result of ``work`` on the client, or ``otherwise`` if Redis fails or is too slow."""
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
        """Do the same as ``ask`` without blocking the event loop."""
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
        """Close the connections; the next call opens new ones."""
        self._client.close()
        self.pool.disconnect()

    def may_ask(self) -> bool:
        """Return whether to call Redis now: always, but in an outage only one thread once in ``pause_s``."""
        if self.outage.problem is None:
            return True
        with self._lock:
            may = self._clock() >= self._not_before
            if may:  # the other threads do without Redis until this call has ended
                self._not_before = self._clock() + self._pause_s
            return may

    def _done(self, work: "Callable[[Redis], _Answer]") -> _Answer:
        """Return the result of ``work``; after refused writes, only if a probe can be stored again."""
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
            self.outage.begin(refused, REDIS_REFUSES_WRITES)
        elif isinstance(error, self._refusals):
            self._succeeded()
        elif self._n_failures >= _MAX_FAILURES and self.outage.problem is None:
            self.outage.begin(type(error).__name__)

    def _refused(self, error: Exception) -> str | None:
        """Return the name of an error with which Redis refuses all writes; ``None`` for any other error."""
        word = str(error).partition(" ")[0]
        if isinstance(error, self._refusals) and word in _REFUSED_IN_WORDS:
            return word
        return type(error).__name__ if isinstance(error, self._refuses) else None


def redis_client(url: str, *, timeout_s: float) -> "Redis":
    """Return a client without retries that waits ``timeout_s``; it connects on first use.

    Raises InputError for an invalid URL, MissingPackageError.
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
            ),  # the library's default would wait for seconds; callers try again later
        )
    except ValueError as error:  # never the URL itself: it may hold a password
        raise InputError(
            "AKIN_REDIS_URL cannot be used: expected redis://HOST:PORT/NUMBER, rediss://... or unix://PATH"
        ) from error
