"""``akin serve`` and ``akin demo``: the HTTP service, run until it is stopped."""

import asyncio
import errno
import gc
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer
import uvicorn
from fastapi import FastAPI
from rich.console import Console

from akin.cli.collection.index import index, is_begun
from akin.cli.consoles import stdout
from akin.cli.options import Data, device_name
from akin.cli.serving.http_protocol import BoundedProtocol, allow_connections
from models.counts import counted
from models.errors import InputError
from service.access.keys import KeyRing, is_loopback
from service.api.services import services_of
from service.app import create_app
from service.cache.store import open_cache
from service.collection.generations import open_warm_engine
from service.observability.logging import configure_logging
from service.settings import Keyless, Settings, settings_of

_KEYLESS_NOTES: Final = {
    Keyless.OFF: "There is no API key, so every request is refused. Create one: `akin keys create`.",
    Keyless.READ: "There is no API key: this machine may search. To write, create one (or set "
    "AKIN_KEYLESS=write).",
    Keyless.WRITE: "There is no API key: this machine may search and write, because AKIN_KEYLESS=write.",
}
_NONE_USABLE: Final = (
    "All API keys are expired or revoked, so every request is refused. Renew one (`akin keys renew`) or "
    "create one (`akin keys create`)."
)
MIN_GRACE_S: Final = 5  # beyond a request's deadline, to finish requests in flight at shutdown


Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")]


