"""Admission: how many requests compute at once, how many wait, and which are refused."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

import anyio

from models.errors import OverloadedError
from service.access.policy import Queue
from service.context import Deadline, stage

N_STORING: Final = 4  # requests that may wait for the database at once
_SMOOTHING: Final = 0.1  # the share of the latest request in the mean of what requests take


class Admission:
    """Places for ``n_running`` requests at work and a queue of ``n_waiting``, first come, first served.

    A request joins the queue only where it can expect its turn before its deadline, so that what is refused
    is refused at once; ``mean_s`` is what one is taken to need until some have ended. All on one event loop.
    """

    def __init__(self, n_running: int, n_waiting: int, *, mean_s: float = 0.0) -> None:
        self._n_running = n_running
        self._n_waiting = n_waiting
        self._free = anyio.Semaphore(n_running)
        self._mean_s = mean_s

    @property
    def running(self) -> int:
        """How many are at work."""
        return self._n_running - self._free.value

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return self._free.statistics().tasks_waiting

    @property
    def idle(self) -> bool:
        """Whether a place is free; other threads may ask."""
        return self._free.value > 0

    def expected_wait_s(self) -> float:
        """How long a request that came now would wait for its turn; 0 while there is a free place."""
        if self._free.value > 0:
            return 0.0
        return (self.waiting + 1) * self._mean_s / self._n_running

    def expect_room(self, within_s: float) -> None:
        """Raises OverloadedError where a request could not join the queue now and leave it in time."""
        wait_s = self.expected_wait_s()
        full = self._free.value == 0 and self.waiting >= self._n_waiting
        if full or wait_s >= within_s:
            raise _overloaded(wait_s)

    @asynccontextmanager
    async def place(self, deadline: Deadline) -> AsyncIterator[Callable[[], None]]:
        """Joins the queue, waits for a place and holds it until the context ends or what it yields is called.

        Raises OverloadedError where there is no room, or the deadline passes first.
        """
        self.expect_room(deadline.remaining_s)
        async with self.turn(deadline) as leave:
            yield leave

    @asynccontextmanager
    async def turn(self, deadline: Deadline) -> AsyncIterator[Callable[[], None]]:
        """As ``place``, for what was let in before: it waits however many do.

        Raises OverloadedError where the deadline passes first.
        """
        with stage("queue"), deadline.waiting, anyio.move_on_after(deadline.remaining_s) as in_time:
            await self._free.acquire()
        if deadline.waiting.cancelled_caught or in_time.cancelled_caught:
            raise _overloaded(self.expected_wait_s())
        started, held = monotonic(), True

        def leave() -> None:
            nonlocal held
            if held:
                held = False
                self._mean_s += _SMOOTHING * (monotonic() - started - self._mean_s)
                self._free.release()

        try:
            yield leave
        finally:
            leave()


class Queues:
    """Places for requests that compute, and places for requests that ask the database.

    A database that is locked, or does not answer, holds up writes and batches, and no search.
    """

    def __init__(self, *, n_running: int, n_waiting_each: int) -> None:
        self.computing = Admission(n_running, n_running * n_waiting_each)
        self.storing = Admission(N_STORING, N_STORING * n_waiting_each)

    def of(self, queue: Queue) -> Admission:
        """The places of one queue."""
        return self.computing if queue is Queue.COMPUTING else self.storing


def _overloaded(wait_s: float) -> OverloadedError:
    return OverloadedError(
        "Too many requests are waiting; try again later, with fewer at once.",
        retry_after_s=max(1, math.ceil(wait_s)),
    )
