"""HTTP connections whose heads are bounded in size and time, and trailers in size."""

import asyncio
import resource
from contextlib import suppress
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 128 * 1024  # the parser takes addresses of at most 65,535 bytes
HEAD_S: Final = 30.0
_MAX_FILES: Final = 65_536


class BoundedProtocol(HttpToolsProtocol):
    """The protocol of uvicorn; closes a connection whose head comes too slowly, or whose head is too large.

    A head is the request line with the headers; trailers and heads of chunks have the same limit. The parser
    holds an unfinished head, of any size, and the application is called only after the head.
    """

    max_head_bytes = MAX_HEAD_BYTES
    head_s = HEAD_S

    def __init__(self, *given: Any, **keywords: Any) -> None:
        super().__init__(*given, **keywords)
        self._n_pending = 0  # bytes since the last complete head, part of a body, or end of a request
        self._advanced = False
        self._expiry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        super().connection_lost(exc)
        self._end_wait()

    def data_received(self, data: bytes) -> None:
        """Parse the data, then close the connection if it has sent too much of a head."""
        self._advanced = False
        super().data_received(data)
        self._n_pending = 0 if self._advanced else self._n_pending + len(data)
        if self.transport.is_closing():
            return
        if self._n_pending > self.max_head_bytes:
            self._refuse()
        elif self._expiry is None and self.cycle is not None and self.cycle.response_complete:
            self._expect_head()  # data ends the wait of uvicorn for another request, even a line break

    def on_message_begin(self) -> None:
        """Begin to wait for a head if this is not the first request."""
        super().on_message_begin()
        if self._expiry is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """End the wait, and answer the request."""
        self._advanced = True
        self._end_wait()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take the end of the request."""
        self._advanced = True
        super().on_message_complete()

    def _expect_head(self) -> None:
        self._expiry = self.loop.call_later(self.head_s, self.transport.close)

    def _end_wait(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _refuse(self) -> None:
        """Close the connection, with an answer unless a request is being answered."""
        if self.cycle is None or self.cycle.response_complete:
            self.send_400_response(f"The address and headers have over {self.max_head_bytes:,} bytes.")
        else:
            self.transport.close()


def allow_connections() -> None:
    """Raise the limit of open files as far as the system allows, since each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):  # a kernel may allow fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
