"""Rate limits: how many requests each caller may send a minute."""

import math
import time
from dataclasses import dataclass

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from models.errors import RateLimitedError


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a caller has left: ``remaining`` of ``limit`` requests a minute, more in ``reset_s`` seconds."""

    limit: int
    remaining: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """The same as the ``RateLimit-*`` headers of the IETF's draft."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_s),
        }


class RateLimits:
    """At most ``per_minute`` requests of each caller in any minute, counted in this process."""

    def __init__(self, per_minute: int) -> None:
        self._item = RateLimitItemPerMinute(per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def count(self, caller: str) -> tuple[bool, Allowance]:
        """Counts one request; whether it is within the limit, and what is left."""
        within = self._limiter.hit(self._item, caller)
        stats = self._limiter.get_window_stats(self._item, caller)
        reset_s = max(1, math.ceil(stats.reset_time - time.time()))
        return within, Allowance(self._item.amount, stats.remaining, reset_s)


def refusal(allowance: Allowance) -> RateLimitedError:
    """The error for a caller without allowance."""
    return RateLimitedError(
        f"More than {allowance.limit} requests came within a minute, the most one caller may send; wait as "
        "long as Retry-After says.",
        retry_after_s=allowance.reset_s,
    )
