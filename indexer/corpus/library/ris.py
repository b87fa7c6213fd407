"""Reads RIS, which most reference managers and publishers export: ``TY  - JOUR`` to ``ER  -``."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import rispy

from indexer.corpus.library.chunks import entry_chunks, split_lines
from indexer.corpus.library.keys import lasting, made_key
from indexer.corpus.library.names import entry_names, usual_order, year_in
from indexer.corpus.rows import RawPaper, Row, without_tags
from indexer.corpus.source import Lines
from models.errors import BrokenFileError, InputError

# The format has two spaces before the hyphen; some programs write one.
_BEGINS = re.compile(rb"TY {1,2}-")
_FIRST_LINE = re.compile(r"\s*+TY {1,2}-")
_LAST = r"ER {1,2}-\s*$"  # a line with more belongs to an abstract ("ER -negative")
_LAST_LINE, _ENDS = re.compile(_LAST), re.compile(_LAST.encode())
_NO_END = "not a valid RIS entry: it does not end with a line ER"
_ONE_BLANK = re.compile(r"^([A-Z][A-Z0-9]) -")
_TITLES = ("title", "primary_title", "book_title", "unpublished_title")
# rispy does not know the titles of books and of unpublished works.
_FIELDS = {**rispy.TAG_KEY_MAPPING, "BT": "book_title", "CT": "unpublished_title"}
# Addresses may hold semicolons, and old DOIs do: one ends an address only if another or nothing follows.
_BETWEEN_ADDRESSES = re.compile(r";\s*+(?=https?://|$)", re.IGNORECASE)
_ABSTRACTS = ("abstract", "notes_abstract")
_YEARS = ("year", "publication_year", "date")
_VENUES = ("journal_name", "alternate_title3", "secondary_title", "alternate_title2", "publisher")


class RisReader:
    """The reader of RIS: ids are those of ``library.names``, with ``ID``, else ``AN``, else a made key.

    The key is made of title, year and first author, because Zotero writes neither ``ID`` nor ``AN``, and many
    conference papers have no DOI. An ``ID`` of digits is the number of the entry in one file, and no key.
    """

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first line begins an entry."""
        return _FIRST_LINE.match(head) is not None

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each entry."""
        for line, text, is_last in entry_chunks(lines, begins=_BEGINS, ends=_ends):
            if isinstance(text, InputError):
                yield Row(line, text)
            elif any(map(_LAST_LINE.match, entry := split_lines(text))):
                yield from _rows(line, entry)
            elif is_last:
                raise BrokenFileError(str(lines.path), line, _NO_END)
            else:
                yield Row(line, InputError(_NO_END))


def _ends(line: bytes) -> bool:
    return _ENDS.match(line) is not None


def _rows(line: int, lines: list[str]) -> Iterator[Row]:
    """Yield a row for the entry that ``lines`` begin with, and an error for each later one, without a TY."""
    last = [number for number, each in enumerate(lines) if _LAST_LINE.match(each)]
    yield Row(line, _content(lines[: last[0]]))
    for before, end in pairwise(last):
        begin = next(number for number in range(before + 1, end + 1) if lines[number].strip())
        if begin < end:
            reason = "not a valid RIS entry: it does not begin with a line TY"
            yield Row(line + begin, InputError(reason))


def _content(lines: list[str]) -> RawPaper | InputError:
    """Return the paper of the lines of an entry, without its last line, or the reason why there is none."""
    if _ONE_BLANK.match(lines[0]):
        # Only for such an entry: in others, a line like this may belong to an abstract.
        lines = [_ONE_BLANK.sub(r"\1  -", each) for each in lines]
    try:
        parser = rispy.RisParser(mapping=_FIELDS, delimiter_tags_mapping={})
        (entry,) = parser.parse_lines(iter([*lines, "ER  - "]))
    except (LookupError, TypeError, AttributeError, ValueError) as error:  # rispy's errors for broken lines
        reason = f"its fields cannot be told apart ({type(error).__name__})"
        return InputError(f'not a valid RIS entry: {reason}; check that lines begin like "TI  - "')
    return _raw(entry)


def _raw(entry: Mapping[str, Any]) -> RawPaper | InputError:
    parts = (part.strip() for each in entry.get("urls", []) for part in _BETWEEN_ADDRESSES.split(each))
    addresses = [part for part in parts if part]
    title = without_tags(_first(entry, *_TITLES))
    year = year_in(*(_first(entry, name) for name in _YEARS))
    authors = [usual_order(name) for name in entry.get("authors") or entry.get("first_authors") or []]
    key = _first(entry, "id")
    names = entry_names(
        doi=_first(entry, "doi"),
        arxiv=None,
        pmid=None,
        key=lasting(key)
        or _first(entry, "accession_number")
        or made_key("ris", title, year or "", authors)
        or key,
        others=(*addresses, _first(entry, "custom7"), _pmid(entry)),
    )
    if names.id is None:  # without a title, no key can be made
        return InputError("no title")
    return RawPaper(
        id=names.id,
        title=title,
        abstract=without_tags(_first(entry, *_ABSTRACTS)),
        year=year,
        venue=without_tags(_first(entry, *_VENUES)),
        authors=authors,
        url=addresses[0] if addresses else None,
        doi=names.doi,
        lookup=names.lookup,
    )


def _first(entry: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these fields that is not empty, or ``None``."""
    return next((str(entry[name]) for name in names if entry.get(name)), None)


def _pmid(entry: Mapping[str, Any]) -> str | None:
    """Return the accession number as ``pmid:…`` if the database is PubMed or Medline."""
    number = _first(entry, "accession_number")
    database = (_first(entry, "name_of_database", "database_provider") or "").lower()
    return f"pmid:{number}" if number and ("pubmed" in database or "medline" in database) else None
