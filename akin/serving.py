"""Runs the HTTP service in the foreground until it is stopped; the settings that commands give it."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from pydantic import ValidationError
from rich.console import Console

from models.errors import InputError
from service.app import create_app
from service.search import open_engine
from service.settings import Settings
from service.telemetry import configure_logging


class _AnnouncedServer(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


def settings_of(**given: Any) -> Settings:
    """The settings of the environment, but for what is given and not ``None``; raises InputError."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"Setting AKIN_{str(first['loc'][0]).upper()}: {first['msg']}.") from error


def serve_until_stopped(settings: Settings, console: Console, *, hint: str = "") -> None:
    """Open the snapshot, listen, and answer until interrupted; ``hint`` is printed once it is ready.

    Raises SnapshotError, EncoderError, InputError (the port is taken).
    """
    configure_logging(settings.log_level)
    listener = _listen(settings.host, settings.port)
    with console.status("Opening the snapshot and loading the encoder"):
        engine = open_engine(settings)
        engine.warm_up()
    host, port = listener.getsockname()[:2]

    def announce() -> None:
        console.print(f"Serving {len(engine.snapshot):,} papers on http://{host}:{port} (stop with Ctrl-C)")
        if hint:
            console.print(hint, markup=False, soft_wrap=True)

    config = uvicorn.Config(create_app(settings, engine), log_level=settings.log_level, access_log=False)
    with suppress(KeyboardInterrupt):  # how a person stops it; requests under way were finished
        _AnnouncedServer(config, announce).run(sockets=[listener])
    console.print("Stopped.")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"Cannot listen on {host}:{port} ({error.strerror}); choose another --port"
        ) from error
    return listener
