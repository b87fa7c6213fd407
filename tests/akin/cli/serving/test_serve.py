"""Tests of a running `akin serve`: its log, memory, key revocation and shutdown."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from akin.cli.serving import serve
from akin.cli.serving.serve import accept, at, listen
from indexer.files.data_folder import CATALOG_FILE
from models.errors import InputError
from service.access.api_keys import Keys, Scope
from service.settings import Settings
from tests.support.builds import ROOT
from tests.support.servers.patience import soon
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS

SEARCH = {"query": {"title": "Floods", "abstract": "We fit a graph. It forecasts floods."}, "limit": 5}


class Service:
    """A running `akin serve` process."""

    def __init__(self, data: Path, log: Path) -> None:
        self.log = log
        self._connections: list[http.client.HTTPConnection] = []
        arguments = ["serve", "--data", str(data), "--port", "0", "--device", "cpu"]
        with log.open("wb") as written:
            self.process = subprocess.Popen(
                [sys.executable, *AKIN_WITHOUT_WEIGHTS, *arguments],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=written,
                text=True,
                env={
                    **os.environ,
                    "PYTHONUNBUFFERED": "1",
                    "COLUMNS": "300",
                    "AKIN_LOG_LEVEL": "debug",
                },
            )
        assert self.process.stdout is not None
        serving = next((line for line in self.process.stdout if line.startswith("Serving")), log.read_text())
        self.port = int(serving.rpartition("http://")[2].split()[0].rpartition(":")[2])

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection, which stays open until ``stop``."""
        self._connections.append(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30))
        return self._connections[-1]

    def search(self, connection: http.client.HTTPConnection, token: str = "") -> int:
        """Return the HTTP status of a search over a connection."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request("POST", "/v1/search", json.dumps(SEARCH), headers)
        response = connection.getresponse()
        response.read()
        return response.status

    def memory_mib(self) -> float:
        """Return the peak memory of the process, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024

    def stop(self) -> None:
        """Kill the process, whatever its state."""
        for connection in self._connections:
            connection.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def service(hashed_data: Path, tmp_path: Path) -> Iterator[Service]:
    """Yield a service over a copy of the demo collection in ``tmp_path / "data"``."""
    copytree(hashed_data, tmp_path / "data")
    service = Service(tmp_path / "data", tmp_path / "log")
    yield service
    service.stop()


