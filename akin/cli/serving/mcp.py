"""``akin mcp``: serves search to language models, over standard input and output or HTTP."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import httpx
import typer

from akin.cli.consoles import stderr
from akin.cli.options import Device, MaybeData
from akin.client.async_client import AsyncClient
from akin.client.base_client import DEFAULT_URL
from models.errors import InputError
from models.registry import resolve
from service.app import create_app
from service.collection.generations import open_engine
from service.settings import Settings, settings_of

# Loaded when asked for: the package behind it is an extra.
_PROTOCOLS = {"mcp": "akin.mcp.tools:make_server"}


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
    make_server = resolve(_PROTOCOLS, "mcp", "protocol")
    settings = None if data is None else settings_of(data=data, device=device)
    anyio.run(_serve, make_server, url, key, settings, port if transport == "http" else None)


async def _serve(
    make_server: Any, url: str, key: str | None, settings: Settings | None, port: int | None
) -> None:
    """Answers until the client hangs up or the process is interrupted; ``port`` is ``None`` for stdio."""
    asking = AsyncClient(url, key=key) if settings is None else in_process(settings)
    async with asking as client:
        server = make_server(client)
        if port is None:
            await server.run_stdio_async()
        else:
            stderr.print(f"Tools at http://127.0.0.1:{port}/mcp (stop with Ctrl-C)")
            # Nothing is kept between calls; and on this machine alone, for there is no key to ask for.
            await server.run_streamable_http_async(port=port, stateless_http=True, json_response=True)


@asynccontextmanager
async def in_process(settings: Settings) -> AsyncIterator[AsyncClient]:
    """A client of the service over ``settings.data``, without a network; the engine is loaded first.

    Raises SnapshotError, EncoderError.
    """
    engine = open_engine(settings)
    engine.warm_up()
    with tempfile.TemporaryDirectory() as elsewhere:
        # The keys of the folder guard its service's door; whoever can read the folder needs none. Nor is this
        # the service: its batches, rates and kept answers are no concern of ours.
        alone = {"data": Path(elsewhere), "catalog_url": None, "redis_url": None}
        app = create_app(settings.model_copy(update=alone), engine)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            AsyncClient(DEFAULT_URL, transport=transport, timeout_s=settings.deadline_s) as client,
        ):
            yield client
