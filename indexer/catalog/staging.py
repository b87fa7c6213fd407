"""Staged versions of papers: the catalog stores their text, but they are not current until published.

A load is the set of papers that one command adds. The catalog keeps an unfinished load under a key of its
contents: the same command, run again, continues it; any other command removes it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, delete, exists, func, literal, select, true, update

from indexer.catalog.current import make_current
from indexer.catalog.tables import CurrentRow, PaperRow, QuarantineRow, SentenceRow, StagedRow
from indexer.catalog.versions import BATCH_PAPERS, in_batches, insert_on_conflict, insert_papers
from models.types import Paper


class Version(NamedTuple):
    """One version of a paper; ``key`` grows in the order in which versions were first stored."""

    key: int
    paper_id: str
    content_hash: str


def stage(connection: Connection, load: str, papers: dict[str, Paper]) -> None:
    """Stage papers, given by content hash, for the ``load``; a staged version of the same id is replaced."""
    newest = select(func.coalesce(func.max(PaperRow.key), 0))
    last_key = connection.execute(newest).scalar_one()
    insert_papers(connection, papers)
    for digests in in_batches([*papers]):
        versions = select(
            PaperRow.paper_id, PaperRow.key, literal(load), (PaperRow.key > last_key).label("brought")
        ).where(PaperRow.content_hash.in_(digests))
        insert = insert_on_conflict(connection, StagedRow).from_select(
            ["paper_id", "paper_key", "load", "brought"], versions
        )
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=[StagedRow.paper_id],
                set_={"paper_key": insert.excluded.paper_key, "brought": insert.excluded.brought},
                where=StagedRow.paper_key != insert.excluded.paper_key,
            )
        )


def staged_hashes(connection: Connection, digests: list[str]) -> set[str]:
    """Return which of these content hashes are staged."""
    statement = (
        select(PaperRow.content_hash)
        .join(StagedRow, StagedRow.paper_key == PaperRow.key)
        .where(PaperRow.content_hash.in_(digests))
    )
    return set(connection.scalars(statement))


def staged_after(connection: Connection, load: str, key: int, limit: int) -> Iterator[Version]:
    """Return the first ``limit`` versions of a load with keys above ``key``, in the order of their keys."""
    statement = (
        select(StagedRow.paper_key, StagedRow.paper_id, PaperRow.content_hash)
        .join(PaperRow, PaperRow.key == StagedRow.paper_key)
        .where(StagedRow.load == load, StagedRow.paper_key > key)
        .order_by(StagedRow.paper_key)
        .limit(limit)
    )
    return (Version(*row) for row in connection.execute(statement).all())


def publish_staged(connection: Connection, load: str, up_to: int, change: int, *, replace: bool) -> None:
    """Make the versions of a load with keys up to ``up_to`` current as of ``change``.

    With ``replace``, every paper that is not among them is deleted.
    """
    of_these = (StagedRow.load == load, StagedRow.paper_key <= up_to)
    versions = select(StagedRow.paper_id, StagedRow.paper_key).where(*of_these)
    make_current(connection, versions, change)
    if replace:
        is_given = exists().where(StagedRow.paper_id == CurrentRow.paper_id, *of_these)
        connection.execute(
            update(CurrentRow)
            .where(CurrentRow.paper_key.is_not(None), ~is_given)
            .values(paper_key=None, change=change)
        )
    connection.execute(delete(StagedRow).where(*of_these))


def remove_staged_batch(connection: Connection, *, but: str) -> bool:
    """Remove a batch of staged papers of all loads except one, with versions that were never published.

    Returns whether there may be more.
    """
    others = StagedRow.load != but
    some = select(StagedRow.paper_key).where(others).order_by(StagedRow.paper_key).limit(BATCH_PAPERS)
    keys = list(connection.scalars(some))
    brought = select(StagedRow.paper_key).where(StagedRow.paper_key.in_(keys), StagedRow.brought == true())
    alone = list(connection.scalars(brought))
    connection.execute(delete(StagedRow).where(StagedRow.paper_key.in_(keys)))
    for table, column in (
        (QuarantineRow, QuarantineRow.paper_key),
        (SentenceRow, SentenceRow.paper_key),
        (PaperRow, PaperRow.key),
    ):
        connection.execute(delete(table).where(column.in_(alone)))
    return len(keys) == BATCH_PAPERS
