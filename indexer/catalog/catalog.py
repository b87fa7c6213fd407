"""The catalog: the system of record of papers, in SQLite by default, in PostgreSQL by URL.

The indexer writes the catalog; builds and re-builds with another encoder read it. Searches never read it: the
service answers them from the snapshot alone. A row of ``papers`` or ``sentences`` never changes, unless it
was damaged and its paper is added again. If the content of a paper changes, the new version is a new row, and
``current_papers`` points at the version that was added last.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, select

from indexer.catalog.current import Compared, changed_after, make_hashes_current, mark_deleted
from indexer.catalog.purging import (
    PurgeCounts,
    is_known,
    names_of,
    remove_batches,
    remove_saved_texts,
    remove_versions,
)
from indexer.catalog.quarantine import (
    Quarantine,
    QuarantinedPaper,
    note_outcome,
    read_quarantine,
    refused_papers,
    remove_outdated,
)
from indexer.catalog.staging import (
    Version,
    publish_staged,
    remove_staged_batch,
    stage,
    staged_after,
    staged_hashes,
)
from indexer.catalog.store import Store
from indexer.catalog.tables import CurrentRow, IdentityRow, PaperRow, StagedRow
from indexer.catalog.versions import (
    UNSTORABLE,
    checked_hashes,
    in_batches,
    insert_papers,
    read_papers,
    stored_hashes,
)
from models.interruption import without_interruption
from models.types import Paper

_HAS_VERSION: Final = CurrentRow.paper_key.is_not(None)
_CURRENT_VERSIONS: Final = select(PaperRow.key, PaperRow.paper_id, PaperRow.content_hash).join(
    CurrentRow, CurrentRow.paper_key == PaperRow.key
)
_PAGE: Final = 1_000  # versions read at once


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of one transaction on the collection.

    ``number`` is the number of the last change after the transaction, ``previous`` the number before it: the
    same if no paper changed, else one less. ``n_changed`` papers got another version or were deleted;
    ``n_new`` versions were not in the catalog before.
    """

    previous: int
    number: int
    n_changed: int
    n_new: int


