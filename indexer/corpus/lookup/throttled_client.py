"""A client for public services: one request at a time, at a low rate, with the pauses that they request."""

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final, Self

import httpx

from models.errors import ServiceError

# The longest pause that a service may request, in seconds; a longer one ends the attempts.
_MAX_PAUSE_S: Final = 60.0
_RETRY_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_MAX_REDIRECTS: Final = 5


class ThrottledClient:
    """A client that waits between requests, identifies itself, and retries a few times with growing pauses.

    ``contact`` is an e-mail address at which the services reach the user. Use it as a context manager.
    """

    def __init__(
        self,
        *,
        contact: str = "",
        transport: httpx.BaseTransport | None = None,
        timeout_s: float = 30.0,
        tries: int = 4,
        back_off_s: float = 2.0,
        max_body_bytes: int = 32 * 2**20,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.contact = contact
        who = f"akin/{version('akin')}" + (f" (mailto:{contact})" if contact else "")
        self._http = httpx.Client(headers={"User-Agent": who}, timeout=timeout_s, transport=transport)
        self._tries = tries
        self._back_off_s = back_off_s
        self._max_body_bytes = max_body_bytes
        self._sleep = sleep
        self._clock = clock
        self._last: dict[str, float] = {}  # the time of the last request to each host

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, url: str, params: Mapping[str, str], *, every_s: float) -> bytes | None:
        """Return the body at ``url``, or ``None`` if there is nothing (404); raises ServiceError.

        Two requests to one host begin at least ``every_s`` seconds apart. Redirects to the same host are
        followed.
        """
        address = httpx.URL(url, params=dict(params)) if params else httpx.URL(url)
        for _ in range(_MAX_REDIRECTS):
            answer = self._answer(address, every_s)
            if not isinstance(answer, httpx.URL):
                return answer
            address = answer
        raise _error(address, f"it redirects more than {_MAX_REDIRECTS} times", 302)

    def _answer(self, url: httpx.URL, every_s: float) -> bytes | httpx.URL | None:
        """Return the body at ``url``, the address on the same host it redirects to, or ``None`` (404)."""
        reason, status = "", None
        for attempt in range(self._tries):
            self._wait(url.host, every_s)
            pause = self._back_off_s * 2**attempt
            try:
                with self._http.stream("GET", url) as response:
                    if response.status_code == httpx.codes.NOT_FOUND:
                        return None
                    if response.status_code == httpx.codes.OK:
                        return _body(response, self._max_body_bytes)
                    if (elsewhere := _elsewhere(response)) is not None:
                        return elsewhere
                    reason, status = f"it answers {response.status_code}", response.status_code
                    retry_after_s = _retry_after_s(response)
            except httpx.RequestError as error:
                reason, status, retry_after_s = (
                    f"it cannot be reached; check the network ({str(error) or type(error).__name__})",
                    None,
                    0.0,
                )
            if retry_after_s > _MAX_PAUSE_S or (status is not None and status not in _RETRY_STATUSES):
                break
            if attempt + 1 < self._tries:
                self._sleep(max(pause, retry_after_s))
        raise _error(url, reason, status)

    def _wait(self, host: str, every_s: float) -> None:
        """Wait until ``every_s`` seconds have passed since the last request to ``host``."""
        if host in self._last and (left_s := self._last[host] + every_s - self._clock()) > 0:
            self._sleep(left_s)
        self._last[host] = self._clock()


def _elsewhere(response: httpx.Response) -> httpx.URL | None:
    """Return the address that a response redirects to, if it is on the same host, else ``None``."""
    if not response.has_redirect_location:
        return None
    try:
        address = response.url.join(response.headers["Location"])
    except httpx.InvalidURL:
        return None
    here = (response.url.scheme, response.url.host, response.url.port)
    return address if here == (address.scheme, address.host, address.port) else None


def _error(url: httpx.URL, reason: str, status: int | None) -> ServiceError:
    return ServiceError(f"{url.host}: {reason}", type="lookup", status=status)


def _retry_after_s(response: httpx.Response) -> float:
    """Return the seconds of ``Retry-After``, or 0 without it; dates, which few services send, count as 0."""
    given = response.headers.get("Retry-After", "")
    return float(given) if given.isascii() and given.isdecimal() else 0.0


def _body(response: httpx.Response, max_bytes: int) -> bytes:
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > max_bytes:
            raise _error(response.url, f"the answer is larger than {max_bytes:,} bytes", None)
    return bytes(body)
