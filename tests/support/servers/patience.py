"""A wait for events in another thread or process."""

import subprocess
import time
from collections.abc import Callable
from typing import Any


def soon(
    holds: Callable[[], bool],
    timeout_s: float = 240.0,
    *,
    every_s: float = 0.02,
    process: "subprocess.Popen[Any] | None" = None,
) -> None:
    """Wait until ``holds`` returns True; fail if ``process``, if given, ends before that.

    The limit only ends a test that waits in vain; it is no measurement.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert process is None or process.poll() is None, "the process ended before"
        assert time.monotonic() < deadline
        time.sleep(every_s)
