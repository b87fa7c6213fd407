"""The rules of when a client sends a request again, and how long it waits before that."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import uniform

from models.errors import InputError, ServiceError

_RETRIED = frozenset({429, 503})
_MAX_DOUBLED = 64


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and when to try again: after status 429 and 503, and if a connection fails or breaks.

    ``attempts`` counts the first one. A wait is the service's ``Retry-After``, or else drawn with ``draw``
    between 0 and ``backoff_s``, doubled each time up to ``max_wait_s``. If ``Retry-After`` is longer than
    ``max_wait_s``, the client gives up at once.
    """

    attempts: int = 4
    backoff_s: float = 0.5
    max_wait_s: float = 60.0
    draw: Callable[[float, float], float] = field(default=uniform, repr=False)

    def __post_init__(self) -> None:
        """Raise InputError for values that cannot be used."""
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool) or self.attempts < 1:
            raise InputError(f"attempts must be a whole number from 1 (try once), not {self.attempts!r}.")
        for name in ("backoff_s", "max_wait_s"):
            value = getattr(self, name)
            if not is_number(value) or not value >= 0:
                raise InputError(f"{name} must be a number of seconds from 0, not {value!r}.")

    def wait_s(self, attempt: int, error: ServiceError) -> float | None:
        """Return the wait after failed attempt number ``attempt`` (from 1), or ``None`` to give up."""
        if attempt >= self.attempts or error.status not in _RETRIED | {None}:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.max_wait_s else None
        # From some power on, an integer is too large to be multiplied with a float.
        return self.draw(0, min(self.backoff_s * 2 ** min(attempt - 1, _MAX_DOUBLED), self.max_wait_s))

    def next_wait_s(self, attempt: int, error: ServiceError) -> float:
        """Return ``wait_s``, or raise ``error`` to give up."""
        wait_s = self.wait_s(attempt, error)
        if wait_s is None:
            raise error
        return wait_s


def is_number(value: object) -> bool:
    """Return whether ``value`` is a number, and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def checked_retries(given: Retries | None) -> Retries:
    """Return ``given``, or the usual retries for ``None``; raises InputError for another type."""
    if given is not None and not isinstance(given, Retries):
        raise InputError(f"retries must be an akin.Retries, such as akin.Retries(attempts=1), not {given!r}.")
    return given or Retries()
