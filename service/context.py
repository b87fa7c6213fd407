"""The context of the current request: its deadline and the time of each stage.

``with stage("rerank"):`` times a stage for the metrics, the log and the trace. Work must end when its time is
up or its client has disconnected: loops call ``check_deadline``. Both are context variables, because as
parameters they would go through every function between an endpoint and the loops.
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

# The time limit of database calls in background work, none of which should take this long.
BACKGROUND_TIMEOUT_S: Final = 5.0
# The advice for a search that takes too long.
SEARCH_TIMEOUT_ADVICE: Final = "request less: fewer results, fewer sentences, or the scorer ot"
_LOCK_POLL_S: Final = 0.05
_T = TypeVar("_T")


class Deadline:
    """The end of one request, ``seconds`` from now; threads may read it while the event loop abandons it.

    ``remedy`` is the advice in the error after the deadline. Background work in a separate thread may also
    have a deadline; it never uses ``waiting``.
    """

    def __init__(self, seconds: float, *, remedy: str = SEARCH_TIMEOUT_ADVICE) -> None:
        self._seconds = seconds
        self.remedy = remedy
        self._ends_at = time.monotonic() + seconds
        self._abandoned = False

    @cached_property
    def waiting(self) -> CancelScope:
        """The scope that is cancelled if a waiting request is abandoned; only created on the event loop."""
        return CancelScope()

    @property
    def remaining_s(self) -> float:
        """The seconds left; 0 or less once the deadline has passed."""
        return 0.0 if self._abandoned else self._ends_at - time.monotonic()

    def abandon(self) -> None:
        """End the request now, because the client has disconnected."""
        self._abandoned = True
        if "waiting" in self.__dict__:
            self.waiting.cancel()

    def check(self) -> None:
        """Raise DeadlineError if the deadline has passed."""
        if self.remaining_s <= 0:
            raise DeadlineError(
                f"The request was stopped after {self._seconds:g} s, the time limit of the service; "
                f"{self.remedy}."
            )


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def set_deadline(deadline: Deadline) -> None:
    """Set the deadline that ``check_deadline`` and encoders check, here and in threads started from here."""
    _deadline.set(deadline)
    set_interruption(deadline.check)


def advise(remedy: str) -> None:
    """Set the advice in the error of the current deadline, if there is one."""
    if (deadline := _deadline.get()) is not None:
        deadline.remedy = remedy


def with_deadline(seconds: float, work: Callable[[], _T]) -> _T:
    """Return the result of ``work``, run with a separate deadline instead of that of the request, if any."""

    def limited() -> _T:
        set_deadline(Deadline(seconds))
        return work()

    return copy_context().run(limited)


@contextmanager
def locked(lock: Lock) -> Iterator[None]:
    """Hold a lock that guards database calls; raises StorageError if it is not free before the deadline."""
    while not lock.acquire(timeout=_LOCK_POLL_S):
        if is_interrupted():
            raise StorageError("Other requests are waiting for the database; try again later.")
    try:
        yield
    finally:
        lock.release()


def check_deadline() -> None:
    """Raise DeadlineError if the deadline of the current request has passed; nothing without a request."""
    deadline = _deadline.get()
    if deadline is not None:
        deadline.check()


def remaining_s() -> float | None:
    """Return the seconds left to the current request; ``None`` outside of a request."""
    deadline = _deadline.get()
    return None if deadline is None else deadline.remaining_s


# A closed list, as each stage is a label of the metrics.
Stage = Literal["body", "queue", "encode", "candidates", "rerank", "explain"]


class Stages:
    """The time of one request: ``seconds`` of wall time by stage, repeated stages added up.

    ``on_end`` is called with each stage that ends and its seconds; ``span`` is open during the stage.
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
        """Time the code in the context, even if it raises an error."""
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
    """Set the stages that ``stage`` adds times to, here and in threads started from here."""
    _stages.set(stages)


@contextmanager
def stage(name: Stage) -> Iterator[None]:
    """Time a stage of the current request, also as a decorator; outside of a request, do nothing."""
    stages = _stages.get()
    with nullcontext() if stages is None else stages.timed(name):
        yield
