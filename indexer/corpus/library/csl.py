"""Reads CSL-JSON, as Zotero, Mendeley and Pandoc write it: a list of ``{"type": ..., "issued": ...}``.

Works of Crossref have the same form, except that titles are in lists.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from string import ascii_letters

from indexer.corpus.library.keys import lasting, made_key
from indexer.corpus.library.names import entry_names, with_subtitle, year_in
from indexer.corpus.records import JsonObject, head_records, json_rows
from indexer.corpus.rows import RawPaper, Row, at, without_tags, year_of
from indexer.corpus.source import Lines
from models.errors import InputError

_KEYS = frozenset({"issued", "container-title", "citation-key"})
# Keys of CSL that other formats may have too; they count if no key is one of Akin's own format.
_COMMON_KEYS = frozenset(
    {"DOI", "ISBN", "ISSN", "PMID", "URL", "accessed", "author", "event-title", "page", "publisher"}
)
_OWN_KEYS = frozenset({"year", "venue", "authors", "url", "doi", "fields", "facets"})
# What is left of an abstract that was escaped twice, as some publishers send theirs to Crossref.
_STILL_ESCAPED = re.compile(r"^\s*<p[\s>]|&(?:amp|lt|gt);")


class CslReader:
    """The reader of CSL: ids are those of ``library.names``, with ``citation-key`` or else ``id`` as key.

    A key that only numbers the entries of one file is replaced by a made one.
    """

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first record is CSL, also if only a later one has a key that only CSL has."""
        return is_csl(head)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each object."""
        return json_rows(lines, lambda record: raw_paper(_work(record)))


def is_csl(head: str) -> bool:
    """Return whether ``head`` begins with ``type``, ``title`` and keys of CSL, or is a work of Crossref."""
    records = [_work(record) for _, record in head_records(head)]
    first = records[0].keys() if records else set()
    if not first >= {"type", "title"}:
        return False
    if first & _KEYS:
        return True
    if "id" not in first or first & _OWN_KEYS:
        return False
    return bool(first & _COMMON_KEYS) or any(_KEYS & each.keys() for each in records)


def _work(record: JsonObject) -> JsonObject:
    """Return the work in an answer of Crossref about one work; return any other record unchanged."""
    message = record.get("message")
    return message if isinstance(message, dict) else record


def raw_paper(record: JsonObject) -> RawPaper:
    """Return the paper of a record of CSL or a work of Crossref."""
    main = without_tags(_main(record.get("title")))
    title = with_subtitle(main, without_tags(_main(record.get("subtitle"))))
    year = _year(record.get("issued"))
    authors = _people(record.get("author"))
    key = _text(record.get("citation-key")) or _text(record.get("id"))
    names = entry_names(
        doi=_text(record.get("DOI")),
        arxiv=None,
        pmid=_text(record.get("PMID")),
        key=lasting(key) or made_key("csl", main, str(year or ""), authors) or key,
        others=(_text(record.get("URL")), _text(record.get("number"))),
        note=_text(record.get("note")),
    )
    return RawPaper(
        id=names.id,
        title=title,
        abstract=_abstract(record.get("abstract")),
        year=year,
        venue=without_tags(_main(record.get("container-title")) or record.get("event-title") or None),
        authors=authors,
        url=record.get("URL"),
        doi=names.doi,
        lookup=names.lookup,
    )


def _text(given: object) -> str | None:
    return str(given) if isinstance(given, str | int) and not isinstance(given, bool) and given else None


def _abstract(given: object) -> object:
    abstract = without_tags(given)
    if isinstance(abstract, str) and _STILL_ESCAPED.search(abstract):
        return without_tags(abstract)
    return abstract


def _main(given: object) -> object:
    """Return the first of a list of titles, as Crossref writes them; return anything else unchanged."""
    return next(iter(given), None) if isinstance(given, list) else given


def _year(issued: object) -> int | str | None:
    """Return the year of ``{"date-parts": [[2020, 5]]}``, or the year in a date given as text.

    A letter after the year, as in "2020a", distinguishes papers of one year.
    """
    parts = at(issued, "date-parts")
    while isinstance(parts, list) and parts:
        parts = parts[0]
    if isinstance(parts, str | int) and parts:
        with suppress(InputError):
            return year_of(str(parts).rstrip(ascii_letters))
        return None
    return year_in(_text(at(issued, "literal")) or _text(at(issued, "raw")))


def _people(given: object) -> list[str]:
    """Return ``First particles Last Suffix`` for each person, or the name of a group."""
    keys = ("given", "dropping-particle", "non-dropping-particle", "family", "suffix")
    names = []
    for each in given if isinstance(given, list) else ():
        parts = [at(each, key) for key in keys]
        group = at(each, "literal") or at(each, "name")  # Crossref's word for it is "name"
        name = " ".join(part for part in parts if isinstance(part, str) and part) or group
        names += [name] if isinstance(name, str) else []
    return names
