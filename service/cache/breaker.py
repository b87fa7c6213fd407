"""The circuit breaker: after some failures in a row nothing is tried for a while; then one try decides."""

import time
from collections.abc import Callable
from enum import StrEnum
from threading import Lock


class BreakerState(StrEnum):
    """Whether calls are made (closed), spared (open), or one of them is to find out (half_open)."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker:
    """Opens for ``open_s`` after ``failures`` in a row; safe to share between threads.

    ``clock`` gives seconds that only ever rise.
    """

    def __init__(
        self, *, failures: int = 3, open_s: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.open_s = open_s
        self._most_failures = failures
        self._clock = clock
        self._lock = Lock()
        self._state = BreakerState.CLOSED
        self._failures = 0
        self._try_at = 0.0

    @property
    def state(self) -> BreakerState:
        """What it lets through."""
        return self._state

    def allows(self) -> bool:
        """Whether to make a call now, of which ``succeeded`` or ``failed`` is to be told.

        A try of which nothing was heard for ``open_s`` is followed by another.
        """
        if self._state is BreakerState.CLOSED:
            return True
        with self._lock:
            if self._clock() < self._try_at:
                return False
            self._state, self._try_at = BreakerState.HALF_OPEN, self._clock() + self.open_s
            return True

    def succeeded(self) -> bool:
        """A call succeeded; whether this closed it."""
        if self._state is BreakerState.CLOSED and not self._failures:
            return False
        with self._lock:
            # While open, this is a call that began before it opened.
            if self._state is BreakerState.OPEN:
                return False
            closes = self._state is BreakerState.HALF_OPEN
            self._state, self._failures = BreakerState.CLOSED, 0
            return closes

    def failed(self) -> bool:
        """A call failed; whether this opened it, for the first time in a row of failures."""
        with self._lock:
            if self._state is BreakerState.OPEN:
                return False
            was_closed = self._state is BreakerState.CLOSED
            self._failures += 1
            if was_closed and self._failures < self._most_failures:
                return False
            self._state, self._try_at = BreakerState.OPEN, self._clock() + self.open_s
            return was_closed
