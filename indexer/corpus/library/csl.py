"""Reads CSL-JSON, as Zotero, Mendeley and Pandoc write it: a list of ``{"type": ..., "issued": ...}``.

Works of Crossref have the same form, except that titles are in lists.
"""

from collections.abc import Iterator

from indexer.corpus.library.names import entry_names, year_in
from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import RawPaper, Row, at, without_tags
from indexer.corpus.source import Lines

_KEYS = frozenset({"issued", "container-title", "citation-key"})


class CslReader:
    """The reader of CSL: ids are those of ``library.names``, with ``citation-key`` or else ``id`` as key."""

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first record has ``type``, ``title`` and a key that only CSL has."""
        keys = first_record(head).keys()
        return "type" in keys and "title" in keys and bool(keys & _KEYS)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each object."""
        return json_rows(lines, _raw)


def _raw(record: JsonObject) -> RawPaper:
    names = entry_names(
        doi=_text(record.get("DOI")),
        arxiv=None,
        pmid=_text(record.get("PMID")),
        key=_text(record.get("citation-key")) or _text(record.get("id")),
        others=(_text(record.get("URL")), _text(record.get("number")), _text(record.get("note"))),
    )
    return RawPaper(
        id=names.id,
        title=without_tags(_first(record.get("title"))),
        abstract=without_tags(record.get("abstract")),
        year=_year(record.get("issued")),
        venue=without_tags(_first(record.get("container-title")) or record.get("event-title") or None),
        authors=_people(record.get("author")),
        url=record.get("URL"),
        doi=names.doi,
        lookup=names.lookup,
    )


def _text(given: object) -> str | None:
    return str(given) if isinstance(given, str | int) and not isinstance(given, bool) and given else None


def _first(given: object) -> object:
    """Return the first of a list of titles, as Crossref writes them; return anything else unchanged."""
    return next(iter(given), None) if isinstance(given, list) else given


def _year(issued: object) -> object:
    """Return the first number of ``{"date-parts": [[2020, 5]]}``, or the year in a date given as text."""
    parts = at(issued, "date-parts")
    while isinstance(parts, list) and parts:
        parts = parts[0]
    if isinstance(parts, str | int) and parts:
        return parts
    return year_in(_text(at(issued, "literal")) or _text(at(issued, "raw")))


def _people(given: object) -> object:
    """Return ``First particle Last Suffix`` for each person, or the name of a group."""
    if not isinstance(given, list):
        return None
    keys = ("given", "non-dropping-particle", "family", "suffix")
    named = [[at(each, key) for key in keys] for each in given]
    names = [" ".join(part for part in parts if isinstance(part, str) and part) for parts in named]
    return [name or at(each, "literal") or "" for name, each in zip(names, given, strict=True)]
