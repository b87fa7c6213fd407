"""Requests to public services: spaced, identified, retried if that can help, and bounded."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from indexer.corpus.lookup.throttled_client import ThrottledClient
from models.errors import ServiceError

URL = "https://api.example.org/works/a"


class Clock:
    """A clock that advances only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.slept.append(seconds)
        self.now += seconds


def client(
    answer: Callable[[httpx.Request], httpx.Response], clock: Clock, **options: Any
) -> ThrottledClient:
    """Return a client of a service that answers with ``answer``."""
    transport = httpx.MockTransport(answer)
    return ThrottledClient(transport=transport, sleep=clock.sleep, clock=lambda: clock.now, **options)


def test_it_says_who_asks() -> None:
    """The User-Agent has the name of the program and, if given, the contact of its user."""
    agents = []

    def answer(request: httpx.Request) -> httpx.Response:
        agents.append(request.headers["User-Agent"])
        return httpx.Response(200, content=b"x")

    for contact in ("", "ada@example.org"):
        with client(answer, Clock(), contact=contact) as polite_client:
            assert b"x" == polite_client.get(URL, {"a": "b"}, every_s=1)
    assert agents[0].startswith("akin/")
    assert agents[1].endswith("(mailto:ada@example.org)")


def test_requests_to_one_host_keep_their_distance() -> None:
    """Requests to one host are spaced; the first one and one to another host are sent at once."""
    clock = Clock()
    with client(lambda _: httpx.Response(200), clock) as polite_client:
        for _ in range(3):
            polite_client.get(URL, {}, every_s=3.0)
        assert [3.0, 3.0] == clock.slept
        polite_client.get("https://other.example.org/", {}, every_s=3.0)
        clock.now += 5
        polite_client.get(URL, {}, every_s=3.0)
    assert [3.0, 3.0] == clock.slept


def test_what_is_not_there_is_none() -> None:
    """A 404 gives ``None`` and is not retried."""
    clock = Clock()
    with client(lambda _: httpx.Response(404), clock) as polite_client:
        assert polite_client.get(URL, {}, every_s=0) is None
    assert [] == clock.slept


def test_failures_are_tried_again_with_growing_pauses() -> None:
    """Failures, also of the connection, are retried with growing pauses, never before the Retry-After."""
    clock = Clock()
    answers: list[httpx.Response | None] = [
        httpx.Response(503),
        None,
        httpx.Response(429, headers={"Retry-After": "30"}),
        httpx.Response(200, content=b"x"),
    ]

    def answer(_: httpx.Request) -> httpx.Response:
        given = answers.pop(0)
        if given is None:
            raise httpx.ConnectTimeout("too slow")
        return given

    with client(answer, clock) as polite_client:
        assert b"x" == polite_client.get(URL, {}, every_s=0)
    assert [2.0, 4.0, 30.0] == clock.slept


@pytest.mark.parametrize(
    ("status", "headers", "n_requests", "reason"),
    [
        (503, {}, 4, r"api\.example\.org: it answers 503"),
        (400, {}, 1, "it answers 400"),
        (429, {"Retry-After": "3600"}, 1, "it answers 429"),
        (302, {"Location": "https://elsewhere.example.org"}, 1, "it answers 302"),
        (0, {}, 4, r"it cannot be reached; check the network \(ConnectError\)"),
        (200, {"Content-Encoding": "gzip"}, 4, "it cannot be reached; .* while decompressing"),
    ],
)
def test_it_gives_up(status: int, headers: dict[str, str], n_requests: int, reason: str) -> None:
    """It gives up after a few tries, or at once if more cannot help; it never goes to another host."""
    hosts = []

    def answer(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        if not status:
            raise httpx.ConnectError("")
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(b"no gzip"))

    with client(answer, Clock()) as polite_client, pytest.raises(ServiceError, match=reason):
        polite_client.get(URL, {}, every_s=0)
    assert ["api.example.org"] * n_requests == hosts


def test_what_is_elsewhere_on_the_host_is_fetched_from_there() -> None:
    """Redirects on the same host are followed at the same pace, at most 5 of them."""
    paths = []
    clock = Clock()

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.raw_path.decode())
        if request.url.path == "/works/b/c":
            return httpx.Response(200, content=b"x")
        return httpx.Response(301, headers={"Location": "/works/b%2Fc" if "?" in paths[-1] else "/round"})

    with client(answer, clock) as polite_client:
        assert b"x" == polite_client.get(URL, {"a": "1"}, every_s=3.0)
        assert ["/works/a?a=1", "/works/b%2Fc"] == paths
        assert [3.0] == clock.slept
        with pytest.raises(ServiceError, match="redirects more than 5 times") as raised:
            polite_client.get(URL, {}, every_s=0)
    assert (302, 7) == (raised.value.status, len(paths))


@pytest.mark.parametrize("location", ["http://api.example.org/b", "https://api.example.org:8443/", "//["])
def test_no_other_address_is_followed(location: str) -> None:
    """A redirect to another port or scheme, or to an invalid address, is not followed."""
    urls = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(request.url)
        return httpx.Response(301, headers={"Location": location})

    with client(answer, Clock()) as polite_client, pytest.raises(ServiceError, match="it answers 301"):
        polite_client.get(URL, {}, every_s=0)
    assert 1 == len(urls)


def test_an_endless_answer_is_given_up() -> None:
    """An answer larger than the limit is refused, so that its memory is bounded."""
    endless = httpx.Response(200, content=b"x" * 11)
    with (
        client(lambda _: endless, Clock(), max_body_bytes=10) as polite_client,
        pytest.raises(ServiceError, match="larger than 10 bytes"),
    ):
        polite_client.get(URL, {}, every_s=0)
