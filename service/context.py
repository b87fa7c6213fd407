"""The context of the current request: its deadline and the time of each stage.

``with stage("rerank"):`` times a stage for the metrics, the log and the trace. Work must end when its time is
up or its client has gone: loops call ``check_deadline``. Neither is a parameter: they would run through every
function between an endpoint and the loops.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cached_property
from threading import Lock
from typing import Final, Literal, TypeVar

from anyio import CancelScope

from models.errors import DeadlineError, StorageError
from models.interruption import is_interrupted, set_interruption

# For what asks the database beside the requests, of which nothing takes so long.
ASIDE_S: Final = 5.0
# What to ask for instead of a search that takes too long.
LESS_OF_A_SEARCH: Final = "request less: fewer results, fewer sentences, or the scorer ot"
_LOCK_LOOK_S: Final = 0.05
_T = TypeVar("_T")


class Deadline:
    """The end of one request, ``seconds`` from now; threads may ask while the event loop abandons it.

    ``remedy`` says what to ask instead once it has passed. Work that is no request, in a thread of its own,
    may have one too: it never asks for ``waiting``.
    """

    def __init__(self, seconds: float, *, remedy: str = LESS_OF_A_SEARCH) -> None:
        self._seconds = seconds
        self.remedy = remedy
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
                f"The request was stopped after {self._seconds:g} s, the time limit of the service; "
                f"{self.remedy}."
            )


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def set_deadline(deadline: Deadline) -> None:
    """Makes it the one that ``check_deadline`` and encoders ask, here and in threads started from here."""
    _deadline.set(deadline)
    set_interruption(deadline.check)


def advise(remedy: str) -> None:
    """Has the error of the deadline, if there is one, say what to ask instead."""
    if (deadline := _deadline.get()) is not None:
        deadline.remedy = remedy


def with_deadline(seconds: float, work: Callable[[], _T]) -> _T:
    """What ``work`` returns, done with a deadline of its own instead of the request's, if there is one."""

    def limited() -> _T:
        set_deadline(Deadline(seconds))
        return work()

    return copy_context().run(limited)


@contextmanager
def locked(lock: Lock) -> Iterator[None]:
    """Holds a lock under which the database is asked; raises StorageError where it is not free in time."""
    while not lock.acquire(timeout=_LOCK_LOOK_S):
        if is_interrupted():
            raise StorageError("Other requests are waiting for the database; try again later.")
    try:
        yield
    finally:
        lock.release()


def check_deadline() -> None:
    """Raises DeadlineError once the request under way has passed its; outside of a request there is none."""
    deadline = _deadline.get()
    if deadline is not None:
        deadline.check()


def remaining_s() -> float | None:
    """Seconds left to the request under way; ``None`` outside of a request."""
    deadline = _deadline.get()
    return None if deadline is None else deadline.remaining_s


# A closed list: each is a label of the metrics.
Stage = Literal["body", "queue", "encode", "candidates", "rerank", "explain"]


class Stages:
    """What one request has spent its time on: ``seconds`` of wall time by stage, repeated ones added up.

    ``on_end`` is told of each stage that ends; ``span`` is open as long as the stage is.
    """

    def __init__(
        self,
        on_end: Callable[[str, float], None],
        span: Callable[[str], AbstractContextManager[object]],
    ) -> None:
        self._on_end = on_end
        self._span = span
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: Stage) -> Iterator[None]:
        """Times what happens until the context ends, however it does."""
        started = time.perf_counter()
        with self._span(name):
            try:
                yield
            finally:
                took_s = time.perf_counter() - started
                self.seconds[name] = self.seconds.get(name, 0.0) + took_s
                self._on_end(name, took_s)


_stages: ContextVar[Stages | None] = ContextVar("stages", default=None)


def set_stages(stages: Stages) -> None:
    """Makes it the one that ``stage`` tells, here and in the threads started from here."""
    _stages.set(stages)


@contextmanager
def stage(name: Stage) -> Iterator[None]:
    """Times a stage of the request under way, also as a decorator; outside of a request it does nothing."""
    stages = _stages.get()
    with nullcontext() if stages is None else stages.timed(name):
        yield
