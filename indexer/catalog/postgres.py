"""Connections to PostgreSQL with a deadline: none waits longer than its request.

A server that is frozen, or overloaded beyond use, keeps its connections and answers nothing on them.
"""

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.abc import RV, PQGen, PQGenConn

from models.interruption import is_interrupted, most_silent_s

_OPTIONS: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    # One whose other end is not heard of any more is an error in time, too.
    "tcp_user_timeout": 10_000,  # ms
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
_CHECKS_SINCE: Final = 140_000  # the server's version


class UnansweredError(psycopg.OperationalError):
    """The server was silent for too long, or nobody waits any more; whether it did as asked is not known."""

    remedy = "it may be overloaded, or another process may still be writing; try again"


class Connection(psycopg.Connection[Any]):
    """A connection that is closed, with UnansweredError, as soon as there is no use in waiting."""

    @classmethod
    def _connect_gen(cls, *args: Any, **options: Any) -> PQGenConn["Connection"]:
        return _bounded(super()._connect_gen(*args, **options), lambda: None)

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        """As psycopg's, which every call to the server goes through."""
        # Whatever came later would be taken for the answer to what is asked next.
        return super().wait(_bounded(gen, self.pgconn.finish), *args, **options)


class Cursor(psycopg.ServerCursor[Any]):
    """A cursor that is closed here also where the server, or the connection to it, has gone."""

    def close(self) -> None:
        """As psycopg's, which leaves it open where it cannot be closed at the server."""
        try:
            super().close()
        except psycopg.Error:
            if self.connection.closed:  # now, so that there is nothing to tell the server any more
                super().close()
            raise


def connect(*arguments: Any, **options: Any) -> Connection:
    """As psycopg's; raises OperationalError."""
    connection = Connection.connect(*arguments, **{**_OPTIONS, **options})
    connection.server_cursor_factory = Cursor
    if connection.info.server_version >= _CHECKS_SINCE:
        # Or it would go on with what nobody waits for, and stand in the way of others. Not all systems can.
        with suppress(psycopg.Error):
            connection.autocommit = True
            connection.execute("SET client_connection_check_interval = '500ms'")
        connection.autocommit = False
    return connection


def _bounded(gen: Generator[Any, Any, RV], give_up: Callable[[], None]) -> Generator[Any, Any, RV]:
    """``gen``, which says what it waits for and is told, several times a second, what has come."""
    heard_at = time.monotonic()
    try:
        awaited = next(gen)
        while True:
            come = yield awaited
            if come:
                heard_at = time.monotonic()
            if is_interrupted() or time.monotonic() - heard_at > most_silent_s():
                give_up()
                raise UnansweredError("the server did not answer in time")
            awaited = gen.send(come)
    except StopIteration as end:
        answer: RV = end.value
        return answer
