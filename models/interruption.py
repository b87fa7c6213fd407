"""Whether anybody still waits for what is computed: asked between the steps of a long computation."""

from collections.abc import Callable
from contextvars import ContextVar

from models.errors import AkinError


def _nobody_asks() -> None:
    """Nothing interrupts."""


_check: ContextVar[Callable[[], None]] = ContextVar("interruption", default=_nobody_asks)


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