class _GracefulServer(uvicorn.Server):
    """A server that announces when it is ready; after SIGTERM it is not, and listens ``drain_s`` longer.

    So a load balancer sees that it is not ready, and sends requests elsewhere before connections are refused.
    """

    def __init__(
        self, config: uvicorn.Config, app: FastAPI, *, announce: Callable[[], None], drain_s: float
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._app = app
        self._drain_s = drain_s
        self._drains = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._drains = sig == signal.SIGTERM  # Ctrl-C does not wait
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        services_of(self._app).draining = True
        ends_at = time.monotonic() + self._drain_s
        while self._drains and time.monotonic() < ends_at:
            await asyncio.sleep(min(0.05, self._drain_s))
        await super().shutdown(sockets)


def serve_until_stopped(settings: Settings, console: Console, *, hint: str = "") -> None:
    """Open the snapshot, listen, and answer until interrupted; ``hint`` is printed when the service is ready.

    Raises SnapshotError, EncoderError, StorageError, InputError (the port is taken, or there is no key, and
    others than the user of this machine could use the service).
    """
    configure_logging(settings.log_level)
    allow_connections()
    about_keys = _keys_note(settings)
    with listen(settings.host, settings.port) as listener:
        _serve_on(listener, settings, console, notes=[note for note in (about_keys, hint) if note])
    console.print("Stopped.")


def _serve_on(listener: socket.socket, settings: Settings, console: Console, *, notes: Sequence[str]) -> None:
    with console.status("Opening the snapshot and loading the encoder"):
        cache = open_cache(settings)
        engine = open_warm_engine(settings, cache)
        # Everything loaded until now stays: without this the garbage collector scans it all during requests,
        # for 0.25 s at a time.
        gc.collect()
        gc.freeze()
    host, port = listener.getsockname()[:2]

    n_papers = len(engine.snapshot)

    def announce() -> None:
        console.print(f"Serving {counted(n_papers, 'paper')} on http://{at(host, port)} (stop with Ctrl-C)")
        for note in notes:
            console.print(note, soft_wrap=True)

    app = create_app(settings, engine, cache=cache)
    del engine  # the application releases it too when another generation is served
    config = uvicorn.Config(
        app,
        log_config=None,  # log as the rest of the program does
        log_level=settings.log_level,
        access_log=False,
        http=BoundedProtocol,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=settings.deadline_ms // 1000 + MIN_GRACE_S,
    )
    accept(listener)
    server = _GracefulServer(config, app, announce=announce, drain_s=settings.drain_ms / 1000)
    with suppress(KeyboardInterrupt):  # the way to stop it; requests in flight are finished then
        server.run(sockets=[listener])


def _keys_note(settings: Settings) -> str:
    """Return a note on what is possible without a usable key if there is none, or "" if there is one.

    Raises InputError if no key was ever created, and other machines, or pages of any web site, can use the
    service.
    """
    keys = KeyRing(settings.catalog)
    keys.read_if_reachable()
    keys.close()
    if not keys.known or keys.any_usable():
        return ""
    if not keys.empty:
        return _NONE_USABLE
    if not is_loopback(settings.host):
        raise InputError(
            f"Other machines can reach the address {settings.host}, and there is no API key: anybody could "
            f"use the service. Create one first, `akin keys create NAME --data {settings.data}`, or listen "
            "on 127.0.0.1."
        )
    if "*" in settings.cors_origin_list and settings.keyless is not Keyless.OFF:
        raise InputError(
            "AKIN_CORS_ORIGINS=* lets every web site that somebody visits on this machine use the service, "
            f"and there is no API key. Create one first, `akin keys create NAME --data {settings.data}`, or "
            "name the origins."
        )
    return _KEYLESS_NOTES[settings.keyless]


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address; raises InputError if it cannot be, or if another process has it.

    It accepts no connections yet, so that balancers turn to other services while this one loads.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With IPPROTO_TCP given, asyncio sets TCP_NODELAY; without it, an answer over a kept-alive connection
    # would wait 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with _port_errors(listener, host, port):
        try:
            # With SO_REUSEADDR, two processes that load at the same time would both bind the port.
            listener.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # Old connections of a process that ended may be all that holds it.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    return listener


def accept(listener: socket.socket) -> None:
    """Accept connections; raises InputError if another process does so by now. uvloop would say nothing."""
    with _port_errors(listener, *listener.getsockname()[:2]):
        listener.listen()
    # Connections inherit it: those that linger do not keep the port from the next process.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


@contextmanager
def _port_errors(listener: socket.socket, host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        listener.close()
        at_fault = "--port" if error.errno in {errno.EADDRINUSE, errno.EACCES} else "--host"
        raise InputError(
            f"Cannot listen on {at(host, port)} ({error.strerror}); choose another {at_fault}"
        ) from error


def at(host: str, port: int) -> str:
    """Return host and port as in an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve(
    data: Data,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Default: the one the snapshot was built with.")] = None,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or cuda:N.", callback=device_name)
    ] = None,
    keyless: Annotated[
        Keyless | None,
        typer.Option(
            metavar="<access>", help="What this machine may do while there is no API key. Default: read."
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Hold the indexes on a Ray cluster: its address, or local to start one here."),
    ] = None,
) -> None:
    """Serve the collection in --data over HTTP. AKIN_* variables set options that are not given."""
    given = {"data": data, "host": host, "port": port, "encoder": encoder, "device": device}
    serve_until_stopped(settings_of(**given, keyless=keyless, ray=ray), stdout)


# Neither from AKIN_DATA nor with AKIN_CATALOG_URL: invented papers must not be added to a real collection.
DemoData = Annotated[Path, typer.Option("--data", help="The data folder.", file_okay=False)]


def demo(data: DemoData = Path(".demo"), port: Port = 8000) -> None:
    """Index the demo corpus (invented papers) if it is not indexed yet, then serve it."""
    with resources.as_file(resources.files("akin") / "demo" / "papers.jsonl") as corpus:
        if not is_begun(data):
            index([corpus], data, first=True)
    settings = settings_of(data=data, port=port, keyless=Keyless.WRITE)
    serve_until_stopped(settings.model_copy(update={"catalog_url": None}), stdout, hint=_demo_hint(data))


def _demo_hint(data: Path) -> str:
    program = "akin" if shutil.which("akin") else sys.argv[0]  # such as .venv/bin/akin
    example = "--paper demo:p09-m05 --facet method --unlike background"
    return (
        "In another terminal, find papers with the same method as one paper but another background:\n"
        f"{program} search --data {shlex.quote(str(data))} {example}"
    )