def test_the_demo_keeps_to_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The demo reads and writes its own catalog only, whatever the environment names."""
    served: list[Settings] = []
    monkeypatch.setenv("AKIN_CATALOG_URL", "postgresql://akin@127.0.0.1:1/akin")
    monkeypatch.setattr(serve, "index", lambda *_, **__: None)
    monkeypatch.setattr(serve, "serve_until_stopped", lambda settings, *_, **__: served.append(settings))
    serve.demo(tmp_path)
    assert [tmp_path / CATALOG_FILE] == [settings.catalog for settings in served]


@pytest.mark.system
def test_a_demo_that_is_indexed_is_served_without_a_word_about_indexing(
    monkeypatch: pytest.MonkeyPatch, hashed_data: Path
) -> None:
    """The second `akin demo` indexes nothing, and names no option that it does not have."""
    monkeypatch.setattr(serve, "index", lambda *_, **__: pytest.fail("indexed again"))
    served: list[Settings] = []
    monkeypatch.setattr(serve, "serve_until_stopped", lambda settings, *_, **__: served.append(settings))
    serve.demo(hashed_data)
    assert [hashed_data] == [settings.data for settings in served]


def test_a_revoked_key_is_refused_and_no_key_is_logged(service: Service, tmp_path: Path) -> None:
    """A key created while the service runs is required, and works until revoked; no log shows it."""
    connection = service.connect()
    assert 200 == service.search(connection)
    with Keys.open(tmp_path / "data" / CATALOG_FILE) as keys:
        token = keys.create("a", scope=Scope.READ, expires_days=1).token
        wait_until(401, service, "")
        assert 200 == service.search(connection, token)
        keys.revoke("a")
    wait_until(401, service, token)
    with socket.create_connection(("127.0.0.1", service.port)) as broken:
        broken.sendall(f"GET / HTTP/1.1\r\nAuthorization: Bearer {token}\r\nbroken\r\n\r\n".encode())
        assert broken.recv(100).startswith(b"HTTP/1.1 400")
    service.process.send_signal(signal.SIGINT)
    printed, _ = service.process.communicate(timeout=30)
    logged = service.log.read_text()
    assert "Invalid HTTP request" in logged
    assert token.split("_", 2)[2] not in logged + printed


def wait_until(status: int, service: Service, token: str) -> None:
    """Wait until a search returns this status."""
    connection = service.connect()
    soon(lambda: service.search(connection, token) == status)


@pytest.mark.system
def test_a_large_upload_takes_no_memory(service: Service) -> None:
    """Uploads of 200 MB, declared or chunked, are cut off, and peak memory grows by at most 16 MiB."""
    service.search(service.connect())
    before_mib = service.memory_mib()
    head = "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for framing, part in (
        ("Content-Length: 200000000\r\n\r\n", b" " * 65_536),
        ("Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65_536 + b"\r\n"),
    ):
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as upload:
            upload.sendall((head + framing).encode())
            n_sent = 0
            try:
                while n_sent < 200_000_000:
                    n_sent += upload.send(part)
            except OSError:  # the service has closed the connection, as it should
                pass
            assert n_sent < 50_000_000
    for content in (b" " * 6_000_000, iter([b" " * 100_000] * 60)):
        connection = service.connect()
        connection.request("POST", "/v1/search", content, {"Content-Type": "application/json"})
        assert 413 == connection.getresponse().status
    assert service.memory_mib() - before_mib <= 16


@pytest.mark.system
def test_it_ends_without_breaking_a_request(service: Service) -> None:
    """After SIGTERM /readyz returns 503 while searches are still answered, and no request fails."""
    stop, seen, failures = threading.Event(), [], []

    def ask() -> None:
        connection = service.connect()
        while not stop.is_set():
            try:
                seen.append(service.search(connection))
            except OSError as error:
                failures.append(error)

    def watch() -> None:
        try:
            while "unready" not in seen:
                connection = service.connect()
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 503:
                    seen.append("unready")
                connection.close()
                time.sleep(0.02)
            n_seen = len(seen)
            soon(lambda: 200 in seen[n_seen:])
        finally:
            stop.set()

    threads = [threading.Thread(target=ask) for _ in range(4)] + [threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    soon(lambda: 200 in seen)
    service.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(timeout=60)
    printed, _ = service.process.communicate(timeout=30)
    assert ([], {200, "unready"}) == (failures, set(seen))
    assert 200 in seen[seen.index("unready") :]
    assert printed.endswith("Stopped.\n") or service.process.returncode == -signal.SIGTERM


def test_answers_are_sent_at_once() -> None:
    """Connections set TCP_NODELAY, so that answers do not wait 40 ms for the client's acknowledgement."""

    async def option_of_a_connection() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def met(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            seen.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listen("127.0.0.1", 0)
        async with await asyncio.start_server(met, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            option = await seen
            writer.close()
            await writer.wait_closed()
        return option

    assert 0 != asyncio.run(option_of_a_connection())


def test_a_port_belongs_to_the_first_process_while_it_loads_and_to_the_next_after_it() -> None:
    """A second process is refused before the first accepts connections; lingering ones refuse none."""
    first = listen("127.0.0.1", 0)
    _, port = first.getsockname()
    with pytest.raises(InputError, match="choose another --port"):
        listen("127.0.0.1", port)
    accept(first)
    with pytest.raises(InputError, match="choose another --port"):
        listen("127.0.0.1", port)
    with socket.create_connection(("127.0.0.1", port)):
        first.accept()[0].close()  # whoever closes first keeps the port busy for a minute
    first.close()
    with listen("127.0.0.1", port) as second, listen("127.0.0.1", port) as third:
        accept(second)
        with pytest.raises(InputError, match="choose another --port"):
            accept(third)


def test_an_address_of_another_machine_is_an_error_of_the_host() -> None:
    """Only a port in use is answered with advice about the port; IPv6 addresses stand in brackets."""
    with pytest.raises(InputError, match=r"192\.0\.2\.1:80.*choose another --host"):
        listen("192.0.2.1", 8080)
    assert ("[::1]:80", "127.0.0.1:80") == (at("::1", 80), at("127.0.0.1", 80))
