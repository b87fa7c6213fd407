"""The catalog: the system of record of papers, in SQLite by default, in PostgreSQL by URL.

The indexer writes it; builds, re-builds with another encoder and title look-up read it. Searches never do:
the service answers them from the snapshot alone. A row of ``papers`` or ``sentences`` never changes, unless
it was damaged and its paper is added again: a paper whose content changes is a new row, and
``current_papers`` points at the version that was added last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from sqlalchemy import Connection, delete, func, select

from indexer.catalog.quarantine import (
    Quarantine,
    QuarantinedPaper,
    forget_outdated,
    note_outcome,
    read_quarantine,
    refused_papers,
)
from indexer.catalog.store import Store
from indexer.catalog.tables import CurrentRow, IdentityRow, JobChunkRow, JobRow, PaperRow
from indexer.catalog.versions import (
    BATCH_PAPERS,
    UNSTORABLE,
    check,
    folded,
    in_batches,
    insert_papers,
    point,
    point_nowhere,
    read_papers,
    remove_versions,
)
from indexer.content_hash import content_hash
from models.errors import PaperNotFoundError
from models.types import Paper

_Item = TypeVar("_Item")

CATALOG_FILE: Final = "catalog.sqlite3"  # its name in the data folder

_HAS_VERSION: Final = CurrentRow.paper_key.is_not(None)
_CURRENT_PAPERS: Final = select(PaperRow.__table__).join(CurrentRow, CurrentRow.paper_key == PaperRow.key)


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
    """What left the database for good: versions of papers, and batches, whose results may hold their text."""

    n_versions: int
    n_batches: int


class Catalog(Store):
    """The papers of one database, each in its current version; open it with ``Catalog.open``.

    Every method raises ``StorageError`` where the database cannot be reached, read or written.
    """

    @property
    def place(self) -> str:
        """Where its database is, as messages name it."""
        return self._database.place

    def add(self, papers: Iterable[Paper], *, replace: bool = False) -> Change:
        """Adds papers in one transaction and makes each the current version of its id.

        Of several with one id the last is current. Content that is there already is left as it is, so adding
        again changes nothing. With ``replace`` every other paper is deleted.

        Raises:
            InputError: a paper that would not come back as it was given; nothing was added.
        """
        n_new = 0
        given: set[str] = set()
        with self._database.writing() as connection:
            number = _last_change(connection) + 1
            for batch in _batches(papers):
                for paper in batch:
                    check(paper)
                hashes = [content_hash(paper) for paper in batch]
                n_new += insert_papers(connection, dict(zip(hashes, batch, strict=True)))
                last = {paper.id: digest for paper, digest in zip(batch, hashes, strict=True)}
                point(connection, list(last.values()), number)
                given.update(last)
            if replace:
                present = connection.scalars(select(CurrentRow.paper_id).where(_HAS_VERSION))
                point_nowhere(connection, [paper_id for paper_id in present if paper_id not in given], number)
            forget_outdated(connection)
            return _change(connection, number, n_new=n_new)

    def delete(self, paper_ids: Iterable[str]) -> Change:
        """Deletes papers in one transaction; their versions stay, for the snapshots that refer to them.

        An id that the catalog never held is noted as deleted: a snapshot may hold it.
        """
        storable = [paper_id for paper_id in paper_ids if not UNSTORABLE.search(paper_id)]
        with self._database.writing() as connection:
            number = _last_change(connection) + 1
            point_nowhere(connection, storable, number)
            forget_outdated(connection)
            return _change(connection, number)

    def purge(self, paper_ids: Iterable[str]) -> Purged:
        """Deletes papers and removes every version of them for good, and every batch, finished or not.

        Queries and results of batches are stored compressed, and any may hold the text. Ids that were never
        there remove nothing. The file of SQLite is written anew, so that no freed page keeps the text. Of
        PostgreSQL the dead rows stay on the disk until they are vacuumed. That the papers were deleted stays
        noted by their ids.
        """
        storable = [paper_id for paper_id in paper_ids if not UNSTORABLE.search(paper_id)]
        with self._database.writing() as connection:
            present = [key for key in storable if _is_known(connection, key)]
            point_nowhere(connection, present, _last_change(connection) + 1)
            n_versions = remove_versions(connection, present)
            n_batches = _remove_batches(connection) if present else 0
        self._database.clear_freed_pages()
        return Purged(n_versions, n_batches)

    def restore(self, versions: Mapping[str, str | None]) -> Change:
        """Makes the versions with the content hashes given current, by paper id; ``None`` deletes."""
        with self._database.writing() as connection:
            number = _last_change(connection) + 1
            point_nowhere(connection, [key for key, digest in versions.items() if digest is None], number)
            point(connection, [digest for digest in versions.values() if digest is not None], number)
            forget_outdated(connection)
            return _change(connection, number)

    def note_encoding(self, models: str, encoded: Iterable[str], refused: Sequence[QuarantinedPaper]) -> None:
        """Quarantine the ``refused`` versions under ``models`` (``Manifest.models_key``), with their reasons.

        ``encoded`` are the content hashes of versions that are in quarantine no longer. A paper leaves it
        too where it is replaced or deleted.
        """
        there = self.refused(models)
        released = [digest for digest in encoded if digest in there] if there else []
        if released or refused:
            with self._database.writing() as connection:
                note_outcome(connection, models, released, refused)

    def refused(self, models: str) -> dict[str, str]:
        """The papers whose current versions ``models`` could not encode: ids by content hash."""
        with self._database.reading() as connection:
            return refused_papers(connection, models)

    def quarantine(self, models: str, *, limit: int) -> Quarantine:
        """How many papers ``models`` could not encode, and the first ``limit`` of them with the reasons."""
        with self._database.reading() as connection:
            return read_quarantine(connection, models, limit)

    def last_change(self) -> int:
        """The number of the last change of the collection; 0 before the first."""
        with self._database.reading() as connection:
            return _last_change(connection)

    def identity(self) -> str:
        """The random id that this catalog got when it was made; copies have the same."""
        with self._database.reading() as connection:
            return connection.execute(select(func.coalesce(func.max(IdentityRow.id), ""))).scalar_one()

    def changed_since(self, change: int) -> dict[str, str | None]:
        """The papers changed after ``change``, in the order in which their content first came in.

        Each id with the content hash of its current version, or with ``None`` where it was deleted.
        """
        statement = (
            select(CurrentRow.paper_id, PaperRow.content_hash)
            .outerjoin(PaperRow, PaperRow.key == CurrentRow.paper_key)
            .where(CurrentRow.change > change)
            .order_by(CurrentRow.paper_key, CurrentRow.paper_id)
        )
        with self._database.reading() as connection:
            return {row.paper_id: row.content_hash for row in connection.execute(statement)}

    def holding(self, paper_ids: Iterable[str]) -> set[str]:
        """Which of the papers are there."""
        found: set[str] = set()
        with self._database.reading() as connection:
            for batch in _batches(paper_id for paper_id in paper_ids if not UNSTORABLE.search(paper_id)):
                there = select(CurrentRow.paper_id).where(_HAS_VERSION, CurrentRow.paper_id.in_(batch))
                found.update(connection.scalars(there))
        return found

    def paper(self, paper_id: str) -> Paper:
        """The current version of one paper.

        Raises:
            PaperNotFoundError: the catalog holds no such id.
        """
        return next(self.papers([paper_id]))

    def papers(self, paper_ids: Iterable[str]) -> Iterator[Paper]:
        """The current versions of papers, in the order of ``paper_ids``, read a batch at a time.

        Raises:
            PaperNotFoundError: at the first id that the catalog does not hold.
        """
        wanted = list(paper_ids)
        for batch in in_batches(wanted):
            storable = [paper_id for paper_id in batch if not UNSTORABLE.search(paper_id)]
            statement = _CURRENT_PAPERS.where(CurrentRow.paper_id.in_(storable))
            with self._database.reading() as connection:
                found = {paper.id: paper for paper in read_papers(connection, statement)}
            for paper_id in batch:
                if paper_id not in found:
                    raise PaperNotFoundError(
                        f"the catalog {self._database.place} holds no paper {paper_id!r}; "
                        "check the id, or ingest the paper first"
                    )
                yield found[paper_id]

    def versions(self, hashes: Iterable[str]) -> Iterator[Paper]:
        """The versions with the content hashes given, in the order in which they first came in."""
        for batch in _batches(hashes):
            statement = (
                select(PaperRow.__table__).where(PaperRow.content_hash.in_(batch)).order_by(PaperRow.key)
            )
            with self._database.reading() as connection:
                found = read_papers(connection, statement)
            yield from found

    def paper_ids(self) -> list[str]:
        """The id of every paper, in the order in which their current versions first came in."""
        statement = select(CurrentRow.paper_id).where(_HAS_VERSION).order_by(CurrentRow.paper_key)
        with self._database.reading() as connection:
            return list(connection.scalars(statement))

    def count(self) -> int:
        """How many papers there are, each counted once however many versions it has."""
        with self._database.reading() as connection:
            return connection.execute(
                select(func.count()).select_from(CurrentRow).where(_HAS_VERSION)
            ).scalar_one()

    def find_title(self, text: str, limit: int = 10) -> list[Paper]:
        """Papers whose title contains ``text``, at most ``limit``, those that start with it first.

        Case, width and runs of spaces do not count. A blank text finds nothing.
        """
        wanted = folded(text)
        if not wanted or UNSTORABLE.search(wanted):
            return []
        with self._database.reading() as connection:
            position = func.instr if connection.dialect.name == "sqlite" else func.strpos
            found = position(PaperRow.folded_title, wanted)
            statement = _CURRENT_PAPERS.where(found > 0).order_by(found > 1, PaperRow.key).limit(limit)
            return read_papers(connection, statement)


def _is_known(connection: Connection, paper_id: str) -> bool:
    wanted = select(CurrentRow.paper_id).where(CurrentRow.paper_id == paper_id)
    return connection.execute(wanted).first() is not None


def _remove_batches(connection: Connection) -> int:
    """Ends and forgets every batch, whosever it is; returns how many there were."""
    connection.execute(delete(JobChunkRow))
    return connection.execute(delete(JobRow)).rowcount


def _last_change(connection: Connection) -> int:
    return connection.execute(select(func.coalesce(func.max(CurrentRow.change), 0))).scalar_one()


def _change(connection: Connection, number: int, *, n_new: int = 0) -> Change:
    of_this = select(func.count()).select_from(CurrentRow).where(CurrentRow.change == number)
    n_changed = connection.execute(of_this).scalar_one()
    return Change(number - 1, number if n_changed else number - 1, n_changed, n_new)


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH_PAPERS)):
        yield batch
