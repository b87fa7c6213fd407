"""When work on a request must end: its time is up, or its client has gone."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cached_property
from threading import Lock
from typing import Final, TypeVar

from anyio import CancelScope

from models.errors import DeadlineError, StorageError
from models.interruption import is_interrupted, set_interruption

# For what asks the database beside the requests, of which nothing takes so long.
ASIDE_S: Final = 5.0
_LOCK_LOOK_S: Final = 0.05
_T = TypeVar("_T")


class Deadline:
    """The end of one request, ``seconds`` from now; threads may ask while the event loop abandons it.

    Work that is no request, in a thread of its own, may have one too: it never asks for ``waiting``.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self._abandoned = False

    @cached_property
    def waiting(self) -> CancelScope:
        """Cancelled when the request ends before its turn has come; made on the event loop alone."""
        return CancelScope()

    @property
    def remaining_s(self) -> float:
        """Seconds left; not above 0 once it has passed."""
        return 0.0 if self._abandoned else self._ends_at - time.monotonic()

    def abandon(self) -> None:
        """The client has gone: nobody wants the answer."""
        self._abandoned = True
        if "waiting" in self.__dict__:
            self.waiting.cancel()

    def check(self) -> None:
        """Raises DeadlineError once it has passed."""
        if self.remaining_s <= 0:
            raise DeadlineError(
                f"The request was given up after {self._seconds:g} s, the most the service works on one; ask "
                "for less: fewer results, fewer sentences, or the scorer ot."
            )


# Not a parameter: it would run through every function between an endpoint and the loops that it ends.
_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def set_deadline(deadline: Deadline) -> None:
    """Makes it the one that ``check_deadline`` and encoders ask, here and in threads started from here."""
    _current.set(deadline)
    set_interruption(deadline.check)


def within(seconds: float, work: Callable[[], _T]) -> _T:
    """What ``work`` returns, done with a deadline of its own instead of the request's, if there is one."""

    def limited() -> _T:
        set_deadline(Deadline(seconds))
        return work()

    return copy_context().run(limited)


@contextmanager
def held(lock: Lock) -> Iterator[None]:
    """Holds a lock under which the database is asked; raises StorageError where it is not free in time."""
    while not lock.acquire(timeout=_LOCK_LOOK_S):
        if is_interrupted():
            raise StorageError("The database is being waited for by other requests; try again later.")
    try:
        yield
    finally:
        lock.release()


def check_deadline() -> None:
    """Raises DeadlineError once the request under way has passed its; outside of a request there is none."""
    deadline = _current.get()
    if deadline is not None:
        deadline.check()
