"""Saved queries in the catalog's database, and which of their new papers were seen.

New papers are counted by changes of the collection, not by time: so no paper of a transaction is missed,
whichever process publishes it, and whenever.
"""

import json
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from indexer.catalog.current import AddedPaper, added_after
from indexer.catalog.database import Database
from indexer.catalog.store import Store
from indexer.catalog.tables import CurrentRow, SavedQueryRow
from models.errors import InputError, QueryError, SavedQueryConflictError, SavedQueryNotFoundError
from service.access.api_keys import expect_not_revoked
from service.search.query import Detail

MAX_NAME_CHARS: Final = 100
MAX_PER_OWNER: Final = 100
MAX_ADDED: Final = 50_000  # added papers that are compared with a query at once
ID_BYTES: Final = 16
_ID: Final = re.compile("[A-Za-z0-9_-]{22}")
_MAX_NUMBER: Final = 2**31 - 1  # largest number of a feed
_DEFAULTS: Final = {"include": list(Detail)}
# Lists of a body whose order means nothing: those of results, filters and aspects.
_UNORDERED: Final = frozenset(
    ("include", "venues", "fields", "authors", "ids", "exclude_ids", "has_facets", "sentences", "facet")
)


@dataclass(frozen=True, slots=True)
class NewSavedQuery:
    """A query to be saved: ``body`` is that of its request, as JSON in ASCII, ``kind`` is the request's kind.

    ``change`` is the last change of the collection that is served: papers added later are new.
    """

    owner: str
    name: str
    kind: str
    body: str
    change: int


@dataclass(frozen=True, slots=True)
class SavedQuerySummary:
    """A saved query without its body. Papers added after the change ``seen`` are new to its owner.

    ``since`` is the change at which it was saved; times are Unix seconds. While it ``has_feed``, the feed
    with number ``n_feeds`` is valid.
    """

    id: str
    owner: str
    name: str
    kind: str
    since: int
    seen: int
    created_at: int
    seen_at: int | None
    has_feed: bool
    n_feeds: int


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A saved query and the body of its request."""

    summary: SavedQuerySummary
    body: str


_SUMMARY: Final = [getattr(SavedQueryRow, field.name) for field in fields(SavedQuerySummary)]


class SavedQueries(Store):
    """The saved queries of one database; open them with ``SavedQueries.open``.

    Every method raises ``StorageError`` if the database cannot be reached, read or written. An ``owner`` of
    ``None`` means any owner. ``clock`` returns Unix seconds; no owner has more than ``most_of_owner``
    queries.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        most_of_owner: int = MAX_PER_OWNER,
    ) -> None:
        super().__init__(database)
        self._clock = clock
        self._most_of_owner = most_of_owner

    def save(self, new: NewSavedQuery) -> tuple[SavedQuery, bool]:
        """Save a query, or find the owner's with the same name and content; also return whether it is new.

        The order of filters, chosen sentences, facets and details does not count, that of seeds does.

        Raises:
            InputError: a name that is blank, too long or not printable.
            KeyRefusedError: the owner is a key that was revoked.
            SavedQueryConflictError: the name is that of another query, or there are too many.
        """
        _expect_name(new.name)
        with self.database.writing() as connection:
            expect_not_revoked(connection, new.owner)
            same = and_(SavedQueryRow.owner == new.owner, SavedQueryRow.name == new.name)
            if (earlier := _found(connection, same)) is not None:
                if earlier.summary.kind != new.kind or not _is_same(earlier.body, new.body):
                    raise SavedQueryConflictError(
                        f"Another query is saved under this name, as {earlier.summary.id}; give another "
                        "name, or delete that one first."
                    )
                return earlier, False
            self._expect_room(connection, new.owner)
            row = {
                "id": _new_id(),
                **{name: getattr(new, name) for name in ("owner", "name", "kind", "body")},
                "since": new.change,
                "seen": new.change,
                "created_at": int(self._clock()),
                "has_feed": False,
                "n_feeds": 0,
            }
            connection.execute(insert(SavedQueryRow).values(row))
            return _expected(connection, SavedQueryRow.id == row["id"]), True

    def all(self, *, owner: str | None) -> list[SavedQuerySummary]:
        """Return the saved queries of ``owner``, sorted by name."""
        statement = select(*_SUMMARY).order_by(SavedQueryRow.name, SavedQueryRow.id)
        if owner is not None:
            statement = statement.where(SavedQueryRow.owner == owner)
        with self.database.reading() as connection:
            return [SavedQuerySummary(**row._asdict()) for row in connection.execute(statement)]

    def get(self, query_id: str, *, owner: str | None) -> SavedQuery:
        """Return a saved query; raises SavedQueryNotFoundError."""
        with self.database.reading() as connection:
            return _expected(connection, _of(query_id, owner))

    def remove(self, query_id: str, *, owner: str | None) -> None:
        """Delete a saved query with its feed; do nothing if there is none."""
        if _ID.fullmatch(query_id):
            with self.database.writing() as connection:
                connection.execute(delete(SavedQueryRow).where(_of(query_id, owner)))

    def mark_seen(self, query_id: str, up_to: int, *, owner: str | None) -> SavedQuerySummary:
        """Mark the papers added up to the change ``up_to`` as seen; this cannot be undone.

        Raises SavedQueryNotFoundError; QueryError for a change that does not exist yet.
        """
        with self.database.writing() as connection:
            summary = _expected(connection, _of(query_id, owner)).summary
            last = connection.execute(select(func.coalesce(func.max(CurrentRow.change), 0))).scalar_one()
            if not 0 <= up_to <= max(last, summary.seen):
                raise QueryError(
                    f"up_to must be the number of a change of the collection, up to {last}; give seen_up_to "
                    "of the results that were read."
                )
            seen = {"seen": max(up_to, summary.seen), "seen_at": int(self._clock())}
            return _changed(connection, summary.id, seen)

    def open_feed(self, query_id: str, *, owner: str | None) -> SavedQuerySummary:
        """Create a feed of the query unless it has one; raises SavedQueryNotFoundError, KeyRefusedError."""
        with self.database.writing() as connection:
            summary = _expected(connection, _of(query_id, owner)).summary
            expect_not_revoked(connection, summary.owner)
            if summary.has_feed:
                return summary
            return _changed(connection, summary.id, {"has_feed": True, "n_feeds": summary.n_feeds + 1})

    def close_feed(self, query_id: str, *, owner: str | None) -> None:
        """Revoke the query's feed, if it has one; a later feed has another address.

        Raises SavedQueryNotFoundError.
        """
        with self.database.writing() as connection:
            summary = _expected(connection, _of(query_id, owner)).summary
            _changed(connection, summary.id, {"has_feed": False})

    def of_feed(self, query_id: str, number: int) -> SavedQuery:
        """Return the query if its feed with this ``number`` is valid; raises SavedQueryNotFoundError."""
        good = and_(SavedQueryRow.has_feed, SavedQueryRow.n_feeds == min(number, _MAX_NUMBER))
        with self.database.reading() as connection:
            found = _found(connection, and_(_of(query_id, None), good))
        if found is None:
            raise SavedQueryNotFoundError("There is no such feed, or it was ended; create a new one.")
        return found

    def added(self, change: int, *, within_s: int | None = None) -> list[AddedPaper]:
        """Return the papers added after a change, and in the last ``within_s`` seconds, the last ones first.

        At most MAX_ADDED papers.
        """
        not_before = 0 if within_s is None else int(self._clock()) - within_s
        with self.database.reading() as connection:
            return added_after(connection, change, most=MAX_ADDED, not_before=not_before)

    def last_addition(self, change: int) -> int:
        """Return the change that added the newest paper, or 0 if none was added after ``change``."""
        with self.database.reading() as connection:
            newest = added_after(connection, change, most=1)
        return newest[0].change if newest else 0

    def _expect_room(self, connection: Connection, owner: str) -> None:
        of_owner = select(func.count()).select_from(SavedQueryRow).where(SavedQueryRow.owner == owner)
        if connection.execute(of_owner).scalar_one() >= self._most_of_owner:
            raise SavedQueryConflictError(
                f"{self._most_of_owner} queries are saved already, the limit for one caller; delete one "
                "first."
            )


