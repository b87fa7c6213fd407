"""The cache: values in this process and, if there is one, in Redis; equal values are made once.

The service works without it: anything unavailable, slow, full, damaged or foreign is a miss.
"""

import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Final

from cachetools import LRUCache

from service.cache.redis import PREFIX, RedisStore
from service.cache.single_flight import Flights
from service.degradation import Degradation
from service.secret import read_secret
from service.settings import Settings

TTL_S: Final = 3_600  # in Redis: limits how long values of old generations and of readers' texts remain
_MAX_VALUE_BYTES: Final = 1 << 20  # larger ones would evict many others, and keep Redis busy
# What an entry takes in Python besides the value: its name, two object headers, its place in the map.
_ENTRY_BYTES: Final = 300
_TAG_BYTES: Final = 16
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The outcomes of all look-ups so far, and the size of the cache now.

    ``redis_misses`` include values that were damaged or foreign (``redis_refused``) and look-ups while Redis
    was away. ``joined`` look-ups waited for another one that was making the same value.
    ``redis_errors`` include those of rate limits.
    """

    memory_hits: int = 0
    memory_misses: int = 0
    memory_values: int = 0
    memory_bytes: int = 0
    redis_hits: int = 0
    redis_misses: int = 0
    redis_refused: int = 0
    redis_errors: int = 0
    joined: int = 0


class Cache:
    """Values by name, up to ``memory_mib`` MiB of them in this process, and also in ``redis``.

    ``key`` proves that a value in Redis was stored under its name by a service with the same secret, and
    hides from the names what was asked.
    """

    def __init__(self, *, memory_mib: int, redis: RedisStore | None = None, key: bytes = b"") -> None:
        self.redis = redis
        self._key = key
        self._memory: LRUCache[str, bytes] = LRUCache(
            memory_mib * _MIB, getsizeof=lambda value: len(value) + _ENTRY_BYTES
        )
        self._flights: Flights[str, bytes] = Flights()
        self._lock = Lock()
        self._counts = {"memory_hits": 0, "memory_misses": 0, "redis_hits": 0, "redis_misses": 0}
        self._refused = 0

    def value(
        self, name: str, make: Callable[[], bytes], *, keep: Callable[[], bool] = lambda: True
    ) -> bytes:
        """Return the cached value of ``name``; if there is none, one of the concurrent callers makes it.

        ``keep`` is called after that and says whether to cache the value.
        Raises what ``make`` raises, and DeadlineError if it takes too long.
        """
        kept = self._look_up(name)
        return kept if kept is not None else self._flights.run(name, lambda: self._make(name, make, keep))

    def stats(self) -> CacheStats:
        """Return the current counters."""
        redis = self.redis
        return CacheStats(
            **self._counts,
            memory_values=len(self._memory),
            memory_bytes=int(self._memory.currsize),
            redis_refused=self._refused,
            redis_errors=0 if redis is None else redis.errors,
            joined=self._flights.n_joined,
        )

    def lookups(self) -> dict[tuple[str, ...], float]:
        """Return the number of look-ups so far by layer and outcome."""
        return {tuple(name.split("_")): float(count) for name, count in self._counts.items()}

    def degradations(self) -> list[Degradation]:
        """Return the outage of Redis, if there is one."""
        return [] if self.redis is None else self.redis.outage.degradations()

    def close(self) -> None:
        """Close the connections to Redis."""
        if self.redis is not None:
            self.redis.close()

    def _recent(self, name: str) -> bytes | None:
        with self._lock:
            return self._memory.get(name)

    def _keep(self, name: str, value: bytes) -> None:
        with self._lock, suppress(ValueError):  # larger than the whole cache
            self._memory[name] = value

    def _look_up(self, name: str) -> bytes | None:
        value = self._recent(name)
        self._count("memory", hit=value is not None)
        if value is None and self.redis is not None:
            value = self._open(name, self.redis.get(self._redis_key(name)))
            self._count("redis", hit=value is not None)
            if value is not None:
                self._keep(name, value)
        return value

    def _make(self, name: str, make: Callable[[], bytes], keep: Callable[[], bool]) -> bytes:
        # Another caller may have made it between the look-up and now.
        value = self._recent(name)
        if value is not None:
            return value
        value = make()
        if len(value) <= _MAX_VALUE_BYTES and keep():
            self._keep(name, value)
            if self.redis is not None:
                self.redis.put(self._redis_key(name), self._tag(name, value) + value, keep_s=TTL_S)
        return value

    def _count(self, layer: str, *, hit: bool) -> None:
        with self._lock:
            self._counts[f"{layer}_{'hits' if hit else 'misses'}"] += 1

    def _redis_key(self, name: str) -> str:
        return f"{PREFIX}cache:{hmac.digest(self._key, name.encode(), 'sha256').hex()}"

    def _tag(self, name: str, value: bytes) -> bytes:
        return hmac.digest(self._key, name.encode() + b"\0" + value, "sha256")[:_TAG_BYTES]

    def _open(self, name: str, tagged: bytes | None) -> bytes | None:
        """Return the value without its tag, or ``None`` if it is damaged, of another name or service."""
        if tagged is None:
            return None
        tag, value = tagged[:_TAG_BYTES], tagged[_TAG_BYTES:]
        if hmac.compare_digest(tag, self._tag(name, value)):
            return value
        with self._lock:
            self._refused += 1
        return None


def open_cache(settings: Settings) -> Cache:
    """Return the cache defined by ``settings``; it does not connect to Redis yet.

    Raises InputError, MissingPackageError; StorageError for a damaged secret.
    """
    if settings.redis is None:
        return Cache(memory_mib=settings.cache_mib)
    secret = read_secret(settings.data, settings.secret)
    # Not the secret itself, but a key derived from it for the cache.
    key = hmac.digest(secret.key, b"akin cache", "sha256")
    return Cache(memory_mib=settings.cache_mib, redis=RedisStore(settings.redis), key=key)
