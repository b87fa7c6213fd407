"""Connections to PostgreSQL with a deadline, so that none waits longer than its request.

A frozen or badly overloaded server keeps its connections open but answers nothing on them.
"""

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.abc import RV, PQGen, PQGenConn

from models.interruption import is_interrupted, silence_limit_s

_OPTIONS: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    # A connection whose other end has gone silent must fail in time, too.
    "tcp_user_timeout": 10_000,  # ms
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
_CHECKS_SINCE: Final = 140_000  # the server's version


class UnansweredError(psycopg.OperationalError):
    """The server was silent too long, or nobody waits any more; whether the statement ran is unknown."""

    remedy = "it may be overloaded, or another process may still be writing; try again"


class Connection(psycopg.Connection[Any]):
    """A connection that closes with UnansweredError as soon as waiting has no use any more."""

    @classmethod
    def _connect_gen(cls, *args: Any, **options: Any) -> PQGenConn["Connection"]:
        return _bounded(super()._connect_gen(*args, **options), lambda: None)

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        """Wait as psycopg's ``wait`` does, for every call to the server, but with a deadline."""
        # On giving up, close the connection: a late answer would be taken for that of the next statement.
        return super().wait(_bounded(gen, self.pgconn.finish), *args, **options)


class Cursor(psycopg.ServerCursor[Any]):
    """A cursor that is closed on this side even if the server, or the connection to it, has gone."""

    def close(self) -> None:
        """Close the cursor; psycopg's ``close`` leaves it open if it cannot be closed at the server."""
        try:
            super().close()
        except psycopg.Error:
            if self.connection.closed:  # by now, so that this call sends nothing to the server
                super().close()
            raise


def connect(*arguments: Any, **options: Any) -> Connection:
    """Connect as psycopg does, with timeouts; raises OperationalError."""
    connection = Connection.connect(*arguments, **{**_OPTIONS, **options})
    connection.server_cursor_factory = Cursor
    if connection.info.server_version >= _CHECKS_SINCE:
        # Else the server would go on with abandoned statements and block others. Not all systems support it.
        with suppress(psycopg.Error):
            connection.autocommit = True
            connection.execute("SET client_connection_check_interval = '500ms'")
        connection.autocommit = False
    return connection


def _bounded(gen: Generator[Any, Any, RV], give_up: Callable[[], None]) -> Generator[Any, Any, RV]:
    """Run ``gen``, which yields what it waits for, until it ends; give up if it hears nothing for too long.

    psycopg sends back what has arrived, or nothing, several times a second. Raises UnansweredError.
    """
    heard_at = time.monotonic()
    try:
        awaited = next(gen)
        while True:
            come = yield awaited
            if come:
                heard_at = time.monotonic()
            if is_interrupted() or time.monotonic() - heard_at > silence_limit_s():
                give_up()
                raise UnansweredError("the server did not answer in time")
            awaited = gen.send(come)
    except StopIteration as end:
        answer: RV = end.value
        return answer
