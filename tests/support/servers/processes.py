"""Commands of Akin in separate processes."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.builds import ROOT

# Akin as a user starts it.
AKIN = ("-m", "akin")
# The same, but with the hashing encoder instead of models that load torch: most tests of a process test other
# things, and start in half the time.
AKIN_WITHOUT_WEIGHTS = (
    "-c",
    """
import sys
import service.collection.generations
from akin.cli.app import app
from tests.support.annotators import hashing_annotator

service.collection.generations.load_annotator = lambda *_, **__: hashing_annotator()
app(sys.argv[1:])
""",
)


@contextmanager
def akin_process(
    *arguments: str, ready: str, program: Sequence[str] = AKIN, **variables: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run a command as a process and yield it with its line that begins with ``ready``; finally kill it."""
    process = subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=ROOT,
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
def service_process(
    data: Path, *, program: Sequence[str] = AKIN, **variables: str
) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """Run `akin serve` as a process; yield it and a client of it."""
    serve = ("serve", "--data", str(data), "--port", "0", "--device", "cpu")
    with (
        akin_process(*serve, ready="Serving", program=program, **variables) as (process, line),
        httpx.Client(base_url=f"http://{line.split('http://')[1].split()[0]}", timeout=30) as client,
    ):
        yield process, client
