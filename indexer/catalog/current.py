"""Functions that make versions of papers current, and that read what has changed since."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, case, func, literal, select, update

from indexer.catalog.tables import CurrentRow, PaperRow, QuarantineRow, StagedRow
from indexer.catalog.versions import in_batches, insert_on_conflict

_READ_AT_ONCE: Final = 1_000  # rows


class Compared(NamedTuple):
    """The changes up to the one with this number, of papers first stored up to the version ``digest``."""

    digest: str
    change: int


class AddedPaper(NamedTuple):
    """A paper, the change that added it, and the time of that change in Unix seconds."""

    paper_id: str
    change: int
    added_at: int


def make_hashes_current(
    connection: Connection, digests: Sequence[str], change: int, *, at: int | None = None
) -> None:
    """Make the versions with these content hashes current, as ``make_current`` does."""
    for batch in in_batches(digests):
        versions = select(PaperRow.paper_id, PaperRow.key).where(PaperRow.content_hash.in_(batch))
        make_current(connection, versions, change, at=at)
        # A generation may contain these versions: they stay even if the load that added them is removed.
        keys = select(PaperRow.key).where(PaperRow.content_hash.in_(batch))
        connection.execute(update(StagedRow).where(StagedRow.paper_key.in_(keys)).values(brought=False))


def make_current(
    connection: Connection, versions: Select[str, int], change: int, *, at: int | None = None
) -> None:
    """Make ``versions`` (paper id, key) current as of ``change``, unless they already are.

    A paper that is new, was deleted, or was never shown because of the quarantine, counts as added. If all
    papers have rows and were there at an earlier change ``at``, none of them counts as added after it.
    """
    added = {"added": change, "added_at": int(time.time())}
    numbers = [literal(number, BigInteger) for number in (change, *added.values())]
    insert = insert_on_conflict(connection, CurrentRow).from_select(
        ["paper_id", "paper_key", "change", *added], versions.add_columns(*numbers)
    )
    in_quarantine = CurrentRow.paper_key.in_(select(QuarantineRow.paper_key))
    never_shown = (CurrentRow.added == CurrentRow.change) & in_quarantine
    comes: ColumnElement[bool] = CurrentRow.paper_key.is_(None) | never_shown
    differs = CurrentRow.paper_key.is_distinct_from(insert.excluded.paper_key)
    if at is not None:
        added, comes = {"added": at}, CurrentRow.added > at
        differs |= comes
    dates = _dates(comes, added)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=[CurrentRow.paper_id],
            set_={"paper_key": insert.excluded.paper_key, "change": change, **dates},
            where=differs,
        )
    )


def mark_pending(connection: Connection, keys: Select[int], change: int) -> int:
    """Let the papers whose current versions have these keys change after ``change``, with the same content.

    Papers that were never shown, because of the quarantine, count as added as of ``change``; as they change
    after it, a later correction does not add them again. Returns their number.
    """
    dates = _dates(CurrentRow.added == CurrentRow.change, {"added": change, "added_at": int(time.time())})
    of_these = update(CurrentRow).where(CurrentRow.paper_key.in_(keys))
    return connection.execute(of_these.values(change=change + 1, **dates)).rowcount


def _dates(comes: ColumnElement[bool], added: Mapping[str, int]) -> dict[str, ColumnElement[int]]:
    """Return when papers were added: as ``added`` says if they come, else as before."""
    return {name: case((comes, number), else_=getattr(CurrentRow, name)) for name, number in added.items()}


def mark_deleted(connection: Connection, paper_ids: Sequence[str], change: int) -> None:
    """Delete papers as of ``change``, unless they are deleted already; their versions stay."""
    if not paper_ids:
        return
    counted = {"change": change, "added": change, "added_at": int(time.time())}
    insert = insert_on_conflict(connection, CurrentRow)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=[CurrentRow.paper_id],
            set_={"paper_key": None, "change": change},
            where=CurrentRow.paper_key.is_not(None),
        ),
        [{"paper_id": paper_id, "paper_key": None, **counted} for paper_id in paper_ids],
    )


def changed_after(
    connection: Connection, change: int, but: Compared | None = None
) -> Iterator[tuple[str, str | None]]:
    """Yield the papers changed after ``change`` with their current content hashes, deleted ones first.

    Those that were compared already (``but``) are left out, except deleted ones.
    """
    statement = (
        select(CurrentRow.paper_id, PaperRow.content_hash)
        .outerjoin(PaperRow, PaperRow.key == CurrentRow.paper_key)
        .where(CurrentRow.change > change, *([] if but is None else [_is_left(but)]))
        # By the key of `papers`: to sort by that of `current_papers`, SQLite would read the whole table.
        .order_by(PaperRow.key.nulls_first(), CurrentRow.paper_id)
        .execution_options(yield_per=_READ_AT_ONCE)
    )
    with connection.execute(statement) as rows:
        for row in rows:
            yield row.paper_id, row.content_hash


def _is_left(compared: Compared) -> ColumnElement[bool]:
    key = select(PaperRow.key).where(PaperRow.content_hash == compared.digest).scalar_subquery()
    # If the version was removed for good meanwhile, every change is looked at again.
    is_later = CurrentRow.paper_key > func.coalesce(key, 0)
    return CurrentRow.paper_key.is_(None) | (CurrentRow.change > compared.change) | is_later


def added_after(connection: Connection, change: int, *, most: int, not_before: int = 0) -> list[AddedPaper]:
    """Return at most ``most`` papers that were added after ``change`` and not deleted, the newest first.

    Papers added before ``not_before``, a time in Unix seconds, are left out.
    """
    statement = (
        select(CurrentRow.paper_id, CurrentRow.added, CurrentRow.added_at)
        # A paper added later has also changed later, and only `change` has an index.
        .where(CurrentRow.change > change, CurrentRow.added > change)
        .where(CurrentRow.paper_key.is_not(None), CurrentRow.added_at >= not_before)
        .order_by(CurrentRow.added.desc(), CurrentRow.paper_id)
        .limit(most)
    )
    return [AddedPaper(*row) for row in connection.execute(statement).all()]
