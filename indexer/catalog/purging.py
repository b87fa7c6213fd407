"""Removal of purged papers from the catalog, with all batches and what callers saved of their text."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, select, update

from indexer.catalog.tables import (
    CurrentRow,
    JobChunkRow,
    JobRow,
    PaperRow,
    ProfileRow,
    QuarantineRow,
    SavedQueryRow,
    SentenceRow,
    StagedRow,
)
from indexer.catalog.versions import in_batches

# Shorter titles ("Attention") and sentences ("We test it.") occur in many papers.
_MIN_IDENTIFYING_CHARS: Final = 20


@dataclass(frozen=True, slots=True)
class PurgeCounts:
    """The numbers of versions, batches and saved queries removed for good, and the ``known`` ids purged."""

    n_versions: int
    n_batches: int
    n_queries: int
    known: tuple[str, ...] = field(default=(), compare=False)


def is_known(connection: Connection, paper_id: str) -> bool:
    """Return whether a paper is, was, or waits to be in the catalog."""
    tables = (CurrentRow, StagedRow)
    wanted = (select(table.paper_id).where(table.paper_id == paper_id) for table in tables)
    return any(connection.execute(each).first() is not None for each in wanted)


def names_of(connection: Connection, paper_ids: Sequence[str]) -> set[str]:
    """Return the titles and DOIs of all versions of the papers."""
    named = select(PaperRow.title, PaperRow.doi)
    batches = (connection.execute(named.where(PaperRow.paper_id.in_(ids))) for ids in in_batches(paper_ids))
    return {name for rows in batches for row in rows for name in row if name}


def remove_versions(connection: Connection, paper_ids: Sequence[str]) -> int:
    """Remove every version of deleted papers, with all rows that refer to them; return how many versions."""
    n_removed = 0
    for batch in in_batches(paper_ids):
        of_these = PaperRow.paper_id.in_(batch)
        keys = select(PaperRow.key).where(of_these)
        for table in (QuarantineRow, SentenceRow, StagedRow):
            connection.execute(delete(table).where(table.paper_key.in_(keys)))
        n_removed += connection.execute(delete(PaperRow).where(of_these)).rowcount
    return n_removed


def remove_batches(connection: Connection) -> int:
    """Delete every batch of every owner; return how many there were."""
    connection.execute(delete(JobChunkRow))
    return connection.execute(delete(JobRow)).rowcount


def remove_saved_texts(connection: Connection, paper_ids: Sequence[str]) -> int:
    """Remove the titles of the papers from saved profiles, and the saved queries that hold their text.

    Return how many queries were removed.
    """
    if titles := _titles(connection, paper_ids):
        _remove_from_profiles(connection, titles)
        return _remove_queries(connection, paper_ids, titles)
    return 0


def _remove_queries(connection: Connection, paper_ids: Sequence[str], titles: set[str]) -> int:
    """Remove the saved queries that contain a title or a sentence of one of the papers; return how many.

    A query's name counts too. Spacing and case are ignored. A title of fewer than 20 characters must be a
    whole text of the query, and a shorter sentence does not count. A query that only names a paper by its id
    stays.
    """
    identifying: set[str] = set()
    for some in in_batches(paper_ids):
        identifying.update(_sentences(connection, PaperRow.paper_id.in_(some)))
    identifying.update(title for title in titles if len(title) >= _MIN_IDENTIFYING_CHARS)
    # By their beginnings, so that a text is read once, however many texts it may hold.
    by_beginning: defaultdict[str, list[str]] = defaultdict(list)
    for each in identifying:
        by_beginning[each[:_MIN_IDENTIFYING_CHARS]].append(each)
    columns = (SavedQueryRow.id, SavedQueryRow.name, SavedQueryRow.body)
    queries = connection.execute(select(*columns))
    holding = [
        key
        for key, name, body in queries
        if any(
            text in titles or _holds_one(text, by_beginning)
            for text in map(_plain, (name, *_texts(json.loads(body))))
        )
    ]
    for some in in_batches(holding):
        connection.execute(delete(SavedQueryRow).where(SavedQueryRow.id.in_(some)))
    return len(holding)


def _holds_one(text: str, by_beginning: Mapping[str, Sequence[str]]) -> bool:
    """Return whether ``text`` holds one of these texts, given by their first _MIN_IDENTIFYING_CHARS."""
    starts = range(len(text) - _MIN_IDENTIFYING_CHARS + 1)
    return any(
        text.startswith(each, start)
        for start in starts
        for each in by_beginning.get(text[start : start + _MIN_IDENTIFYING_CHARS], ())
    )


def _remove_from_profiles(connection: Connection, titles: set[str]) -> None:
    """Remove these titles from saved profiles, which keep the names of papers that were not there yet."""
    columns = (ProfileRow.owner, ProfileRow.name, ProfileRow.papers, ProfileRow.conflicts)
    changed = []
    for owner, name, *lists in connection.execute(select(*columns)):
        named = [json.loads(each) for each in lists]
        kept = [[each for each in own if _plain(each) not in titles] for own in named]
        if kept != named:
            changed.append((owner, name, *map(json.dumps, kept)))
    for owner, name, papers, conflicts in changed:
        which = (ProfileRow.owner == owner, ProfileRow.name == name)
        connection.execute(update(ProfileRow).where(*which).values(papers=papers, conflicts=conflicts))


def _titles(connection: Connection, paper_ids: Sequence[str]) -> set[str]:
    """Return the titles of all versions of the papers, normalised."""
    title = select(PaperRow.title)
    found = (connection.scalars(title.where(PaperRow.paper_id.in_(some))) for some in in_batches(paper_ids))
    return {_plain(each) for some in found for each in some}


def _sentences(connection: Connection, of_these: ColumnElement[bool]) -> Iterator[str]:
    """Yield the sentences of versions of papers that are long enough to identify them, normalised."""
    statement = select(PaperRow.abstract, SentenceRow.start, SentenceRow.end).join(
        SentenceRow, SentenceRow.paper_key == PaperRow.key
    )
    for abstract, start, end in connection.execute(statement.where(of_these)):
        sentence = _plain(abstract[start:end])
        if len(sentence) >= _MIN_IDENTIFYING_CHARS:
            yield sentence


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in the body of a request, and each list of texts (such as sentences) joined to one."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield " ".join(each for each in value if isinstance(each, str))
        yield from (text for each in value for text in _texts(each))
    elif isinstance(value, dict):
        yield from (text for each in value.values() for text in _texts(each))


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
