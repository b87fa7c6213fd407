"""Single flight: equal concurrent requests are computed once."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Lock

from models.errors import DeadlineError
from service.context import check_deadline

_POLL_S = 0.05  # how often a waiting caller checks its deadline: clients that left end within 100 ms


class Flights:
    """The work under way in this process, by name; safe to share between threads."""

    def __init__(self) -> None:
        self._under_way: dict[str, Future[bytes]] = {}
        self._lock = Lock()
        self.n_joined = 0

    def run(self, name: str, work: Callable[[], bytes]) -> bytes:
        """Return the result of ``work``, done here or by the caller already working under this ``name``.

        If that caller runs out of time, one of those waiting takes over. Any other error would happen again,
        so it is raised to all of them. Raises DeadlineError to a caller whose own time is up.
        """
        while True:
            with self._lock:
                flight = self._under_way.get(name)
                if leads := flight is None:
                    flight = self._under_way[name] = Future()
                else:
                    self.n_joined += 1
            if leads:
                return self._compute(name, flight, work)
            while not wait([flight], timeout=_POLL_S).done:
                check_deadline()
            if not isinstance(flight.exception(), DeadlineError):
                return flight.result()
            check_deadline()

    def _compute(self, name: str, flight: Future[bytes], work: Callable[[], bytes]) -> bytes:
        try:
            value = work()
        except BaseException as error:
            self._end(name)
            flight.set_exception(error)
            raise
        self._end(name)
        flight.set_result(value)
        return value

    def _end(self, name: str) -> None:
        with self._lock:
            del self._under_way[name]
