"""``akin worker``: works batches off beside the service."""

import signal
import threading
from typing import Final

import structlog
from rich.console import Console

from akin.indexing import Data, Device
from akin.serving import settings_of
from indexer.generations import current_generation
from indexer.jobs import Jobs
from models.errors import StorageError
from service.batches.worker import ChunkWorker
from service.collection.cursors import Cursors
from service.collection.generations import PinnedEngines
from service.observability.logging import configure_logging
from service.secret import read_secret

_POLL_S: Final = 1.0
_log = structlog.get_logger(__name__)
_out = Console(highlight=False)


def worker(data: Data, device: Device = "auto") -> None:
    """Work off the batches of --data until interrupted; several may, on this machine and others.

    The service needs AKIN_WORKERS=true. Where it has AKIN_CATALOG_URL and AKIN_SECRET, so must its workers.
    """
    settings = settings_of(data=data, device=device)
    configure_logging(settings.log_level)
    current_generation(settings.data)  # in a folder without any, every batch would seem to have lost its own
    cursors = Cursors(read_secret(settings.data, settings.secret))
    engines = PinnedEngines(settings, lambda: None)
    chunks = ChunkWorker(engines, cursors, deadline_s=settings.deadline_s)
    jobs = Jobs.open(settings.catalog)
    stopped = threading.Event()

    def stop(*_: object) -> None:
        stopped.set()
        chunks.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    _out.print("Working off batches (stop with Ctrl-C)")
    _work(chunks, jobs, stopped)
    jobs.close()
    _out.print("Stopped.")


def _work(chunks: ChunkWorker, jobs: Jobs, stopped: threading.Event) -> None:
    waits = False
    while not stopped.is_set():
        try:
            busy, waits = chunks.work_one(jobs), False
        except StorageError as error:  # the chunk waits in the database until that is back
            if not waits:
                _log.warning("batches_waiting", error=str(error))
            busy, waits = False, True
        if not busy:
            chunks.rest()
            stopped.wait(_POLL_S)
