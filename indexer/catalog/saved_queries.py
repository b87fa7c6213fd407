"""Removal of the saved queries that contain text of a purged paper."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, select

from indexer.catalog.tables import PaperRow, SavedQueryRow, SentenceRow
from indexer.catalog.versions import in_batches

# Shorter titles ("Attention") and sentences ("We test it.") occur in many papers.
_MIN_IDENTIFYING_CHARS: Final = 20


def remove_queries_holding(connection: Connection, paper_ids: Sequence[str]) -> int:
    """Remove the saved queries that contain a title or a sentence of one of the papers; return how many.

    Spacing and case are ignored. A title of fewer than 20 characters must be a whole text of the query, and a
    shorter sentence does not count. A query that only names a paper by its id stays.
    """
    titles: set[str] = set()
    identifying: set[str] = set()
    for some in in_batches(paper_ids):
        of_these = PaperRow.paper_id.in_(some)
        titles.update(map(_plain, connection.scalars(select(PaperRow.title).where(of_these))))
        identifying.update(_sentences(connection, of_these))
    identifying.update(title for title in titles if len(title) >= _MIN_IDENTIFYING_CHARS)
    queries = connection.execute(select(SavedQueryRow.id, SavedQueryRow.body)) if titles else ()
    holding = [
        key
        for key, body in queries
        if any(
            text in titles or any(each in text for each in identifying)
            for text in map(_plain, _texts(json.loads(body)))
        )
    ]
    for some in in_batches(holding):
        connection.execute(delete(SavedQueryRow).where(SavedQueryRow.id.in_(some)))
    return len(holding)


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
