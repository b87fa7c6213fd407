"""Writes: papers go into the catalog, which acknowledges them, and from there into what is served."""

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from indexer.build import KEEP
from indexer.catalog import Catalog, Change
from indexer.changes import absorb, expect_own_catalog
from models.errors import BuildLockedError, PaperNotFoundError, StorageError
from models.types import Paper
from service.deadline import check_deadline
from service.degradation import Degradation
from service.engines import Engines

# How long a deletion waits for what is being published: as a rule a tenth of a second.
_PATIENCE_S: Final = 5.0
_POLL_S: Final = 0.01
NOT_ABSORBED: Final = Degradation(
    "writes",
    "Papers that were added, replaced or deleted do not show yet; they are kept.",
    "look into the log; what keeps them out is tried again every second",
)
OTHER_MODELS: Final = Degradation(
    "writes",
    "Papers that are added or deleted do not show: this service reads them with other models than the "
    "collection was made with; the changes are kept.",
    "unset AKIN_ENCODER, AKIN_TAGGER and AKIN_FUNCTIONS, and start the service again",
)
NOT_WRITABLE: Final = Degradation(
    "writes",
    "The catalog or the data folder cannot be read or written: adding and deleting papers gets 503, and what "
    "was added may not show yet; it is kept. Searches go on.",
    "start the database, or look into the log; it goes on by itself within a second",
)


class Ingest:
    """Adds papers to the collection of a data folder and deletes them; ``place`` is that of its catalog."""

    def __init__(self, data: Path, place: str | Path, engines: Engines) -> None:
        self._data = data
        self._place = place
        self._engines = engines
        self._opened: Catalog | None = None
        self._opening = Lock()
        self._shown = 0  # up to this change of the catalog, what is served shows it
        self._last = 0  # the last change, when it was last looked at

    def add(self, papers: Sequence[Paper]) -> Change:
        """Add or replace papers, all or none; on the disk when this returns, served soon after.

        Raises InputError, StorageError.
        """
        return self._catalog().add(papers)

    def delete(self, paper_id: str) -> None:
        """Delete a paper; certain when this returns, out of every answer soon after: see ``wait_until_gone``.

        Raises PaperNotFoundError, StorageError.
        """
        catalog = self._catalog()
        if not catalog.holding([paper_id]) and self._engines.current.snapshot.find(paper_id) is None:
            raise PaperNotFoundError("No paper of this collection has the id given; nothing was deleted.")
        catalog.delete([paper_id])

    def wait_until_gone(self, paper_id: str) -> bool:
        """Wait a while until no answer of this process can hold a paper; whether that is so.

        Raises DeadlineError.
        """
        patient_until = time.monotonic() + _PATIENCE_S
        while self._engines.current.snapshot.find(paper_id) is not None:
            if time.monotonic() > patient_until:
                return False
            check_deadline()
            time.sleep(_POLL_S)
        return True

    @property
    def pending(self) -> int:
        """Changes of the catalog that answers do not show yet, as of the last look at it."""
        return max(0, self._last - max(self._shown, self._engines.current.snapshot.manifest.change))

    def absorb(self) -> None:
        """Publish and serve what the catalog holds and the served generation does not, if anything.

        Where another process is doing so, it is left to that one. Raises EncoderError, SnapshotError,
        StorageError.
        """
        if not self._engines.follows:
            return
        catalog, engine = self._catalog(), self._engines.current
        self._last = catalog.last_change()
        if not self.pending:
            return
        try:
            done = absorb(
                self._data,
                engine.annotator,
                catalog,
                on_progress=lambda stage, done, total: None,
                keep=KEEP,
                base=engine.snapshot,
                since=self._shown,
                wait_s=0.0,
            )
        except BuildLockedError:
            return
        self._engines.follow()
        self._shown = done.change

    def close(self) -> None:
        """Close the catalog."""
        if self._opened is not None:
            self._opened.close()

    def _catalog(self) -> Catalog:
        if not self._engines.follows:
            raise StorageError("This service has no data folder to write to; start it with --data DIR.")
        with self._opening:
            if self._opened is None:
                catalog = Catalog.open(self._place)
                try:
                    # Before anything is written to another: that would be accepted and never show.
                    expect_own_catalog(self._engines.current.snapshot.manifest, catalog)
                except StorageError:
                    catalog.close()
                    raise
                self._opened = catalog
        return self._opened
