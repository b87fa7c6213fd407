"""Ingest: storing papers in the catalog and publishing them."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog

from indexer.catalog.catalog import Catalog, Change
from indexer.catalog.quarantine import Quarantine
from indexer.collection.changes import PublishedState, expect_own_catalog, publish_pending
from indexer.collection.merging import TIERS, merge
from indexer.snapshot.manifest import Manifest
from models.counts import counted
from models.errors import BuildLockedError, InputError, StorageError
from models.interruption import is_interrupted, limit_silence
from models.types import Paper, ignore_progress
from service.collection.generations import Engines
from service.context import BACKGROUND_TIMEOUT_S, with_deadline
from service.degradation import Degradation
from service.store import LazyStore

# How long an addition or deletion waits until answers show it, at most: usually a tenth of a second.
_MAX_WAIT_S: Final = 5.0
_POLL_S: Final = 0.01
MAX_WAITING: Final = 64  # requests that wait for this at once
CHANGES_NOT_SERVED: Final = Degradation(
    "writes",
    "Papers that were added, replaced or deleted are stored, but searches do not show the changes yet.",
    "see the log; the service tries again every second",
)
OTHER_MODELS: Final = Degradation(
    "writes",
    "Papers that are added or deleted are stored, but searches do not show the changes: this service uses "
    "other models than the collection was made with.",
    "unset AKIN_ENCODER, AKIN_TAGGER and AKIN_FUNCTIONS or, for a collection made with files of your own, "
    "set these to the files, and restart the service",
)
CATALOG_NOT_WRITABLE: Final = Degradation(
    "writes",
    "The catalog or the data folder cannot be read or written: requests to add or delete papers get 503, "
    "and searches may not show stored changes yet. Searches work.",
    "see the log for the cause: free disk space if there is none, or start the database; writes resume "
    "within a second",
)
NOT_MERGED: Final = Degradation(
    "merges",
    "Segments are not merged: searches take longer the more papers are added.",
    "see the log; `akin compact` merges all of them",
)
_REFUSAL_S: Final = 60.0  # how long a write that failed counts if none is tried again
_NAMED: Final = 3  # of the papers in quarantine
_log = structlog.get_logger(__name__)


class Ingest:
    """Adding and deleting papers in the collection of a data folder; ``place`` is that of its catalog.

    The newest ``keep`` of the older generations remain.
    """

    def __init__(self, data: Path, place: str | Path, engines: Engines, *, keep: int) -> None:
        self._data = data
        self._store = LazyStore(place, Catalog.open_existing)
        self._engines = engines
        self._keep = keep
        # What one generation is known to show; another, as after a rollback, may show less.
        self._shown = PublishedState(engines.current.snapshot.manifest, 0)
        self._last = 0  # the last change of the catalog, as of the last look at it
        self._quarantine = Quarantine()  # as of the last look, too
        self._refusal: tuple[str, float] | None = None  # why the last write failed, and when
        self.n_waiting = 0  # in ``until_shown``

    def add(self, papers: Sequence[Paper]) -> Change:
        """Add or replace papers, all or none; they are on disk when this returns, served soon after.

        See ``shows``. Raises InputError, StorageError.
        """
        catalog = self._catalog()
        with self._noting_refusal():
            return catalog.add(papers)

    def delete(self, paper_id: str) -> int | None:
        """Delete a paper; stored when this returns, out of every answer soon after: see ``shows``.

        Returns the change of the catalog by which it was deleted, at the latest; ``None`` if there was no
        such paper. Raises StorageError; InputError for another name of a paper, which does not delete it.
        """
        catalog, engine = self._catalog(), self._engines.current
        if not catalog.current_hashes([paper_id]) and engine.snapshot.find(paper_id) is None:
            (position,) = engine.names.positions([paper_id])
            # An id that was deleted before may be deleted again, whatever it now reads like.
            if position is not None and not catalog.names([paper_id]):
                own = engine.snapshot.paper(position, text=False).id
                raise InputError(f"Papers are deleted by their ids, and the id of this one is {own}.")
            return None
        with self._noting_refusal():
            return catalog.delete([paper_id]).number

    def shows(self, change: int) -> bool:
        """Return whether answers of this process show a change of the catalog."""
        return self._shown_up_to >= change

    def publish_until_shown(self, change: int) -> bool:
        """Publish until answers of this process show a change, waiting a while for others that publish.

        Returns whether they do. Raises as ``publish_pending``.
        """
        for pause_s in _pauses():
            self.publish_pending()
            if self.shows(change):
                break
            time.sleep(pause_s)
        return self.shows(change)

    async def until_shown(self, change: int) -> bool:
        """Wait a while, without a thread, until answers show a change; only called on one event loop.

        Returns whether they do. If MAX_WAITING requests are waiting already, this one does not wait.
        """
        if self.n_waiting < MAX_WAITING:
            self.n_waiting += 1
            try:
                for pause_s in _pauses():
                    if self.shows(change):
                        break
                    await asyncio.sleep(pause_s)
            finally:
                self.n_waiting -= 1
        return self.shows(change)

    @property
    def pending(self) -> int:
        """Changes of the catalog that searches do not show yet, as of the last look at it."""
        return max(0, self._last - self._shown_up_to)

    @property
    def _shown_up_to(self) -> int:
        """The last change of the catalog that answers show."""
        return self._shown_in(self._engines.current.snapshot.manifest)

    def _shown_in(self, manifest: Manifest) -> int:
        """Return the last change of the catalog that a generation is known to show."""
        shown = self._shown
        same = shown.manifest.generation == manifest.generation
        return max(shown.change if same else 0, manifest.change)

    def publish_pending(self) -> None:
        """Publish and serve the changes of the catalog that the served generation does not have, if any.

        Changes that others store meanwhile are published too, for a few seconds. If another process is
        publishing, it is left to that one. Raises EncoderError, SnapshotError, StorageError.
        """
        if not self._engines.follows:
            return
        catalog, until = with_deadline(BACKGROUND_TIMEOUT_S, self._look), time.monotonic() + _MAX_WAIT_S
        while self.pending:
            before = self._shown_up_to
            try:
                self._shown = self._publish(catalog)
            except BuildLockedError:
                return
            self._engines.follow()
            with_deadline(BACKGROUND_TIMEOUT_S, self._look)
            cannot_serve = self._shown_up_to == before
            if cannot_serve or time.monotonic() > until:
                return

    def _publish(self, catalog: Catalog) -> PublishedState:
        """Publish the changes of the catalog; raises as ``publish_pending``, and BuildLockedError."""
        engine = self._engines.current
        with limit_silence(BACKGROUND_TIMEOUT_S):
            return publish_pending(
                self._data,
                engine.annotator,
                catalog,
                on_progress=ignore_progress,
                keep=self._keep,
                base=engine.snapshot,
                since=self._shown_in(engine.snapshot.manifest),
                wait_s=0.0,
            )

    def keep_up(self) -> None:
        """Publish pending changes; raise StorageError if the last write failed less than a minute ago.

        A full disk stops writes, but not publishing.
        """
        self.publish_pending()
        refusal = self._refusal
        if refusal is not None and time.monotonic() - refusal[1] < _REFUSAL_S:
            raise StorageError(refusal[0])

    @contextmanager
    def _noting_refusal(self) -> Iterator[None]:
        """Remember the error of a failed write, unless its request has ended; forget it after a success."""
        try:
            yield
        except StorageError as error:
            if not is_interrupted():
                self._refusal = str(error), time.monotonic()
            raise
        self._refusal = None

    def merge(self) -> None:
        """Merge segments if there are many of similar size, without a time limit.

        If another process is doing so, it is left to that one. Raises SnapshotError, StorageError.
        """
        if not self._engines.follows or TIERS.due(self._engines.current.snapshot) is None:
            return
        with suppress(BuildLockedError):
            try:
                merge(self._data, self._engines.current.snapshot, keep=self._keep)
            finally:  # some segments may be merged, and others not
                self._engines.follow()

    def _look(self) -> Catalog:
        """Return the catalog, after reading its last change and its quarantine."""
        catalog = self._catalog()
        self._last = catalog.last_change()
        models = self._engines.current.snapshot.manifest.models_key
        quarantine = catalog.quarantine(models, limit=_NAMED)
        if quarantine != self._quarantine and quarantine.n_papers:
            first = {paper.paper_id: paper.reason for paper in quarantine.first}
            _log.warning("quarantine", papers=quarantine.n_papers, first=first)
        self._quarantine = quarantine
        return catalog

    def degradations(self) -> list[Degradation]:
        """Return a degradation if papers could not be encoded, as of the last look at the catalog."""
        n_papers = self._quarantine.n_papers
        if not n_papers:
            return []
        return [
            Degradation(
                "quarantine",
                f"{counted(n_papers, 'paper')} could not be encoded; searches show an earlier version of "
                "each, or none.",
                "see `akin status` or the log for which and why, then correct or delete these papers",
            )
        ]

    def close(self) -> None:
        """Close the catalog."""
        self._store.close()

    def _catalog(self) -> Catalog:
        """Return the catalog if it is the collection's: another would accept papers and never show them.

        An older copy may replace it at any time. Raises StorageError.
        """
        if not self._engines.follows:
            raise StorageError("This service has no data folder to write to; start it with --data DIR.")
        catalog = self._store.get()
        # Read before the catalog: read later, it could be ahead of the catalog's last change.
        shown, manifest = self._shown, self._engines.current.snapshot.manifest
        try:
            last = expect_own_catalog(manifest, catalog)
        except StorageError:
            if not is_interrupted():
                catalog.close()  # the next use opens what is there then
            raise
        if last < shown.change:
            self._shown = PublishedState(manifest, 0)
        return catalog


def _pauses() -> Iterator[float]:
    """Yield how long to sleep before the next look for a change, in seconds, while a request may wait."""
    wait_until = time.monotonic() + _MAX_WAIT_S
    # No error afterwards: the change is stored, even if the request has no time left to see it.
    while time.monotonic() <= wait_until and not is_interrupted():
        yield _POLL_S
