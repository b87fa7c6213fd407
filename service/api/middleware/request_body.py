"""Request bodies: read completely before any work, within limits of size, time and memory."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from models.errors import BodyTooLargeError, OverloadedError
from service.context import Deadline, stage

MAX_HELD_BYTES: Final = 80_000_000  # of all requests together
# Bodies up to _SMALL_BYTES still find room when larger ones have used up their limit, and no caller gets
# more than a share: a caller who sends much, or slowly, keeps nobody else out.
_SMALL_BYTES: Final = 2_000_000
_MAX_LARGE_BYTES: Final = 64_000_000
_MAX_BYTES_OF_ONE: Final = 40_000_000
BODY_TIMEOUT_S: Final = 30.0
# How much of a body that is too large is still read, and dropped, before the connection is closed: a client
# that is cut off while it sends would not read the reason.
_LINGER_BYTES: Final = 8_000_000
_LINGER_S: Final = 2.0


class Body:
    """A body that was read; the application reads it again with ``receive``."""

    def __init__(self, content: bytes, receive: Receive) -> None:
        self._content: bytes | None = content
        self._receive = receive
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        """Return the body; on the next call, wait until the client disconnects and return that."""
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    @asynccontextmanager
    async def watched(self, deadline: Deadline) -> AsyncIterator[None]:
        """Abandon ``deadline`` as soon as the client disconnects, until the context ends."""
        task = asyncio.create_task(self._watch(deadline))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _watch(self, deadline: Deadline) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        deadline.abandon()
        self._gone.set()


class Bodies:
    """The bodies of requests that have not ended: ``held`` bytes in memory, also counted by caller."""

    def __init__(self) -> None:
        self.held = 0
        self._held_of: Counter[str] = Counter()

    @asynccontextmanager
    async def read(self, request: Request, receive: Receive, *, most: int) -> AsyncIterator[Body]:
        """Yield the body of ``request``, of at most ``most`` bytes, counted as held until the context ends.

        Raises BodyTooLargeError before more is read, OverloadedError if the bodies of all requests, or of
        this caller, would take too much memory, HTTPException 415 (compressed) and 408 (too slow).
        """
        if request.headers.get("content-encoding", "").lower() not in ("", "identity"):
            raise HTTPException(415, "The body is compressed; send it as it is, without Content-Encoding.")
        declared = request.headers.get("content-length", "0")
        if declared.isdecimal() and (len(declared) > 12 or int(declared) > most):
            raise _too_large(most)
        content = bytearray()
        try:
            await self._read_in_time(content, request, receive, most)
            yield Body(bytes(content), receive)
        finally:
            self._hold(-len(content), _name_of(request))

    async def _read_in_time(self, content: bytearray, request: Request, receive: Receive, most: int) -> None:
        try:
            with stage("body"), anyio.fail_after(BODY_TIMEOUT_S):
                await self._read_into(content, request, receive, most)
        except TimeoutError as error:
            raise HTTPException(408, f"The body did not arrive within {BODY_TIMEOUT_S:g} s.") from error

    async def _read_into(self, content: bytearray, request: Request, receive: Receive, most: int) -> None:
        more = True
        while more:
            message = await receive()
            part = message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
            request.state.body_ended = not more
            if len(content) + len(part) > most:
                raise _too_large(most)
            self._expect_room(len(content), len(part), _name_of(request))
            content += part
            self._hold(len(part), _name_of(request))

    def _expect_room(self, n_read: int, n_more: int, name: str) -> None:
        """Raise OverloadedError if there is no room for ``n_more`` bytes of a body after ``n_read`` bytes."""
        large = n_read + n_more > _SMALL_BYTES
        room = (_MAX_LARGE_BYTES if large else MAX_HELD_BYTES) - self.held
        if n_more > min(room, _MAX_BYTES_OF_ONE - self._held_of[name]):
            raise OverloadedError("Too many large requests at once; try again later.", retry_after_s=1)

    def _hold(self, n: int, name: str) -> None:
        self.held += n
        self._held_of[name] += n
        if not self._held_of[name]:
            del self._held_of[name]


async def refuse_the_rest(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response to a client that is still sending, read a little more of its body, and end."""

    async def send_unfinished(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    await response(scope, receive, send_unfinished)
    n_read, more = 0, not scope["state"].get("body_ended", False)
    with anyio.move_on_after(_LINGER_S):
        while more and n_read < _LINGER_BYTES:
            message = await receive()
            n_read += len(message.get("body", b""))
            more = message["type"] == "http.request" and message.get("more_body", False)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _name_of(request: Request) -> str:
    """Return the name of the caller; all unknown callers share an empty name."""
    caller = getattr(request.state, "caller", None)
    return "" if caller is None else caller.name


def _too_large(most: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"The body is larger than {most:,} bytes, the limit of this service; send it in parts."
    )
