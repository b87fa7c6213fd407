"""Waiting in tests for what happens soon, in another thread or process."""

import time
from collections.abc import Callable


def soon(holds: Callable[[], bool], timeout_s: float = 240.0) -> None:
    """Wait until something holds; the limit ends a test that waits in vain, and measures nothing."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
