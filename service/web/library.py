"""Lookup of an uploaded library: which of its papers the collection has, and which are missing."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from indexer.corpus.library.entries import entry_of
from indexer.corpus.library.ids import IdsReader
from indexer.corpus.library.names import is_only_an_id, name_of, reference_of
from indexer.corpus.read import CorpusReader, reader_of
from indexer.corpus.rows import MAX_TITLE_CHARS, RawPaper, clean
from indexer.corpus.source import HEAD_BYTES, Lines, as_utf8
from models.errors import BrokenFileError, InputError
from models.types import Paper
from service.context import check_deadline
from service.search.engine import SearchEngine

MAX_LIBRARY_BYTES: Final = 4_000_000  # thousands of entries without abstracts, some 2,000 with them
# The most entries that are looked up, and the most missing ones that are listed.
MAX_ENTRIES: Final = 2_000
MAX_LISTED: Final = 200
_GZIP: Final = b"\x1f\x8b"
# A number or mark before a line of a list: "1. ", "2) ", "[3] ", "- ".
_NUMBER = re.compile(r"^(?:\[\d{1,4}\]|\(?\d{1,3}[.)]|[-*+\u2022\u2013])\s{1,5}(?=\S)")


@dataclass(frozen=True, slots=True)
class MissingEntry:
    """An entry at ``line`` (from 1) that the collection does not have.

    ``words`` describe the entry, or say why it cannot be read; ``title`` and ``abstract`` may be empty.
    """

    line: int
    words: str
    title: str = ""
    abstract: str = ""


@dataclass(frozen=True, slots=True)
class Library:
    """The papers of a library that the collection has, each once, and the first of the missing entries.

    ``n_entries`` were looked up and ``n_missing`` of them not found; ``is_cut`` if more followed, ``is_list``
    if the file is a list with one entry a line.
    """

    papers: tuple[Paper, ...]
    missing: tuple[MissingEntry, ...]
    n_entries: int
    n_missing: int
    is_cut: bool
    is_list: bool


def find_library(engine: SearchEngine, content: bytes, name: str, *, most: int = MAX_ENTRIES) -> Library:
    """Look up the papers of file ``name``: BibTeX, RIS, Zotero's CSV, CSL-JSON, or one name or title a line.

    The first ``most`` entries are looked up. Raises InputError if the file is not text, DeadlineError.
    """
    content = as_utf8(content)
    reader = _reader(content, name)
    entries = list(islice(_named(content) if reader is None else _read(reader, content, name), most + 1))
    is_cut = len(entries) > most
    del entries[most:]
    found = _positions(engine, entries)
    papers = (engine.snapshot.paper(position) for position in dict.fromkeys(found) if position is not None)
    missing = [
        MissingEntry(
            entry.line,
            entry.words[:MAX_TITLE_CHARS],
            entry.title if len(entry.title) <= MAX_TITLE_CHARS else "",  # no page is asked for a longer one
            entry.abstract,
        )
        for entry, position in zip(entries, found, strict=True)
        if position is None
    ]
    return Library(
        tuple(papers), tuple(missing[:MAX_LISTED]), len(entries), len(missing), is_cut, reader is None
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a library: its ids and other ``names``, title, abstract, and ``words`` that describe it.

    ``mentioned`` is an id among other words, which are a citation of that paper unless they are a title.
    """

    line: int
    words: str
    names: tuple[str, ...] = ()
    title: str = ""
    abstract: str = ""
    mentioned: str | None = None


def _positions(engine: SearchEngine, entries: Sequence[_Entry]) -> list[int | None]:
    """Return each entry's position by its names, else by its title, else by what it mentions, or ``None``."""
    found = [_by_name(engine, entry.names) for entry in entries]
    unknown = [number for number, position in enumerate(found) if position is None and entries[number].title]
    by_title = engine.names.titles.all_named([entries[number].title for number in unknown])
    for number, position in zip(unknown, by_title, strict=True):
        found[number] = position
    for number, entry in enumerate(entries):
        if found[number] is None and entry.mentioned is not None:
            found[number] = _by_name(engine, [entry.mentioned])
    return found


def _by_name(engine: SearchEngine, names: Sequence[str]) -> int | None:
    check_deadline()
    positions = (engine.names.identifiers.position(name) for name in names)
    return next((position for position in positions if position is not None), None)


def _reader(content: bytes, name: str) -> CorpusReader | None:
    """Return the reader for a file, or ``None`` for a list. Raises InputError if it is not text."""
    if b"\0" in content or content.startswith(_GZIP):
        raise InputError(
            "This file is not text. Give BibTeX, RIS, PubMed's .nbib, Zotero's CSV, CSL-JSON, or a list of "
            "titles, DOIs or ids, and none of them compressed."
        )
    reader = reader_of(content[:HEAD_BYTES].decode(errors="replace"), name)
    return None if isinstance(reader, IdsReader) else reader


class _Content(io.BytesIO):
    """The bytes of a file; reading them raises DeadlineError after the deadline, also between two rows."""

    def readinto(self, buffer: Any) -> int:  # the type of a buffer has no name before Python 3.12
        check_deadline()
        return super().readinto(buffer)


def _read(reader: CorpusReader, content: bytes, name: str) -> Iterator[_Entry]:
    lines = Lines(io.BufferedReader(_Content(content)), Path(name))
    try:
        for row in reader.rows(lines):
            check_deadline()
            if isinstance(row.content, InputError):
                yield _Entry(row.line, str(row.content))
            else:
                yield _of(row.line, row.content, keyed=not reader.needs_abstract)
    except BrokenFileError as error:
        yield _Entry(error.line, f"the file ends early here: {error.reason}")


def _named(content: bytes) -> Iterator[_Entry]:
    """Yield the lines of a list: ids of the collection, DOIs, arXiv ids, PubMed numbers, URLs or titles.

    Lines may be numbered; lines that begin with # are comments.
    """
    for number, line in enumerate(content.decode(errors="replace").split("\n"), start=1):
        whole = clean(line)
        words = _NUMBER.sub("", whole).strip("\"',")
        if words and not whole.startswith("#"):
            name, reference = name_of(words), reference_of(words)
            # An id of the collection may itself begin like a list number.
            names = (whole.strip("\"',"), words, *([name] if name else []))
            title = "" if name or (reference and is_only_an_id(words)) else words
            yield _Entry(number, words, tuple(dict.fromkeys(names)), title, mentioned=reference)


def _of(line: int, raw: RawPaper, *, keyed: bool) -> _Entry:
    """Return the entry of a record of a file."""
    found = entry_of(raw, keyed=keyed)
    abstract = clean(raw.abstract) if isinstance(raw.abstract, str) else ""
    words = found.title or next(iter(found.names), "an entry without a title")
    return _Entry(line, words, found.names, found.title, abstract)
