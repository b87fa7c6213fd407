"""Degraded parts of the service: reported while they last, logged once."""

from dataclasses import dataclass
from threading import Lock

import structlog

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Degradation:
    """A ``part`` (one noun) that does not work now; ``detail`` describes the effects, ``remedy`` what to do.

    All three are readable without a key, so they name no machine, file or user.
    """

    part: str
    detail: str
    remedy: str


class Outage:
    """The state of a part: ``problem`` is the error it fails with, ``None`` while it works.

    Each problem is logged once, and so is the end of the outage. ``failure`` describes the effects for users.
    Threads may share an outage.
    """

    def __init__(self, failure: Degradation) -> None:
        self._failure = self._degradation = failure
        self._lock = Lock()
        self.problem: str | None = None

    def begin(self, problem: str, failure: Degradation | None = None, *, fault: bool = False) -> None:
        """Record that the part fails, with ``failure`` instead of the usual one; a ``fault`` is our bug."""
        with self._lock:
            self._degradation = failure or self._failure
            if problem == self.problem:
                return
            self.problem = problem
        if fault:
            _log.error("failed", part=self._degradation.part, exception=problem)
        else:
            _log.warning("failed", part=self._degradation.part, error=problem)

    def end(self) -> None:
        """Record that the part works."""
        with self._lock:
            if self.problem is None:
                return
            # Logged first, so that whoever sees that the part works finds it in the log.
            _log.info("works_again", part=self._degradation.part)
            self.problem = None

    def degradations(self) -> list[Degradation]:
        """Return the current degradation, or nothing while the part works."""
        return [self._degradation] if self.problem is not None else []
