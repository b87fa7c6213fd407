"""A real server on loopback, for clients that cannot call an application in-process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.support.servers.patience import soon


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(app: Any, *, own_log: bool = False, **config: Any) -> Iterator[str]:
    """Serve an ASGI ``app`` with uvicorn in a thread and yield its address.

    ``own_log`` leaves logging unchanged; ``config`` are further settings of uvicorn.
    """
    logs: dict[str, Any] = {"log_config": None, "access_log": False} if own_log else {"log_level": "error"}
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, **logs, **config))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        soon(lambda: server.started or not thread.is_alive())
        assert thread.is_alive(), "the server failed"
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        assert not thread.is_alive(), "the server did not end"
