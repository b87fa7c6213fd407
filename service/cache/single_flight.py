"""Single flight: what several threads need at once is computed once."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from threading import Lock
from typing import Generic, TypeVar

from models.errors import DeadlineError
from service.context import check_deadline

_POLL_S = 0.05  # how often a waiting caller checks its deadline: clients that left end within 100 ms
_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class Flights(Generic[_Key, _Result]):
    """The work under way in this process, by key; safe to share between threads."""

    def __init__(self) -> None:
        self._under_way: dict[_Key, Future[_Result]] = {}
        self._lock = Lock()
        self.n_joined = 0

    def run(self, key: _Key, work: Callable[[], _Result]) -> _Result:
        """Return the result of ``work``, done here or by the caller already working under this ``key``.

        If that caller runs out of time, one of those waiting takes over. Any other error would happen again,
        so it is raised to all of them. Raises DeadlineError to a caller whose own time is up.
        """
        while True:
            with self._lock:
                flight = self._under_way.get(key)
                if leads := flight is None:
                    flight = self._under_way[key] = Future()
                else:
                    self.n_joined += 1
            if leads:
                return self._compute(key, flight, work)
            while not wait([flight], timeout=_POLL_S).done:
                check_deadline()
            if not isinstance(flight.exception(), DeadlineError):
                return flight.result()
            check_deadline()

    def forget(self) -> None:
        """Forget all work under way, in a forked process: its threads are those of the other process."""
        self._under_way, self._lock = {}, Lock()

    def _compute(self, key: _Key, flight: Future[_Result], work: Callable[[], _Result]) -> _Result:
        try:
            value = work()
        except BaseException as error:
            self._end(key)
            flight.set_exception(error)
            raise
        self._end(key)
        flight.set_result(value)
        return value

    def _end(self, key: _Key) -> None:
        with self._lock:
            del self._under_way[key]
