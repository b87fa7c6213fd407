"""Commands of Akin as processes of their own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx


@contextmanager
def akin_process(
    *arguments: str, ready: str, **variables: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A command as a process, and the line in which it says that it is ready; killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "akin", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "AKIN_KEYLESS": "write", "COLUMNS": "300", **variables},
    )
    assert process.stdout is not None
    try:
        yield process, next(line for line in process.stdout if line.startswith(ready))
    finally:
        process.kill()
        process.communicate()


@contextmanager
def service_process(data: Path, **variables: str) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """`akin serve`, and a client of it."""
    serve = ("serve", "--data", str(data), "--port", "0", "--device", "cpu")
    with (
        akin_process(*serve, ready="Serving", **variables) as (process, line),
        httpx.Client(base_url=f"http://{line.split('http://')[1].split()[0]}", timeout=30) as client,
    ):
        yield process, client
