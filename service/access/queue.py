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
_SMOOTHING: Final = 0.1  # the weight of the latest request in the mean duration of requests


class Admission:
    """Places for ``n_running`` running requests and a queue of ``n_waiting``, first come, first served.

    A request joins the queue only if it can expect its turn before its deadline, so that refusals come at
    once; ``mean_s`` is the first estimate of the duration of a request. Runs on one event loop.
    """

    def __init__(self, n_running: int, n_waiting: int, *, mean_s: float = 0.0) -> None:
        self._n_running = n_running
        self._n_waiting = n_waiting
        self._free = anyio.Semaphore(n_running)
        self._mean_s = mean_s

    @property
    def running(self) -> int:
        """The number of running requests."""
        return self._n_running - self._free.value

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return self._free.statistics().tasks_waiting

    @property
    def idle(self) -> bool:
        """Whether a place is free; may be read from other threads."""
        return self._free.value > 0

    def expected_wait_s(self) -> float:
        """Return how long a new request would wait for its turn, in seconds; 0 if there is a free place."""
        if self._free.value > 0:
            return 0.0
        return (self.waiting + 1) * self._mean_s / self._n_running

    def expect_room(self, within_s: float) -> None:
        """Raise OverloadedError if a request could not join the queue now and get its turn in time."""
        wait_s = self.expected_wait_s()
        full = self._free.value == 0 and self.waiting >= self._n_waiting
        if full or wait_s >= within_s:
            raise _overloaded(wait_s)

    @asynccontextmanager
    async def place(self, deadline: Deadline) -> AsyncIterator[Callable[..., None]]:
        """Join the queue, wait for a place, hold it until the context ends or the yielded function is called.

        Raises OverloadedError if there is no room, or if the deadline passes first.
        """
        self.expect_room(deadline.remaining_s)
        async with self.turn(deadline) as leave:
            yield leave

    @asynccontextmanager
    async def turn(self, deadline: Deadline) -> AsyncIterator[Callable[..., None]]:
        """Do the same as ``place`` for a request admitted before: it waits however many others do.

        The yielded function with ``counts=False``, for a request that only passes through, leaves the mean
        duration as it is.

        Raises OverloadedError if the deadline passes first.
        """
        with stage("queue"), deadline.waiting, anyio.move_on_after(deadline.remaining_s) as in_time:
            await self._free.acquire()
        if deadline.waiting.cancelled_caught or in_time.cancelled_caught:
            raise _overloaded(self.expected_wait_s())
        started, held = monotonic(), True

        def leave(*, counts: bool = True) -> None:
            nonlocal held
            if held:
                held = False
                if counts:
                    self._mean_s += _SMOOTHING * (monotonic() - started - self._mean_s)
                self._free.release()

        try:
            yield leave
        finally:
            leave()


class Queues:
    """Places for requests that compute, and places for requests that use the database.

    A database that is locked or does not answer holds up writes and batches, but no search.
    """

    def __init__(self, *, n_running: int, n_waiting_each: int) -> None:
        self.computing = Admission(n_running, n_running * n_waiting_each)
        self.storing = Admission(N_STORING, N_STORING * n_waiting_each)

    def of(self, queue: Queue) -> Admission:
        """Return the places of one queue."""
        return self.computing if queue is Queue.COMPUTING else self.storing


def _overloaded(wait_s: float) -> OverloadedError:
    return OverloadedError(
        "Too many requests are waiting; try again later, with fewer at once.",
        retry_after_s=max(1, math.ceil(wait_s)),
    )
