"""Tests of the limits of connections: heads and trailers that are too large or too slow end them."""

import resource
import socket
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from akin.cli.serving.http_protocol import BoundedProtocol, allow_connections
from tests.support.servers.loopback import served

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
MOST = 64 * 1024 * 1024  # bytes; far more than the limits and the buffers of both sockets hold


class Impatient(BoundedProtocol):
    """The protocol with less time for a head."""

    head_s = 0.5


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the body, then answer with its length."""
    n_bytes, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        n_bytes, more = n_bytes + len(message["body"]), message["more_body"]
    said = str(n_bytes).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]}
    )
    await send({"type": "http.response.body", "body": said})


@pytest.fixture(scope="module", params=[BoundedProtocol, Impatient])
def address(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """Yield the address of a server with this protocol."""
    with served(app, http=request.param, lifespan="off") as address:
        host, _, port = address.removeprefix("http://").rpartition(":")
        yield host, int(port)


def sent(address: tuple[str, int], begin: bytes, more: bytes) -> int:
    """Send ``begin`` and then ``more`` many times; return the bytes sent until the connection ended."""
    with socket.create_connection(address, timeout=60) as connection:
        n_sent = 0
        try:
            connection.sendall(begin)
            for each in repeat(more, MOST // len(more)):
                connection.sendall(each)
                n_sent += len(each)
        except OSError:
            pass
        return n_sent


@pytest.mark.parametrize("address", [BoundedProtocol], indirect=True)
@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"a" * 60_000),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"a" * 60_000),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"A: b\r\n" * 10_000),
        (CHUNKED + b"0\r\n", b"A: b\r\n" * 10_000),
        (CHUNKED + b"1;", b"a" * 60_000),
    ],
    ids=["address", "header", "headers", "trailers", "chunk extension"],
)
def test_an_endless_head_ends_the_connection(address: tuple[str, int], begin: bytes, more: bytes) -> None:
    """A head, trailers and the head of a chunk that do not end are not read on."""
    assert sent(address, begin, more) < MOST / 2


@pytest.mark.parametrize("address", [BoundedProtocol], indirect=True)
def test_bodies_and_long_addresses_are_read(address: tuple[str, int]) -> None:
    """A body of any size, whole or in chunks, and an address of 60,000 bytes are answered, one by one."""
    chunks = 30 * (b"10000\r\n" + b"a" * 0x10000 + b"\r\n") + b"0\r\nA: b\r\n\r\n"
    requests = {
        b"POST / HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n" + b"a" * 2_000_000: b"2000000",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks: b"1966080",
        b"GET /?" + b"a" * 60_000 + b" HTTP/1.1\r\n\r\n": b"0",
    }
    with socket.create_connection(address, timeout=60) as connection:
        for request, expected in requests.items():
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b"\r\n\r\n" + expected):
                answer += (got := connection.recv(10_000))
                assert got, answer


@pytest.mark.parametrize("address", [Impatient], indirect=True)
@pytest.mark.parametrize("whole", [b"", b"GET / HTTP/1.1\r\n\r\n"], ids=["first", "second"])
@pytest.mark.parametrize("begin", [b"", b"\r\n", b"GET / HT"])
def test_a_head_that_does_not_come_ends_the_connection(
    address: tuple[str, int], whole: bytes, begin: bytes
) -> None:
    """An idle connection, an unfinished first head, and an unfinished second head end it."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(whole)
        if whole:
            assert connection.recv(10_000)
        connection.sendall(begin)
        while connection.recv(10_000):
            pass


def test_the_limit_of_open_files_is_raised() -> None:
    """The soft limit becomes the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        allow_connections()
        assert min(hard, 65_536) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
