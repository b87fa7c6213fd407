"""Connections to PostgreSQL that wait no longer than whoever asked for the answer.

A server that is frozen, or overloaded beyond use, keeps its connections and answers nothing on them.
"""

import time
from collections.abc import Generator
from typing import Any, Final

import psycopg
from psycopg.abc import RV, PQGen

from models.interruption import is_interrupted

SILENCE_S: Final = 60.0  # longer than a writer waits for another
CONNECT_S: Final = 5
_OPTIONS: Final[dict[str, Any]] = {
    "connect_timeout": CONNECT_S,
    # One whose other end is not heard of any more is an error in time, too.
    "tcp_user_timeout": 10_000,  # ms
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}


class Connection(psycopg.Connection[Any]):
    """A connection that is closed when ``silence_s`` pass without a sign of the server, or nobody waits.

    Either is an OperationalError; whether the server does what it was asked is unknown then.
    """

    silence_s: float = SILENCE_S

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        """As psycopg's, which every call to the server goes through."""
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: PQGen[RV]) -> Generator[Any, Any, RV]:
        """``gen``, which says what it waits for and is told, several times a second, what has come."""
        heard_at = time.monotonic()
        try:
            awaited = next(gen)
            while True:
                come = yield awaited
                if come:
                    heard_at = time.monotonic()
                else:
                    self._expect_patience(heard_at)
                awaited = gen.send(come)
        except StopIteration as end:
            answer: RV = end.value
            return answer

    def _expect_patience(self, heard_at: float) -> None:
        silent = time.monotonic() - heard_at > self.silence_s
        if silent or is_interrupted():
            self.pgconn.finish()  # whatever it answers later answers nothing that is asked next
            raise _unanswered()


def connect(*arguments: Any, **options: Any) -> Connection:
    """As psycopg's; raises OperationalError."""
    if is_interrupted():
        raise _unanswered()
    return Connection.connect(*arguments, **{**_OPTIONS, **options})


def _unanswered() -> psycopg.OperationalError:
    return psycopg.OperationalError("the server did not answer in the time there was for it")
