"""Deadlines and cancellation of running work."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from models.errors import AkinError

SILENCE_S: Final = 60.0


def _nobody_asks() -> None:
    """Nothing interrupts."""


_check: ContextVar[Callable[[], None]] = ContextVar("interruption", default=_nobody_asks)
_silence_s: ContextVar[float] = ContextVar("silence", default=SILENCE_S)


def set_interruption(check: Callable[[], None]) -> None:
    """Makes ``check``, which raises to interrupt, be asked here and in the threads started from here."""
    _check.set(check)


def check_interruption() -> None:
    """Raises what the one who waits has set; nothing where nobody set anything."""
    _check.get()()


def is_interrupted() -> bool:
    """Whether ``check_interruption`` would raise, for what has an error of its own for that."""
    try:
        check_interruption()
    except AkinError:
        return True
    return False


def most_silent_s() -> float:
    """How long a server that was asked something may be silent before that is an error, in seconds."""
    return _silence_s.get()


@contextmanager
def silent_at_most(seconds: float) -> Iterator[None]:
    """Sets that time, here and in the threads started from here, until the context ends."""
    before = _silence_s.set(seconds)
    try:
        yield
    finally:
        _silence_s.reset(before)


@contextmanager
def however_long() -> Iterator[None]:
    """What is done until the context ends is not interrupted, nor is any silence an error."""
    before = _check.set(_nobody_asks)
    try:
        with silent_at_most(math.inf):
            yield
    finally:
        _check.reset(before)
