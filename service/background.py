"""Work that goes on beside the requests: in a thread of its own, again and again until the service ends."""

import math
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from types import MappingProxyType, TracebackType
from typing import Final

import structlog

from models.errors import AkinError
from service.degradation import Degradation
from service.observability.logging import raised_at

# How long what is under way may take when the service ends; then it is left to the next process, as after a
# crash.
STOP_S: Final = 5.0
_log = structlog.get_logger(__name__)


class Repeating:
    """Calls ``work`` every ``every_s`` seconds, and at once when it is woken.

    An error, one that nobody foresaw too, is logged once and kept in ``problem`` until ``work`` succeeds
    again; ``failure`` says what follows from it, ``failures`` what from errors of some classes, the first
    that matches.
    """

    def __init__(
        self,
        work: Callable[[], object],
        *,
        every_s: float,
        failure: Degradation,
        failures: Mapping[type[AkinError], Degradation] = MappingProxyType({}),
    ) -> None:
        self._work = work
        self._every_s = every_s
        self._failure = failure
        self._failures = {**failures, AkinError: failure}
        self._woken = Event()
        self._stopped = False
        self._end_by = math.inf
        # A daemon: the process ends without it where it takes too long.
        self._thread = Thread(target=self._run, name=failure.part, daemon=True)
        self.problem: str | None = None

    def __enter__(self) -> "Repeating":  # noqa: PYI034 - the tests' type checker knows no Self in methods
        self._thread.start()
        return self

    def wake(self) -> None:
        """Do it now."""
        self._woken.set()

    def stop(self) -> None:
        """Begin nothing more; whoever leaves the context then waits for what is under way, a few seconds."""
        self._stopped, self._end_by = True, min(self._end_by, time.monotonic() + STOP_S)
        self._woken.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends after what is under way, if that does not take too long."""
        self.stop()
        self._thread.join(max(0.0, self._end_by - time.monotonic()))

    def degradations(self) -> list[Degradation]:
        """What does not work at the moment."""
        return [self._failure] if self.problem is not None else []

    def _run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            try:
                self._work()
            except AkinError as error:
                if self.problem != str(error):
                    _log.warning("failed", part=self._failure.part, error=str(error))
                self._failure = next(told for cls, told in self._failures.items() if isinstance(error, cls))
                self.problem = str(error)
            except Exception as error:  # noqa: BLE001 - it would end the thread, and nobody would know
                raised = raised_at(error)
                if self.problem != raised:
                    _log.error("failed", part=self._failure.part, exception=raised)
                self.problem = raised
            else:
                self.problem = None
            self._woken.wait(self._every_s)
