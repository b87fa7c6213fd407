"""``akin worker``: processing of queued batches."""

import signal
import threading
from functools import partial
from typing import Final

from akin.cli.consoles import stdout
from akin.cli.options import Data, Device
from indexer.snapshot.folder import current_generation
from service.background import RepeatedTask
from service.batches.jobs import Jobs
from service.batches.worker import ChunkWorker
from service.collection.cursors import Cursors
from service.collection.pinned import PinnedEngines
from service.degradation import Degradation
from service.observability.logging import configure_logging
from service.secret import read_secret
from service.settings import settings_of
from service.store import LazyStore

_POLL_S: Final = 1.0
_WAITING: Final = Degradation(
    "batches", "Batches are not processed.", "see the log; the worker tries again every second"
)


def worker(data: Data, device: Device = "auto") -> None:
    """Process queued batches until interrupted; run several workers, on any machines, in parallel.

    Set AKIN_WORKERS=true for the service. Give workers the same AKIN_CATALOG_URL and AKIN_SECRET as the
    service.
    """
    settings = settings_of(data=data, device=device)
    configure_logging(settings.log_level)
    current_generation(settings.data)  # raises if there is none: batches would seem to have lost theirs
    cursors = Cursors(read_secret(settings.data, settings.secret))
    engines = PinnedEngines(settings, lambda: None)
    chunks = ChunkWorker(engines, cursors, deadline_s=settings.deadline_s)
    store = LazyStore(settings.catalog, partial(Jobs.open_of, settings.data))
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    # After an error, the current chunk waits for its lease to expire, and other chunks go on.
    with RepeatedTask(partial(_process_chunks, chunks, store), every_s=_POLL_S, failure=_WAITING):
        stdout.print("Processing batches (stop with Ctrl-C)")
        stopped.wait()
        chunks.stop()
    store.close()
    stdout.print("Stopped.")


def _process_chunks(chunks: ChunkWorker, store: LazyStore[Jobs]) -> None:
    """Process all waiting chunks."""
    while chunks.work_one(store.get()):
        pass
    chunks.rest()
