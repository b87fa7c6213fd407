"""Repetition of a task in a background thread until the service stops."""

import math
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from types import MappingProxyType
from typing import Final

from models.errors import AkinError, DeadlineError
from models.interruption import set_interruption
from service.degradation import Degradation, Outage
from service.observability.logging import tracebacks_of

# How long running work may take when the service ends; then it is interrupted and left to the next process,
# as after a crash.
STOP_S: Final = 5.0


class RepeatedTask:
    """Calls ``work`` every ``every_s`` seconds, and immediately at the start and when woken.

    Any error, even an unexpected one, is an ``outage`` until ``work`` succeeds again. ``failure`` describes
    its consequences; ``failures`` does so for some error classes, of which the first match counts. After an
    error the next call waits at least ``after_failure_s``. Without ``at_once`` the first call also waits
    ``every_s``. At the end, running work has ``stop_s`` left.
    """

    def __init__(
        self,
        work: Callable[[], object],
        *,
        every_s: float,
        failure: Degradation,
        failures: Mapping[type[AkinError], Degradation] = MappingProxyType({}),
        after_failure_s: float = 0.0,
        at_once: bool = True,
        stop_s: float = STOP_S,
    ) -> None:
        self._work = work
        self._every_s = every_s
        self._failures = failures
        self._after_failure_s = max(every_s, after_failure_s)
        self._at_once = at_once
        self._stop_s = stop_s
        self._name = failure.part
        self._woken = Event()
        self._stopped = False
        self._end_by = math.inf
        self._thread: Thread | None = None
        self.outage = Outage(failure)
        self.degradations = self.outage.degradations

    def __enter__(self) -> "RepeatedTask":  # noqa: PYI034 - the tests' type checker knows no Self in methods
        self._stopped, self._end_by = False, math.inf
        # A daemon thread: the process ends without waiting if the work takes too long.
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        return self

    @property
    def stopped(self) -> bool:
        """Whether no more work begins; running work may not have ended."""
        return self._stopped

    def wake(self) -> None:
        """Call ``work`` now, or right after the running call."""
        self._woken.set()

    def stop(self) -> None:
        """Begin no more work; leaving the context then waits a few seconds for running work."""
        self._stopped, self._end_by = True, min(self._end_by, time.monotonic() + self._stop_s)
        self._woken.set()

    def __exit__(self, *_: object) -> None:
        """Wait for running work to end, at most ``stop_s``."""
        self.stop()
        if self._thread is not None:
            self._thread.join(max(0.0, self._end_by - time.monotonic()))

    def _run(self) -> None:
        set_interruption(self._expect_time)
        if not self._at_once:
            self._woken.wait(self._every_s)
        while True:
            self._woken.clear()  # before ``_stopped`` is read, which ``stop`` sets before it wakes the thread
            if self._stopped:
                return
            pause_s = self._every_s
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - it would end the thread, and nobody would know
                self._failed(error)
                pause_s = self._after_failure_s
            else:
                self.outage.end()
            self._woken.wait(pause_s)

    def _expect_time(self) -> None:
        if time.monotonic() > self._end_by:
            raise DeadlineError("The service ends.")

    def _failed(self, error: Exception) -> None:
        if time.monotonic() > self._end_by:  # interrupted
            return
        if isinstance(error, AkinError):
            failures = (degradation for cls, degradation in self._failures.items() if isinstance(error, cls))
            self.outage.begin(str(error), next(failures, None))
        else:
            self.outage.begin(tracebacks_of(error), fault=True)
