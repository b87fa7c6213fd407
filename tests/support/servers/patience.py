"""Waiting in tests for what happens soon, in another thread or process."""

import time
from collections.abc import Callable


def soon(holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait until something holds; it must within a time no user would bear."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
