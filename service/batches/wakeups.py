"""Tickets: messages over Redis that wake the workers of batches, by dramatiq.

A ticket says that there is work, not which: whoever gets one takes the next chunk from the database. So one
that is lost, doubled or late does no harm.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from models.errors import MissingPackageError, StorageError
from service.cache.redis import redis_client

if TYPE_CHECKING:
    from dramatiq.brokers.redis import RedisBroker

QUEUE: Final = "batches"
# Without a sign of life for so long, a worker's tickets go back to the queue; every tenth command looks.
_HEARTBEAT_MS: Final = 5_000
_MAINTENANCE_PER_MILLION: Final = 100_000
_TIMEOUT_S: Final = 1.0
_MOST_WAITING: Final = 64  # more than there are workers; they are filled up again and again
_TIME_LIMIT_MS: Final = 24 * 3_600_000  # each query of a chunk has a deadline; this one is never reached


class Tickets:
    """The queue of tickets at a Redis; ``on_ticket`` is what a worker does with each.

    Raises MissingPackageError without the packages, InputError for what is no URL of Redis. It connects when
    it has to.
    """

    def __init__(self, url: str, on_ticket: Callable[[], None] = lambda: None) -> None:
        self.broker = _broker(url)
        # Without retries: what failed waits in the database, and a new ticket is sent for it.
        from dramatiq import actor  # noqa: PLC0415 - an optional package

        self._actor = actor(
            actor_name="work",
            queue_name=QUEUE,
            broker=self.broker,
            max_retries=0,
            time_limit=_TIME_LIMIT_MS,
        )(on_ticket)

    def fill(self, n_waiting: int) -> None:
        """Sees to it that there are tickets for so many chunks, or for as many as workers might take.

        Raises StorageError where Redis cannot be reached.
        """
        from redis.exceptions import RedisError  # noqa: PLC0415 - an optional package

        try:
            n_queued = int(self.broker.do_qsize(QUEUE))
            for _ in range(min(n_waiting, _MOST_WAITING) - n_queued):
                self._actor.send()
        except RedisError as error:
            raise StorageError(
                f"Redis cannot be used ({type(error).__name__}: {error}); check AKIN_REDIS_URL and the server"
            ) from error

    def close(self) -> None:
        """Closes the connections."""
        self.broker.close()
        self.broker.client.close()


def _broker(url: str) -> "RedisBroker":
    client = redis_client(url, timeout_s=_TIMEOUT_S)
    try:
        from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise MissingPackageError(
            f"Batches over Redis need the package {error.name}, which is not installed: "
            'pip install "akin[redis]"'
        ) from error
    return RedisBroker(  # type: ignore[no-untyped-call]  # dramatiq types it in part
        client=client,
        namespace="akin",
        heartbeat_timeout=_HEARTBEAT_MS,
        maintenance_chance=_MAINTENANCE_PER_MILLION,
    )
