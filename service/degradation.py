"""Degraded parts of the service: reported while they last, logged once."""

from dataclasses import dataclass
from threading import Lock

import structlog

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Degradation:
    """``part``, one noun, does not work now; ``detail`` says what follows from it, ``remedy`` what to do.

    All three are read by anybody, without a key: they name no machine, file or user.
    """

    part: str
    detail: str
    remedy: str


class Outage:
    """Whether a part works: ``problem`` is what it fails with, ``None`` while it works.

    The log says so once for each problem, and once when the part works again. ``failure`` says what follows
    for users. Threads may share it.
    """

    def __init__(self, failure: Degradation) -> None:
        self._failure = self._told = failure
        self._lock = Lock()
        self.problem: str | None = None

    def begin(self, problem: str, failure: Degradation | None = None, *, fault: bool = False) -> None:
        """The part fails; ``failure`` is said in place of the usual one. A ``fault`` is one of our own."""
        with self._lock:
            self._told = failure or self._failure
            if problem == self.problem:
                return
            self.problem = problem
        if fault:
            _log.error("failed", part=self._told.part, exception=problem)
        else:
            _log.warning("failed", part=self._told.part, error=problem)

    def end(self) -> None:
        """The part works."""
        with self._lock:
            if self.problem is None:
                return
            # First: who sees that it works finds it in the log.
            _log.info("works_again", part=self._told.part)
            self.problem = None

    def degradations(self) -> list[Degradation]:
        """What does not work at the moment."""
        return [self._told] if self.problem is not None else []
