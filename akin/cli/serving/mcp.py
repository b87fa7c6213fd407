"""``akin mcp``: search for language models, over standard input and output or HTTP."""

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import anyio
import httpx
import typer
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from akin.cli.consoles import stderr
from akin.cli.options import Device, MaybeData
from akin.cli.serving.serve import accept, listen
from akin.client.async_client import AsyncClient
from akin.client.base_client import DEFAULT_URL
from models.errors import AkinError, InputError
from models.extras import needed
from service.app import create_app
from service.cache.store import open_cache
from service.collection.generations import Engines, open_warm_engine
from service.search.engine import SearchEngine
from service.settings import Keyless, Settings, settings_of


def mcp(
    url: Annotated[str, typer.Option(help="The address of a running service to ask.")] = "",
    data: MaybeData = None,
    transport: Annotated[
        Literal["stdio", "http"], typer.Option(help="Standard input and output, or HTTP on this machine.")
    ] = "stdio",
    port: Annotated[int, typer.Option(min=1, max=65535, help="For HTTP: http://127.0.0.1:PORT/mcp")] = 8001,
    key: Annotated[str | None, typer.Option(envvar="AKIN_KEY", help="An API key for --url.")] = None,
    device: Device = "auto",
) -> None:
    """Serve search to language models as read-only tools over the Model Context Protocol (MCP)."""
    if bool(url) == (data is not None):
        raise InputError(f"Give either --url, such as {DEFAULT_URL}, or --data, a folder that was indexed.")
    with needed("akin mcp", extra="mcp"):
        from akin.mcp.tools import make_server
    settings = None if data is None else settings_of(data=data, device=device)
    with ExitStack() as held:
        # Bound before the folder is loaded, so that a port that is taken is an error at once.
        listener = held.enter_context(listen("127.0.0.1", port)) if transport == "http" else None
        anyio.run(_serve, make_server, url, key, settings, listener)


async def _serve(
    make_server: Any, url: str, key: str | None, settings: Settings | None, listener: socket.socket | None
) -> None:
    """Serve until the client disconnects or the process is ended; ``listener`` is ``None`` for stdio."""
    asking = AsyncClient(url, key=key) if settings is None else in_process(settings)
    async with asking as client:
        server = make_server(client)
        if listener is None:
            # Ctrl-C ends the process, too: a thread that waits for input cannot be interrupted.
            signal.signal(signal.SIGINT, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
            await server.run_stdio_async()
        else:
            # No state between calls; only on this machine, because there is no check of a key.
            tools = server.streamable_http_app(stateless_http=True, json_response=True)
            accept(listener)
            stderr.print(f"Tools at http://127.0.0.1:{listener.getsockname()[1]}/mcp (stop with Ctrl-C)")
            await uvicorn.Server(uvicorn.Config(tools)).serve(sockets=[listener])


@asynccontextmanager
async def in_process(settings: Settings) -> AsyncIterator[AsyncClient]:
    """Yield a client of a service over ``settings.data``, without a network; the engine is loaded first.

    Each request is answered by the generation published when it begins, without a cluster. Raises
    SnapshotError, EncoderError.
    """
    settings = settings.model_copy(update={"ray": ""})
    with tempfile.TemporaryDirectory() as elsewhere, _removed_at_sigterm(elsewhere):
        # An empty folder instead of the data folder: who can read that needs no key, and this process shares
        # no batches, rate limits or cached answers with the folder's service.
        alone = {"data": Path(elsewhere), "catalog_url": None, "redis_url": None, "keyless": Keyless.READ}
        own = settings.model_copy(update=alone)
        cache = open_cache(own)
        engines = _UnpagedEngines.of(settings, open_warm_engine(settings, cache), cache)
        app = create_app(own, cache=cache, engines=engines)
        transport = httpx.ASGITransport(_following(app, engines), raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            AsyncClient(DEFAULT_URL, transport=transport, timeout_s=settings.deadline_s) as client,
        ):
            yield client


@contextmanager
def _removed_at_sigterm(folder: str) -> Iterator[None]:
    """Let SIGTERM remove the folder and end the process at once, even while a thread waits for input."""

    def end(number: int, _frame: FrameType | None) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _UnpagedEngines(Engines):
    """The engines of a folder searched without cursors: superseded generations are released at once."""

    def pin(self, engine: SearchEngine) -> None:
        """Do nothing, because no cursor leads back to ``engine``."""


def _following(app: ASGIApp, engines: Engines) -> ASGIApp:
    """Return the application, which follows the published generation before each answer."""

    def follow() -> None:
        with suppress(AkinError):  # the older generation answers then, and the application logs why
            engines.follow()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await anyio.to_thread.run_sync(follow)
        await app(scope, receive, send)

    return answer