class Catalog(Store):
    """The papers of one database; open it with ``Catalog.open``.

    Every method raises ``StorageError`` if the database cannot be reached, read or written.
    """

    @property
    def place(self) -> str:
        """The name of the database in messages: its file, or its name and host."""
        return self.database.place

    def add(self, papers: Iterable[Paper]) -> Change:
        """Add papers in one transaction and make each the current version of its id.

        If several papers have the same id, the last becomes current. Content that the catalog already has is
        not written again, so adding the same papers twice changes nothing. Raises InputError, and adds none,
        if a paper would not be read back as it was given.
        """
        n_new = 0
        with self.database.writing() as connection:
            number = _last_change(connection) + 1
            for batch in in_batches(papers):
                hashes = checked_hashes(batch)
                n_new += insert_papers(connection, dict(zip(hashes, batch, strict=True)))
                last = {paper.id: digest for paper, digest in zip(batch, hashes, strict=True)}
                make_hashes_current(connection, list(last.values()), number)
            return _change(connection, number, n_new=n_new)

    def stage(self, load: str, papers: Sequence[Paper]) -> None:
        """Store papers for a ``load``, in one transaction; they stay invisible until they are published.

        Papers already staged are skipped; if several have the same id, the last counts. Raises as ``add``.
        """
        last = [*{paper.id: paper for paper in papers}.values()]
        hashes = dict(zip(checked_hashes(last), last, strict=True))
        with self.database.reading() as connection:
            there = staged_hashes(connection, [*hashes])
        if missing := {digest: paper for digest, paper in hashes.items() if digest not in there}:
            with self.database.writing() as connection:
                stage(connection, load, missing)

    def remove_loads(self, *, but: str) -> None:
        """Remove the staged papers of all loads except ``but``, and the text that only those loads added.

        Each transaction removes one batch, so that other processes can write in between.
        """
        is_left = True
        while is_left:
            with self.database.writing() as connection:
                is_left = remove_staged_batch(connection, but=but)

    def staged(self, load: str) -> Iterator[Version]:
        """Yield the staged versions of a load in the order their content was first stored, page by page."""
        return self._paged(lambda connection, key: staged_after(connection, load, key, _PAGE))

    def count_staged(self) -> int:
        """Return how many versions wait to be published, in all loads."""
        with self.database.reading() as connection:
            return connection.execute(select(func.count()).select_from(StagedRow)).scalar_one()

    def publish(self, load: str, up_to: int, *, replace: bool = False) -> Change:
        """Make the versions of a load with keys up to ``up_to`` current, in one transaction.

        With ``replace``, every other paper is deleted, however long the server takes.
        """
        with without_interruption() if replace else nullcontext(), self.database.writing() as connection:
            number = _last_change(connection) + 1
            publish_staged(connection, load, up_to, number, replace=replace)
            return _change(connection, number)

    def delete(self, paper_ids: Iterable[str]) -> Change:
        """Delete papers in one transaction; their versions stay, for the snapshots that refer to them.

        An id that the catalog never had is recorded as deleted too: a snapshot may contain it.
        """
        with self.database.writing() as connection:
            number = _last_change(connection) + 1
            mark_deleted(connection, _storable(paper_ids), number)
            return _change(connection, number)

    def purge(self, paper_ids: Iterable[str]) -> PurgeCounts:
        """Delete papers and remove every version of them for good, and every batch, finished or not.

        Any batch may contain their text. Saved queries that contain a title or a sentence of them are removed
        too, and titles from saved profiles. Unknown ids remove nothing. SQLite is rewritten, so that no freed
        page keeps the text; PostgreSQL keeps dead rows until vacuumed. The ids stay as deleted.
        """
        with without_interruption(), self.database.writing() as connection:
            present = [key for key in _storable(paper_ids) if is_known(connection, key)]
            mark_deleted(connection, present, _last_change(connection) + 1)
            n_queries = remove_saved_texts(connection, present)
            n_versions = remove_versions(connection, present)
            n_batches = remove_batches(connection) if present else 0
        self.database.clear_freed_pages()
        return PurgeCounts(n_versions, n_batches, n_queries, tuple(present))

    def names(self, paper_ids: Iterable[str]) -> set[str]:
        """Return the titles and DOIs of all versions of the papers."""
        with self.database.reading() as connection:
            return names_of(connection, _storable(paper_ids))

    def restore(self, versions: Mapping[str, str | None], *, at: int) -> Change:
        """Make, for each paper id, the version current that had this content hash at the change ``at``.

        ``None`` deletes the paper. No other paper counts as added after ``at``.
        """
        gone = [key for key, digest in versions.items() if digest is None]
        hashes = [digest for digest in versions.values() if digest is not None]
        with self.database.writing() as connection:
            number = _last_change(connection) + 1
            mark_deleted(connection, gone, number)
            make_hashes_current(connection, hashes, number, at=at)
            return _change(connection, number)

    def note_encoding(
        self, models: str, encoded: Iterable[str], refused: Sequence[QuarantinedPaper], served: str = ""
    ) -> int | None:
        """Quarantine the ``refused`` versions under ``models`` (``Manifest.models_key``), with reasons.

        Those with the content hashes ``encoded`` leave it, or come after the ``served`` models refused them;
        returns the last of the two changes by which some did, if any did.
        """
        there = self.refused(models) | self.refused(served)
        released = [digest for digest in encoded if digest in there] if there else []
        if not released and not refused:
            return None
        with self.database.writing() as connection:
            change = _last_change(connection) + 1
            return note_outcome(connection, models, released, refused, served=served, change=change)

    def refused(self, models: str) -> dict[str, str]:
        """Return the ids, by content hash, of papers whose current versions ``models`` could not encode."""
        with self.database.reading() as connection:
            return refused_papers(connection, models)

    def quarantine(self, models: str, *, limit: int | None) -> Quarantine:
        """Return how many papers ``models`` could not encode, and the first ``limit`` of them (or all)."""
        with self.database.reading() as connection:
            return read_quarantine(connection, models, limit)

    def last_change(self) -> int:
        """Return the number of the last change of the collection; 0 before the first."""
        with self.database.reading() as connection:
            return _last_change(connection)

    def identity(self) -> str:
        """Return the random id that this catalog got when it was made; copies have the same id."""
        with self.database.reading() as connection:
            return connection.execute(select(func.coalesce(func.max(IdentityRow.id), ""))).scalar_one()

    def changed_since(self, change: int) -> dict[str, str | None]:
        """Return what ``changes_since`` yields as a dictionary by paper id."""
        return dict(self.changes_since(change))

    def changes_since(self, change: int, *, but: Compared | None = None) -> Generator[tuple[str, str | None]]:
        """Yield the papers changed after ``change``, read in chunks: first deleted papers, with ``None``.

        The others follow in the order first stored, with content hashes, but for those compared (``but``).
        """
        with self.database.reading() as connection:
            yield from changed_after(connection, change, but)

    def current_hashes(self, paper_ids: Iterable[str]) -> dict[str, str]:
        """Return the content hashes of the current versions by paper id; papers without one are left out."""
        found: dict[str, str] = {}
        with self.database.reading() as connection:
            for batch in in_batches(_storable(paper_ids)):
                rows = connection.execute(_CURRENT_VERSIONS.where(CurrentRow.paper_id.in_(batch)))
                found.update({row.paper_id: row.content_hash for row in rows})
        return found

    def stored(self, hashes: Iterable[str]) -> set[str]:
        """Return which of these content hashes are those of versions in the catalog."""
        with self.database.reading() as connection:
            return {digest for batch in in_batches(hashes) for digest in stored_hashes(connection, batch)}

    def current(self, *, up_to: int) -> Iterator[Version]:
        """Yield the versions current since the change ``up_to``, in the order first stored, none twice."""
        versions = _CURRENT_VERSIONS.where(CurrentRow.change <= up_to).order_by(PaperRow.key).limit(_PAGE)

        def after(connection: Connection, key: int) -> Iterator[Version]:
            return (Version(*row) for row in connection.execute(versions.where(PaperRow.key > key)).all())

        return self._paged(after)

    def _paged(self, after: Callable[[Connection, int], Iterator[Version]]) -> Iterator[Version]:
        """Yield the versions that ``after`` reads after a key, one page per transaction."""
        key = 0
        while True:
            with self.database.reading() as connection:
                page = list(after(connection, key))
            if not page:
                return
            yield from page
            key = page[-1].key

    def versions(self, hashes: Iterable[str]) -> Iterator[Paper]:
        """Yield the versions with these content hashes; each batch of hashes in the order first stored."""
        of_papers = select(PaperRow.__table__).order_by(PaperRow.key)
        for batch in in_batches(hashes):
            with self.database.reading() as connection:
                found = read_papers(connection, of_papers.where(PaperRow.content_hash.in_(batch)))
            yield from found

    def count(self) -> int:
        """Return the number of papers; a paper with several versions counts once."""
        with self.database.reading() as connection:
            return connection.execute(select(func.count()).where(_HAS_VERSION)).scalar_one()


def _storable(paper_ids: Iterable[str]) -> list[str]:
    """Return the ids that a database can store."""
    return [paper_id for paper_id in paper_ids if not UNSTORABLE.search(paper_id)]


def _last_change(connection: Connection) -> int:
    return connection.execute(select(func.coalesce(func.max(CurrentRow.change), 0))).scalar_one()


def _change(connection: Connection, number: int, *, n_new: int = 0) -> Change:
    """Return the effect of change ``number``; versions no longer current are taken out of quarantine."""
    remove_outdated(connection)
    of_this = select(func.count()).select_from(CurrentRow).where(CurrentRow.change == number)
    n_changed = connection.execute(of_this).scalar_one()
    return Change(number - 1, number if n_changed else number - 1, n_changed, n_new)
