"""Runs a task again and again in a background thread until the service stops."""

import math
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from types import MappingProxyType
from typing import Final

from models.errors import AkinError, DeadlineError
from models.interruption import set_interruption
from service.degradation import Degradation, Outage
from service.observability.logging import raised_at

# How long what is under way may take when the service ends; then it is interrupted, and left to the next
# process, as after a crash.
STOP_S: Final = 5.0


class Repeating:
    """Calls ``work`` every ``every_s`` seconds, and at once when it begins or is woken.

    An error, one that nobody foresaw too, is an ``outage`` until ``work`` succeeds again; ``failure`` says
    what follows from it, ``failures`` what from errors of some classes, the first that matches. Without
    ``at_once`` the first call too comes after ``every_s``. What is under way at the end has ``stop_s`` left.
    """

    def __init__(
        self,
        work: Callable[[], object],
        *,
        every_s: float,
        failure: Degradation,
        failures: Mapping[type[AkinError], Degradation] = MappingProxyType({}),
        at_once: bool = True,
        stop_s: float = STOP_S,
    ) -> None:
        self._work = work
        self._every_s = every_s
        self._failures = failures
        self._at_once = at_once
        self._stop_s = stop_s
        self._name = failure.part
        self._woken = Event()
        self._stopped = False
        self._end_by = math.inf
        self._thread: Thread | None = None
        self.outage = Outage(failure)
        self.degradations = self.outage.degradations

    def __enter__(self) -> "Repeating":  # noqa: PYI034 - the tests' type checker knows no Self in methods
        self._stopped, self._end_by = False, math.inf
        # A daemon: the process ends without it where it takes too long.
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        return self

    @property
    def stopped(self) -> bool:
        """Whether it begins nothing more; what is under way may not have ended."""
        return self._stopped

    def wake(self) -> None:
        """Do it now."""
        self._woken.set()

    def stop(self) -> None:
        """Begin nothing more; whoever leaves the context then waits for what is under way, a few seconds."""
        self._stopped, self._end_by = True, min(self._end_by, time.monotonic() + self._stop_s)
        self._woken.set()

    def __exit__(self, *_: object) -> None:
        """Ends after what is under way, if that does not take too long."""
        self.stop()
        if self._thread is not None:
            self._thread.join(max(0.0, self._end_by - time.monotonic()))

    def _run(self) -> None:
        set_interruption(self._expect_time)
        if not self._at_once:
            self._woken.wait(self._every_s)
        while True:
            self._woken.clear()  # before the look at what ``stop`` sets before it wakes
            if self._stopped:
                return
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - it would end the thread, and nobody would know
                self._failed(error)
            else:
                self.outage.end()
            self._woken.wait(self._every_s)

    def _expect_time(self) -> None:
        if time.monotonic() > self._end_by:
            raise DeadlineError("The service ends.")

    def _failed(self, error: Exception) -> None:
        if time.monotonic() > self._end_by:  # interrupted
            return
        if isinstance(error, AkinError):
            failures = (told for cls, told in self._failures.items() if isinstance(error, cls))
            self.outage.begin(str(error), next(failures, None))
        else:
            self.outage.begin(raised_at(error), fault=True)
