"""The quarantine: the catalog records papers that cannot be encoded, so that they block no others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select

from indexer.catalog.current import mark_pending
from indexer.catalog.tables import CurrentRow, PaperRow, QuarantineRow
from indexer.catalog.versions import in_batches

MAX_CHARS: Final = 1_000  # of a reason, which may quote the output of another program


@dataclass(frozen=True, slots=True)
class QuarantinedPaper:
    """A paper that could not be encoded: its id, the content hash of the version, and the reason."""

    paper_id: str
    content_hash: str
    reason: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The number of papers of a collection that could not be encoded, and the ``first`` of them by id."""

    n_papers: int = 0
    first: tuple[QuarantinedPaper, ...] = ()


def note_outcome(
    connection: Connection,
    models: str,
    released: Sequence[str],
    refused: Sequence[QuarantinedPaper],
    *,
    served: str,
    change: int,
) -> int | None:
    """Record the ``refused`` versions that are current, and take out those with the hashes ``released``.

    Released papers that these models or the ``served`` ones refused change after ``change``, so that they are
    pending until a generation shows them; returns the number of that change if there are any. What the served
    models refused stays on record: a rollback may go back to them.
    """
    n_released = 0
    for batch in in_batches(released):
        of_these = PaperRow.content_hash.in_(batch)
        there = select(QuarantineRow.paper_key).join(PaperRow, PaperRow.key == QuarantineRow.paper_key)
        by_either = QuarantineRow.models.in_([models, served])
        n_released += mark_pending(connection, there.where(by_either, of_these), change)
        keys = select(PaperRow.key).where(of_these)
        connection.execute(
            delete(QuarantineRow).where(QuarantineRow.models == models, QuarantineRow.paper_key.in_(keys))
        )
    for some in in_batches(refused):
        _insert(connection, models, {paper.content_hash: paper.reason for paper in some})
    return change + 1 if n_released else None


def including(noted: int | None, *, seen: int) -> int:
    """Return the last change that a generation includes: ``noted`` by ``note_outcome``, or else ``seen``.

    It is ``noted`` only if no other change came between the two.
    """
    return noted if noted == seen + 2 else seen


def _insert(connection: Connection, models: str, reasons: Mapping[str, str]) -> None:
    current = connection.execute(
        select(PaperRow.key, PaperRow.content_hash)
        .join(CurrentRow, CurrentRow.paper_key == PaperRow.key)
        .where(PaperRow.content_hash.in_(reasons))
    ).all()
    connection.execute(
        delete(QuarantineRow).where(
            QuarantineRow.models == models, QuarantineRow.paper_key.in_([row.key for row in current])
        )
    )
    rows: list[dict[str, Any]] = [
        {"paper_key": row.key, "models": models, "reason": reasons[row.content_hash][:MAX_CHARS]}
        for row in current
    ]
    if rows:
        connection.execute(insert(QuarantineRow), rows)


def remove_outdated(connection: Connection) -> None:
    """Take out versions that are no longer current because their papers were replaced or deleted."""
    is_current = select(CurrentRow.paper_key).where(CurrentRow.paper_key == QuarantineRow.paper_key)
    connection.execute(delete(QuarantineRow).where(~is_current.exists()))


def refused_papers(connection: Connection, models: str) -> dict[str, str]:
    """Return the ids, by content hash, of papers whose current versions ``models`` could not encode."""
    statement = (
        select(PaperRow.content_hash, PaperRow.paper_id)
        .join(QuarantineRow, QuarantineRow.paper_key == PaperRow.key)
        .where(QuarantineRow.models == models)
    )
    return {row.content_hash: row.paper_id for row in connection.execute(statement)}


def read_quarantine(connection: Connection, models: str, limit: int | None) -> Quarantine:
    """Return how many papers ``models`` could not encode, and the first ``limit`` of them, or all."""
    of_these = QuarantineRow.models == models
    n_papers = connection.execute(
        select(func.count()).select_from(QuarantineRow).where(of_these)
    ).scalar_one()
    if not n_papers:
        return Quarantine()
    statement = (
        select(PaperRow.paper_id, PaperRow.content_hash, QuarantineRow.reason)
        .join(QuarantineRow, QuarantineRow.paper_key == PaperRow.key)
        .where(of_these)
        .order_by(PaperRow.paper_id)
        .limit(limit)
    )
    rows = connection.execute(statement)
    return Quarantine(
        n_papers, tuple(QuarantinedPaper(row.paper_id, row.content_hash, row.reason) for row in rows)
    )
