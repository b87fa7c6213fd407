"""Reads arXiv's metadata (JSON lines: ``id, title, abstract, categories, authors_parsed, versions``)."""

import re
from collections.abc import Iterator

from indexer.corpus.library.latex import from_latex
from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import RawPaper, Row, at
from indexer.corpus.source import Lines

_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
# "and" only matches from the start of a run of white space: from every place, it would take quadratic time.
_BETWEEN_AUTHORS = re.compile(r",\s++|(?<!\s)\s++and\s++")


class ArxivReader:
    """The reader of arXiv's metadata: ids become ``arxiv:2212.11867``, categories become fields.

    LaTeX becomes Unicode. The year is that of the first version, else of the last update.
    """

    needs_abstract = True

    def recognises(self, head: str) -> bool:
        """Return whether the first record has an ``id`` and keys that only arXiv's metadata has."""
        keys = first_record(head).keys()
        return "id" in keys and ("authors_parsed" in keys or {"categories", "submitter"} <= keys)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each record."""
        return json_rows(lines, raw_paper)


def raw_paper(record: JsonObject) -> RawPaper:
    """Return the paper of one metadata record; unarXive has the same records."""
    name = record.get("id")
    categories = record.get("categories")
    return RawPaper(
        id=f"arxiv:{name}" if isinstance(name, str) and name else None,
        title=_text(record.get("title")),
        abstract=_text(record.get("abstract")),
        year=_year(record),
        authors=_authors(record),
        url=f"https://arxiv.org/abs/{name}",
        doi=_first_word(record.get("doi")),  # where there are two, the first is the paper's
        fields=categories.split() if isinstance(categories, str) else categories,
    )


def _text(given: object) -> object:
    """Return a text without LaTeX; return anything else unchanged."""
    return from_latex(given) if isinstance(given, str) else given


def _first_word(given: object) -> object:
    return next(iter(given.split()), None) if isinstance(given, str) else given


def _year(record: JsonObject) -> str | None:
    versions = record.get("versions")
    first = at(versions[0], "created") if isinstance(versions, list) and versions else None
    for date in (first, record.get("update_date")):
        if isinstance(date, str) and (year := _YEAR.search(date)):
            return year[0]
    return None


def _authors(record: JsonObject) -> object:
    """Return "First Last Suffix" for each of ``authors_parsed`` ([last, first, suffix, ...])."""
    parsed = record.get("authors_parsed")
    if not isinstance(parsed, list):
        authors = record.get("authors")
        return [*map(_text, _BETWEEN_AUTHORS.split(authors))] if isinstance(authors, str) else authors
    names = [
        [part for part in name[:3] if isinstance(part, str)] for name in parsed if isinstance(name, list)
    ]
    return [_text(" ".join([*name[1:2], *name[:1], *name[2:]])) for name in names]
