"""Tests of Akin as process 1 of a container, which gets no signal that it has no handler for."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.builds import DEMO_CORPUS, ROOT
from tests.support.servers.patience import soon

pytestmark = pytest.mark.system

# A user other than root becomes root in a new namespace.
_ALONE = [
    "unshare",
    *(["--map-root-user"] if os.geteuid() else []),
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
ENDED_BY_SIGTERM = 128 + signal.SIGTERM
SERVE = ("serve", "--port", "0")
WORKER = ("worker",)
INDEX = ("index", str(DEMO_CORPUS))


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    """Skip the tests if no process can be the first of a namespace."""
    if not shutil.which("unshare"):
        pytest.skip("a process is made process 1 with unshare of util-linux")
    tried = subprocess.run([*_ALONE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine lets this user make no namespace of processes: {tried.stderr}")


class FirstProcess:
    """A command of Akin that runs as process 1 of a namespace."""

    def __init__(self, *arguments: str, data: Path, **variables: str) -> None:
        self._unshare = subprocess.Popen(
            [*_ALONE, sys.executable, "-m", "akin", *arguments, "--data", str(data)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "300", **variables},
        )

    def says(self, beginning: str) -> bool:
        """Return whether the process prints a line with this beginning; wait for it."""
        assert self._unshare.stdout is not None
        return any(line.startswith(beginning) for line in self._unshare.stdout)

    @contextmanager
    def holding(self, held: Path) -> Iterator[None]:
        """Wait until the process has opened a named pipe, and keep it waiting there."""
        found: list[int] = []

        def opened() -> bool:
            with suppress(OSError):  # fails until somebody reads
                found.append(os.open(held, os.O_WRONLY | os.O_NONBLOCK))
            return bool(found)

        soon(opened, process=self._unshare)
        try:
            yield
        finally:
            os.close(found[0])

    def terminated(self) -> int:
        """Send SIGTERM and return the exit status."""
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        os.kill(int(children.read_text(encoding="utf-8")), signal.SIGTERM)
        return self._unshare.wait(timeout=60)

    def kill(self) -> None:
        """Kill the process, whatever its state."""
        self._unshare.kill()
        self._unshare.communicate()


@contextmanager
def first_process(*arguments: str, data: Path, **variables: str) -> Iterator[FirstProcess]:
    """Yield a command of Akin as process 1, and kill it at the end."""
    process = FirstProcess(*arguments, data=data, **variables)
    try:
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("command", "module"),
    [
        *((command, "typer") for command in (SERVE, WORKER, INDEX)),
        (SERVE, "uvicorn"),
        (WORKER, "sqlalchemy"),
        *((command, "torch") for command in (SERVE, INDEX)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_sigterm_ends_it_while_it_loads(
    command: Sequence[str], module: str, hashed_data: Path, tmp_path: Path
) -> None:
    """SIGTERM ends the process while it imports any of its packages, so that no container must be killed."""
    held = tmp_path / "held"
    os.mkfifo(held)
    # A signal just before a blocking read would not end the read.
    waits = f"import time\nopen({str(held)!r})\nwhile True:\n    time.sleep(0.01)\n"
    (tmp_path / f"{module}.py").write_text(waits, encoding="utf-8")
    data = tmp_path / "data" if command is INDEX else hashed_data
    variables = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "AKIN_ENCODER": "minilm"}
    with first_process(*command, data=data, **variables) as process, process.holding(held):
        assert ENDED_BY_SIGTERM == process.terminated()


@pytest.mark.parametrize(
    ("command", "ready", "status"),
    [(SERVE, "Serving", ENDED_BY_SIGTERM), (WORKER, "Processing", 0)],
    ids=["serve", "worker"],
)
def test_sigterm_ends_it_when_it_is_ready(
    command: Sequence[str], ready: str, status: int, hashed_data: Path
) -> None:
    """After SIGTERM, service and worker end with the exit status of an ordinary process."""
    with first_process(*command, data=hashed_data) as process:
        assert process.says(ready)
        assert status == process.terminated()
