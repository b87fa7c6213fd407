"""Rate limits: requests per minute for each caller."""

import math
import time
from dataclasses import dataclass

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import SlidingWindowCounterRateLimiter

from models.errors import RateLimitedError
from service.cache.redis import PREFIX, RedisStore


@dataclass(frozen=True, slots=True)
class Allowance:
    """A caller's ``remaining`` requests of ``limit`` per minute; there are more in ``reset_s`` seconds."""

    limit: int
    remaining: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """Return the allowance as the ``RateLimit-*`` headers of the IETF's draft."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_s),
        }


class RateLimits:
    """A limit of ``per_minute`` requests of each caller in any minute.

    Counted in ``redis`` for all processes together, or in each process if there is no Redis or it is away.
    """

    def __init__(self, per_minute: int, *, redis: RedisStore | None = None) -> None:
        self._item = RateLimitItemPerMinute(per_minute)
        self._own = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._redis = redis
        self._shared = None if redis is None else SlidingWindowCounterRateLimiter(_storage(redis))

    async def count(self, caller: str) -> tuple[bool, Allowance]:
        """Count one request; return whether it is within the limit, and what is left."""
        if self._redis is not None and self._shared is not None:
            shared = self._shared
            counted = await self._redis.ask_aside(lambda _: self._count(shared, caller), None)
            if counted is not None:
                return counted
        return self._count(self._own, caller)

    def _count(self, limiter: SlidingWindowCounterRateLimiter, caller: str) -> tuple[bool, Allowance]:
        within = limiter.hit(self._item, caller)
        stats = limiter.get_window_stats(self._item, caller)
        reset_s = max(1, math.ceil(stats.reset_time - time.time()))
        return within, Allowance(self._item.amount, stats.remaining, reset_s)


def _storage(redis: RedisStore) -> Storage:
    # The URL is required but unused: it would only be for connections other than those of the pool.
    return RedisStorage("redis://", connection_pool=redis.pool, key_prefix=f"{PREFIX}rate")


def refusal(allowance: Allowance) -> RateLimitedError:
    """Return the error for a caller whose allowance is used up."""
    return RateLimitedError(
        f"More than {allowance.limit} requests within a minute is the limit for one caller; wait as long as "
        "Retry-After says.",
        retry_after_s=allowance.reset_s,
    )
