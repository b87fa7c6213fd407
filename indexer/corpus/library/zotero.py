"""Reads Zotero's CSV: a table with the columns ``Key``, ``Title`` and ``Abstract Note``."""

from collections.abc import Iterator, Mapping
from typing import Final

from indexer.corpus.formats.table import is_table, table_rows
from indexer.corpus.library.names import entry_names, usual_order, year_in
from indexer.corpus.rows import RawPaper, Row, without_tags
from indexer.corpus.source import MAX_LINE_BYTES, Lines

# One cell holds all notes of a paper. Every cell has quotes, so a quote that is not closed costs few rows.
MAX_CELL_CHARS: Final = MAX_LINE_BYTES
# The field that each column gives, of a paper or of its names.
_COLUMNS = {
    "key": "id",
    "title": "title",
    "abstract note": "abstract",
    "publication year": "year",
    "date": "date",
    "publication title": "venue",
    "conference name": "conference",
    "author": "authors",
    "url": "url",
    "doi": "doi",
    "extra": "extra",
    "archive id": "archive",
}


class ZoteroReader:
    """The reader of Zotero's CSV: ids are those of ``library.names``, with ``Key`` as key."""

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first line has Zotero's column names."""
        return not head.startswith(("{", "[")) and is_table(head, _COLUMNS)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each record, with the line it begins on."""
        return table_rows(lines, _COLUMNS, _raw, max_cell_chars=MAX_CELL_CHARS)


def _raw(values: Mapping[str, str]) -> RawPaper:
    names = entry_names(
        doi=values.get("doi"),
        arxiv=values.get("archive"),
        pmid=None,
        key=values.get("id"),
        others=(values.get("url"),),
        note=values.get("extra"),
    )
    return RawPaper(
        id=names.id,
        title=without_tags(values.get("title")),
        abstract=without_tags(values.get("abstract")),
        year=year_in(values.get("year"), values.get("date")),
        venue=values.get("venue") or values.get("conference"),
        authors=[usual_order(name) for name in values.get("authors", "").split(";")],
        url=values.get("url"),
        doi=names.doi,
        lookup=names.lookup,
    )