def _expect_name(name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InputError(
            f"name: expected 1 to {MAX_NAME_CHARS} printable characters; name the query after its topic"
        )


def _is_same(body: str, other: str) -> bool:
    if body == other:
        return True
    one, two = (_comparable(_DEFAULTS | json.loads(each)) for each in (body, other))
    return bool(one == two)


def _comparable(value: Any, name: str = "") -> Any:
    """Return the value of a field of a body with sets in place of lists whose order means nothing."""
    if isinstance(value, dict):
        return {key: _comparable(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return {*value} if name in _UNORDERED else [_comparable(each) for each in value]
    if name == "facet" and isinstance(value, str):
        return {value}
    return value


def _of(query_id: str, owner: str | None) -> ColumnElement[bool]:
    if not _ID.fullmatch(query_id):  # not every database accepts every text as a parameter
        raise _not_found()
    which = SavedQueryRow.id == query_id
    return which if owner is None else and_(which, SavedQueryRow.owner == owner)


def _new_id() -> str:
    """Return a random id; none begins with a hyphen, as a command would take it for an option."""
    while (drawn := secrets.token_urlsafe(ID_BYTES)).startswith("-"):
        pass
    return drawn


def _found(connection: Connection, which: ColumnElement[bool]) -> SavedQuery | None:
    row = connection.execute(select(*_SUMMARY, SavedQueryRow.body).where(which)).one_or_none()
    if row is None:
        return None
    columns = row._asdict()
    body = columns.pop("body")
    return SavedQuery(SavedQuerySummary(**columns), body)


def _expected(connection: Connection, which: ColumnElement[bool]) -> SavedQuery:
    found = _found(connection, which)
    if found is None:
        raise _not_found()
    return found


def _changed(connection: Connection, query_id: str, values: dict[str, Any]) -> SavedQuerySummary:
    which = SavedQueryRow.id == query_id
    connection.execute(update(SavedQueryRow).where(which).values(values))
    return _expected(connection, which).summary


def _not_found() -> SavedQueryNotFoundError:
    return SavedQueryNotFoundError("There is no such saved query; it was deleted, or saved with another key.")
