"""Functions that insert, check, read and remove versions of papers as rows of the catalog."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Connection, Executable, delete, select, update
from sqlalchemy import insert as plain_insert
from sqlalchemy.dialects import sqlite

from indexer.catalog.tables import Base, PaperRow, SentenceRow
from indexer.content_hash import content_hash
from models.errors import InputError, StorageError
from models.types import Facet, Paper, Sentence

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

_Item = TypeVar("_Item")

BATCH_PAPERS: Final = 500  # ids in one statement; SQLite allows 32,766 variables
UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")  # PostgreSQL stores no NUL, UTF-8 no lone surrogate

_REMEDY: Final = (
    "restore the catalog from a backup, or delete the paper (`akin delete ID`) and index it again"
)
_MAX_YEAR: Final = 2**31 - 1  # of a PostgreSQL integer


def checked_hashes(papers: Iterable[Paper]) -> list[str]:
    """Return the content hashes of papers; raises InputError if one would not be read back unchanged."""
    return [_checked_hash(paper) for paper in papers]


def _checked_hash(paper: Paper) -> str:
    """Return a paper's content hash; raise InputError if one of the databases would refuse or change it."""
    texts = (paper.id, paper.title, paper.abstract, paper.venue, paper.url, paper.doi)
    for text in (*texts, *paper.authors, *paper.fields):
        if text is not None and (bad := UNSTORABLE.search(text)):
            raise InputError(
                f"paper {paper.id!r} holds the character {bad.group()!r} in {text[:60]!r}, "
                "expected text without NUL and lone surrogates; remove it"
            )
    if paper.year is not None and abs(paper.year) > _MAX_YEAR:
        raise InputError(f"paper {paper.id!r} has the year {paper.year}, expected a year; correct it")
    for number, sentence in enumerate(paper.sentences):
        if paper.abstract[sentence.start : sentence.end] != sentence.text:
            raise InputError(
                f"sentence {number} of paper {paper.id!r} is {sentence.text[:60]!r}, expected its abstract "
                f"at [{sentence.start}:{sentence.end}]; split the abstract again"
            )
    return content_hash(paper)


def insert_on_conflict(connection: Connection, table: type[Base]) -> "sqlite.Insert | postgresql.Insert":
    """Return an INSERT in the dialect of the database: standard SQL has no ON CONFLICT clause."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - not for a collection with a file

    return postgresql.insert(table)


def insert_papers(connection: Connection, papers: dict[str, Paper]) -> int:
    """Insert the papers, given by content hash, that are not in the catalog yet; return how many were new.

    Papers that are in the catalog but damaged are written again.
    """
    # Not left to ON CONFLICT: PostgreSQL takes a key from its sequence even for rows that it does not insert.
    missing = papers.keys() - stored_hashes(connection, [*papers])
    insert = insert_on_conflict(connection, PaperRow).on_conflict_do_nothing()
    statement = insert.returning(PaperRow.key, PaperRow.content_hash)
    rows = [_columns(digest, paper) for digest, paper in papers.items() if digest in missing]
    added = connection.execute(statement, rows).all() if rows else []
    there = papers.keys() - {digest for _, digest in added}
    damaged = connection.execute(
        select(PaperRow.key, PaperRow.content_hash).where(
            PaperRow.content_hash.in_(_damaged(connection, list(there)))
        )
    ).all()
    for key, digest in damaged:
        columns = _columns(digest, papers[digest])
        connection.execute(update(PaperRow).where(PaperRow.key == key).values(columns))
        connection.execute(delete(SentenceRow).where(SentenceRow.paper_key == key))
    sentences = [
        {"paper_key": key, "position": i, "start": one.start, "end": one.end, "facet": one.facet}
        for key, digest in [*added, *damaged]
        for i, one in enumerate(papers[digest].sentences)
    ]
    if sentences:
        connection.execute(plain_insert(SentenceRow), sentences)
    return len(added)


def stored_hashes(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Return which of these content hashes, one batch, are those of versions in the catalog."""
    statement = select(PaperRow.content_hash).where(PaperRow.content_hash.in_(digests))
    return set(connection.scalars(statement))


def _columns(digest: str, paper: Paper) -> dict[str, Any]:
    return {
        "paper_id": paper.id,
        "content_hash": digest,
        "title": paper.title,
        "abstract": paper.abstract,
        "year": paper.year,
        "venue": paper.venue,
        "authors": list(paper.authors),
        "url": paper.url,
        "doi": paper.doi,
        "fields": list(paper.fields),
    }


def in_batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield the items in lists of at most ``BATCH_PAPERS``, for one statement each."""
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH_PAPERS)):
        yield batch


def read_papers(connection: Connection, statement: Executable) -> list[Paper]:
    """Return the papers, with sentences, of the rows of ``papers`` that a statement selects, in that order.

    Raises StorageError if a paper differs from what was written.
    """
    try:
        read = _read(connection, statement)
    except (ValueError, TypeError) as error:
        raise StorageError(f"A row of the catalog is damaged ({error}): {_REMEDY}") from error
    for digest, paper in read:
        if content_hash(paper) != digest:
            raise StorageError(f"Paper {paper.id!r} is damaged in the catalog: {_REMEDY}")
    return [paper for _, paper in read]


def _damaged(connection: Connection, digests: Sequence[str]) -> list[str]:
    """Return the content hashes of stored versions that differ from what was written."""
    try:
        read = _read(connection, select(PaperRow.__table__).where(PaperRow.content_hash.in_(digests)))
    except (ValueError, TypeError):
        if len(digests) == 1:
            return list(digests)
        return [damaged for digest in digests for damaged in _damaged(connection, [digest])]
    return [digest for digest, paper in read if content_hash(paper) != digest]


def _read(connection: Connection, statement: Executable) -> list[tuple[str, Paper]]:
    """Return papers with their content hashes; raises ValueError, TypeError for rows that are not papers."""
    rows = connection.execute(statement).all()
    abstracts = {row.key: row.abstract for row in rows}
    sentences: dict[int, list[Sentence]] = {key: [] for key in abstracts}
    in_order = (
        select(SentenceRow.paper_key, SentenceRow.start, SentenceRow.end, SentenceRow.facet)
        .where(SentenceRow.paper_key.in_(abstracts))
        .order_by(SentenceRow.paper_key, SentenceRow.position)
    )
    for key, start, end, facet in connection.execute(in_order):
        text = abstracts[key][start:end]
        sentences[key].append(Sentence(text, start, end, None if facet is None else Facet(facet)))
    return [
        (
            row.content_hash,
            Paper(
                id=row.paper_id,
                title=row.title,
                abstract=row.abstract,
                sentences=tuple(sentences[row.key]),
                year=row.year,
                venue=row.venue,
                authors=tuple(row.authors),
                url=row.url,
                doi=row.doi,
                fields=tuple(row.fields),
            ),
        )
        for row in rows
    ]
