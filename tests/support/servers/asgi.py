"""A minimal ASGI server in the test, so that no client library corrects a hostile request."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote

from fastapi import FastAPI
from starlette.types import Message

MARK = "zqPoisonqz"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the application."""

    status: int
    headers: dict[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Poison:
    """A hostile request; ``path`` replaces the parameters of a path, ``chunks`` is the body as it arrives."""

    name: str
    chunks: Sequence[bytes] = ()
    path: str = MARK
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    content_type: bytes | None = b"application/json"


class Application:
    """An application that receives requests by ASGI, without a client library that would correct them."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._loop.run_until_complete(
            self._stack.enter_async_context(self._app.router.lifespan_context(self._app))
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._stack.aclose())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def send(self, method: str, raw_path: bytes, poison: Poison) -> Answer:
        """Return the answer to a request; raises the application's exception if there is no answer."""
        return self._loop.run_until_complete(self._send(method, raw_path, poison))

    async def _send(self, method: str, raw_path: bytes, poison: Poison) -> Answer:
        chunks = list(poison.chunks) or [b""]
        sent: list[Message] = []
        done = asyncio.Event()

        async def receive() -> Message:
            if chunks:
                return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        given = () if poison.content_type is None else ((b"content-type", poison.content_type),)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "root_path": "",
            "query_string": poison.query,
            "headers": [(b"host", b"localhost"), *given, *poison.headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        task = asyncio.ensure_future(self._app(scope, receive, send))
        await asyncio.wait({task}, timeout=60)
        if not sent:
            task.result()
        task.exception()  # a bug of ours is raised again after the answer; retrieve it
        start = next(message for message in sent if message["type"] == "http.response.start")
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(start["status"], headers, b"".join(message.get("body", b"") for message in sent))


def endpoints(app: FastAPI) -> list[tuple[str, str]]:
    """Return method and path pattern of every endpoint, including health."""
    return sorted(
        (method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods
    )


def raw_path(pattern: str, poison: Poison) -> bytes:
    """Return the path of a pattern, with the path of ``poison`` for each parameter."""
    return re.sub(r"\{[^}]*\}", lambda _: poison.path, pattern).encode("ascii")
