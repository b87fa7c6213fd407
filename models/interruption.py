"""Deadlines and cancellation of running work."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from models.errors import AkinError

SILENCE_S: Final = 60.0


def _never_interrupt() -> None:
    """Never interrupt: the default check."""


_check: ContextVar[Callable[[], None]] = ContextVar("interruption", default=_never_interrupt)
_silence_s: ContextVar[float] = ContextVar("silence", default=SILENCE_S)


def set_interruption(check: Callable[[], None]) -> None:
    """Set ``check``, which raises to interrupt, for this context and the threads started from it."""
    _check.set(check)


def check_interruption() -> None:
    """Call the check set by ``set_interruption``, which may raise; do nothing if none was set."""
    _check.get()()


def is_interrupted() -> bool:
    """Return whether ``check_interruption`` raises an AkinError, for callers that raise another error."""
    try:
        check_interruption()
    except AkinError:
        return True
    return False


def silence_limit_s() -> float:
    """Return how long a server may leave a request unanswered before that is an error, in seconds."""
    return _silence_s.get()


@contextmanager
def limit_silence(seconds: float) -> Iterator[None]:
    """Set ``silence_limit_s`` for this context and the threads started from it, until the block ends."""
    before = _silence_s.set(seconds)
    try:
        yield
    finally:
        _silence_s.reset(before)


@contextmanager
def without_interruption() -> Iterator[None]:
    """Run the block without interruptions and without a limit on the silence of servers."""
    before = _check.set(_never_interrupt)
    try:
        with limit_silence(math.inf):
            yield
    finally:
        _check.reset(before)
