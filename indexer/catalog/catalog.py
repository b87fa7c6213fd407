"""The catalog: the system of record of papers, in SQLite by default, in PostgreSQL by URL.

The indexer writes it; builds and re-builds with another encoder read it. Searches never do: the service
answers them from the snapshot alone. A row of ``papers`` or ``sentences`` never changes, unless
it was damaged and its paper is added again: a paper whose content changes is a new row, and
``current_papers`` points at the version that was added last.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, func, select

from indexer.catalog.quarantine import (
    Quarantine,
    QuarantinedPaper,
    forget_outdated,
    note_outcome,
    read_quarantine,
    refused_papers,
)
from indexer.catalog.saved_queries import remove_queries_holding
from indexer.catalog.staging import (
    Version,
    forget_some,
    publish_staged,
    stage,
    staged_after,
    staged_hashes,
)
from indexer.catalog.store import Store
from indexer.catalog.tables import CurrentRow, IdentityRow, PaperRow, StagedRow
from indexer.catalog.versions import (
    UNSTORABLE,
    changed_after,
    checked_hashes,
    in_batches,
    insert_papers,
    is_known,
    names_of,
    point,
    point_nowhere,
    read_papers,
    remove_batches,
    remove_versions,
)
from models.types import Paper

_HAS_VERSION: Final = CurrentRow.paper_key.is_not(None)
_CURRENT_VERSIONS: Final = select(PaperRow.key, PaperRow.paper_id, PaperRow.content_hash).join(
    CurrentRow, CurrentRow.paper_key == PaperRow.key
)
_PAGE: Final = 1_000  # versions read at once


@dataclass(frozen=True, slots=True)
class Change:
    """What one transaction did to the collection.

    ``number`` is that of the last change there is now, ``previous`` the one before: the same where no paper
    changed, else one less. ``n_changed`` papers got another version or were deleted; ``n_new`` versions were
    not there yet.
    """

    previous: int
    number: int
    n_changed: int
    n_new: int


@dataclass(frozen=True, slots=True)
class Purged:
    """What left the database for good: versions of papers, every batch, saved queries. ``known``: the ids."""

    n_versions: int
    n_batches: int
    n_queries: int
    known: tuple[str, ...] = field(default=(), compare=False)


class Catalog(Store):
    """The papers of one database; open it with ``Catalog.open``.

    Every method raises ``StorageError`` where the database cannot be reached, read or written.
    """

    @property
    def place(self) -> str:
        """Where its database is, as messages name it."""
        return self.database.place

    def add(self, papers: Iterable[Paper]) -> Change:
        """Adds papers in one transaction and makes each the current version of its id.

        Of several with one id the last is current. Content that is there already is left as it is, so adding
        again changes nothing.

        Raises:
            InputError: a paper that would not come back as it was given; nothing was added.
        """
        n_new = 0
        with self.database.writing() as connection:
            number = _last_change(connection) + 1
            for batch in in_batches(papers):
                hashes = checked_hashes(batch)
                n_new += insert_papers(connection, dict(zip(hashes, batch, strict=True)))
                last = {paper.id: digest for paper, digest in zip(batch, hashes, strict=True)}
                point(connection, list(last.values()), number)
            return _change(connection, number, n_new=n_new)

    def stage(self, load: str, papers: Sequence[Paper]) -> None:
        """Keeps papers for a ``load``, in one transaction; nothing shows them until they are published.

        Those that it has are passed over; of several with one id the last counts. Raises as ``add``.
        """
        last = [*{paper.id: paper for paper in papers}.values()]
        hashes = dict(zip(checked_hashes(last), last, strict=True))
        with self.database.reading() as connection:
            there = staged_hashes(connection, [*hashes])
        if missing := {digest: paper for digest, paper in hashes.items() if digest not in there}:
            with self.database.writing() as connection:
                stage(connection, load, missing)

    def forget_loads(self, *, but: str) -> None:
        """Gives up what other loads left unpublished, with the text that only they brought.

        Some at a time, so that others may write meanwhile.
        """
        is_left = True
        while is_left:
            with self.database.writing() as connection:
                is_left = forget_some(connection, but=but)

    def staged(self, load: str) -> Iterator[Version]:
        """What waits in a load, in the order in which its content first came in, read some at a time."""
        return self._paged(lambda connection, key: staged_after(connection, load, key, _PAGE))

    def count_staged(self) -> int:
        """How many versions wait to be published, of whatever load."""
        with self.database.reading() as connection:
            return connection.execute(select(func.count()).select_from(StagedRow)).scalar_one()

    def publish(self, load: str, up_to: int, *, replace: bool = False) -> Change:
        """Makes the versions of a load with keys ``up_to`` one current, in one transaction.

        With ``replace`` every other paper is deleted.
        """
        with self.database.writing() as connection:
            number = _last_change(connection) + 1
            publish_staged(connection, load, up_to, number, replace=replace)
            return _change(connection, number)

    def delete(self, paper_ids: Iterable[str]) -> Change:
        """Deletes papers in one transaction; their versions stay, for the snapshots that refer to them.

        An id that the catalog never held is noted as deleted: a snapshot may hold it.
        """
        with self.database.writing() as connection:
            number = _last_change(connection) + 1
            point_nowhere(connection, _storable(paper_ids), number)
            return _change(connection, number)

    def purge(self, paper_ids: Iterable[str]) -> Purged:
        """Deletes papers and removes every version of them for good, and every batch, finished or not.

        Any batch may hold the text, compressed; of saved queries those go that hold a title or a sentence.
        Unknown ids remove nothing. SQLite's file is written anew, so that no freed page keeps the text;
        PostgreSQL's dead rows stay until they are vacuumed. That papers were deleted stays noted by id.
        """
        with self.database.writing() as connection:
            present = [key for key in _storable(paper_ids) if is_known(connection, key)]
            point_nowhere(connection, present, _last_change(connection) + 1)
            n_queries = remove_queries_holding(connection, present)
            n_versions = remove_versions(connection, present)
            n_batches = remove_batches(connection) if present else 0
        self.database.clear_freed_pages()
        return Purged(n_versions, n_batches, n_queries, tuple(present))

    def names(self, paper_ids: Iterable[str]) -> set[str]:
        """The titles and DOIs that any version of the papers has."""
        with self.database.reading() as connection:
            return names_of(connection, _storable(paper_ids))

    def restore(self, versions: Mapping[str, str | None]) -> Change:
        """Makes the versions with the content hashes given current, by paper id; ``None`` deletes."""
        with self.database.writing() as connection:
            number = _last_change(connection) + 1
            point_nowhere(connection, [key for key, digest in versions.items() if digest is None], number)
            point(connection, [digest for digest in versions.values() if digest is not None], number)
            return _change(connection, number)

    def note_encoding(self, models: str, encoded: Iterable[str], refused: Sequence[QuarantinedPaper]) -> None:
        """Quarantine the ``refused`` versions under ``models`` (``Manifest.models_key``), with their reasons.

        ``encoded`` are the content hashes of versions that are in quarantine no longer. A paper leaves it
        too where it is replaced or deleted.
        """
        there = self.refused(models)
        released = [digest for digest in encoded if digest in there] if there else []
        if released or refused:
            with self.database.writing() as connection:
                note_outcome(connection, models, released, refused)

    def refused(self, models: str) -> dict[str, str]:
        """The papers whose current versions ``models`` could not encode: ids by content hash."""
        with self.database.reading() as connection:
            return refused_papers(connection, models)

    def quarantine(self, models: str, *, limit: int | None) -> Quarantine:
        """How many papers ``models`` could not encode, and the first ``limit`` of them with the reasons."""
        with self.database.reading() as connection:
            return read_quarantine(connection, models, limit)

    def last_change(self) -> int:
        """The number of the last change of the collection; 0 before the first."""
        with self.database.reading() as connection:
            return _last_change(connection)

    def identity(self) -> str:
        """The random id that this catalog got when it was made; copies have the same."""
        with self.database.reading() as connection:
            return connection.execute(select(func.coalesce(func.max(IdentityRow.id), ""))).scalar_one()

    def changed_since(self, change: int) -> dict[str, str | None]:
        """What ``changes_since`` yields, by paper id."""
        return dict(self.changes_since(change))

    def changes_since(self, change: int) -> Generator[tuple[str, str | None]]:
        """The papers changed after ``change``, read some at a time: those that were deleted first.

        Each id with the content hash of its current version, in the order in which that first came in, or
        with ``None`` where it was deleted.
        """
        with self.database.reading() as connection:
            yield from changed_after(connection, change)

    def current_hashes(self, paper_ids: Iterable[str]) -> dict[str, str]:
        """The content hashes of the current versions of those papers that are there, by id."""
        found: dict[str, str] = {}
        with self.database.reading() as connection:
            for batch in in_batches(_storable(paper_ids)):
                rows = connection.execute(_CURRENT_VERSIONS.where(CurrentRow.paper_id.in_(batch)))
                found.update({row.paper_id: row.content_hash for row in rows})
        return found

    def current(self) -> Iterator[Version]:
        """The current version of every paper, in the order in which they first came in, some at a time."""

        def after(connection: Connection, key: int) -> Iterator[Version]:
            page = _CURRENT_VERSIONS.where(PaperRow.key > key).order_by(PaperRow.key).limit(_PAGE)
            return (Version(*row) for row in connection.execute(page).all())

        return self._paged(after)

    def _paged(self, after: Callable[[Connection, int], Iterator[Version]]) -> Iterator[Version]:
        """Versions that ``after`` reads behind a key, each page in a transaction of its own."""
        key = 0
        while True:
            with self.database.reading() as connection:
                page = list(after(connection, key))
            if not page:
                return
            yield from page
            key = page[-1].key

    def versions(self, hashes: Iterable[str]) -> Iterator[Paper]:
        """The versions with the content hashes given, in the order in which they first came in."""
        for batch in in_batches(hashes):
            statement = (
                select(PaperRow.__table__).where(PaperRow.content_hash.in_(batch)).order_by(PaperRow.key)
            )
            with self.database.reading() as connection:
                found = read_papers(connection, statement)
            yield from found

    def count(self) -> int:
        """How many papers there are, each counted once however many versions it has."""
        there = select(func.count()).select_from(CurrentRow).where(_HAS_VERSION)
        with self.database.reading() as connection:
            return connection.execute(there).scalar_one()


def _storable(paper_ids: Iterable[str]) -> list[str]:
    """The ids that a database can hold."""
    return [paper_id for paper_id in paper_ids if not UNSTORABLE.search(paper_id)]


def _last_change(connection: Connection) -> int:
    return connection.execute(select(func.coalesce(func.max(CurrentRow.change), 0))).scalar_one()


def _change(connection: Connection, number: int, *, n_new: int = 0) -> Change:
    """What change ``number`` did; versions that are current no longer leave the quarantine."""
    forget_outdated(connection)
    of_this = select(func.count()).select_from(CurrentRow).where(CurrentRow.change == number)
    n_changed = connection.execute(of_this).scalar_one()
    return Change(number - 1, number if n_changed else number - 1, n_changed, n_new)
