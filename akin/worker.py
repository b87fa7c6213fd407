"""``akin worker``: works batches off beside the service, woken over Redis."""

import signal
import threading

import structlog
from rich.console import Console

from akin.indexing import Data, Device
from akin.serving import settings_of
from indexer.generations import current_generation
from indexer.jobs import Jobs
from models.errors import InputError, StorageError
from service.batches.wakeups import Tickets
from service.batches.worker import ChunkWorker
from service.collection.cursors import Cursors
from service.collection.generations import PinnedEngines
from service.observability.logging import configure_logging
from service.secret import read_secret

_log = structlog.get_logger(__name__)
_out = Console(highlight=False)
_STOP_TIMEOUT_MS = 10_000


def worker(data: Data, device: Device = "auto") -> None:
    """Work off the batches of --data until interrupted; several may, on this machine and others.

    AKIN_REDIS_URL (that of the service) wakes it; where the service has AKIN_CATALOG_URL and AKIN_SECRET, it
    needs them too.
    """
    settings = settings_of(data=data, device=device)
    configure_logging(settings.log_level)
    url = settings.redis
    if not url:
        raise InputError("A worker is woken over Redis: set AKIN_REDIS_URL here and for the service.")
    current_generation(settings.data)  # in a folder without any, every batch would seem to have lost its own
    cursors = Cursors(read_secret(settings.data, settings.secret))
    engines = PinnedEngines(settings, lambda: None)
    chunks = ChunkWorker(engines, cursors, deadline_s=settings.deadline_s)
    jobs = Jobs.open(settings.catalog)

    def work() -> None:
        try:
            chunks.work_one(jobs)
        except StorageError as error:  # the chunk waits in the database, and a new ticket comes
            _log.warning("batch_waiting", error=str(error))

    _work_until_stopped(Tickets(url, work), chunks)
    jobs.close()
    _out.print("Stopped.")


def _work_until_stopped(tickets: Tickets, chunks: ChunkWorker) -> None:
    from dramatiq import Worker  # noqa: PLC0415 - an optional package

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    # One thread: chunks are work for the processor; for more, start more workers.
    queue = Worker(tickets.broker, worker_threads=1)
    queue.start()
    _out.print("Working off batches (stop with Ctrl-C)")
    stopped.wait()
    chunks.stop()
    queue.stop(timeout=_STOP_TIMEOUT_MS)
    tickets.close()
