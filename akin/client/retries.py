"""When a client sends a request again, and how long it waits before it does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import uniform

from models.errors import ServiceError

_RETRIED = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and when to try again: after 429, 503 and where no connection was made or it broke.

    Everything a client asks may be asked twice. ``attempts`` counts the first one; a wait is what the
    service tells (``Retry-After``), else one to ``draw`` between 0 and ``backoff_s`` doubled each time.
    Where the service tells more than ``max_wait_s``, the client gives up at once.
    """

    attempts: int = 4
    backoff_s: float = 0.5
    max_wait_s: float = 60.0
    draw: Callable[[float, float], float] = field(default=uniform, repr=False)

    def wait_s(self, attempt: int, error: ServiceError) -> float | None:
        """How long to wait after attempt number ``attempt`` (from 1) failed; ``None``: give up."""
        if attempt >= self.attempts or error.status not in _RETRIED | {None}:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.max_wait_s else None
        return self.draw(0, min(self.backoff_s * 2 ** (attempt - 1), self.max_wait_s))

    def next_wait_s(self, attempt: int, error: ServiceError, *, repeatable: bool = True) -> float:
        """The same; raises ``error`` to give up, as for what may have been done and must not be twice."""
        wait_s = None if error.status is None and not repeatable else self.wait_s(attempt, error)
        if wait_s is None:
            raise error
        return wait_s
