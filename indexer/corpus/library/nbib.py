"""Reads PubMed's format for reference managers (``.nbib``, MEDLINE): ``PMID- 31452104``, ``TI  - …``."""

import re
from collections.abc import Iterator, Mapping, Sequence

from indexer.corpus.library.chunks import entry_chunks, split_lines
from indexer.corpus.library.names import entry_names, usual_order, year_in
from indexer.corpus.rows import RawPaper, Row, without_tags
from indexer.corpus.source import Lines
from models.errors import BrokenFileError, InputError

_BEGINS = re.compile(rb"PMID- ")
_FIRST_LINE = re.compile(r"\s*+PMID-")
_FIELD = re.compile(r"([A-Z]{2,4}) {0,2}- ?(.*)")
_SUFFIX = re.compile(r" (?:Jr|Sr|[2-9](?:nd|rd|th))$")
_CONTINUATION = " " * 6
_NO_END = "not a valid NBIB entry: it does not end with a line SO"
_DOI = " [doi]"  # follows an id that is a DOI


class NbibReader:
    """The reader of NBIB: ids are those of ``library.names``; nothing is looked up, as PubMed has no more."""

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first line begins an entry."""
        return _FIRST_LINE.match(head) is not None

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each entry."""
        have_sources = False
        for line, text, is_last in entry_chunks(lines, begins=_BEGINS, ends=_ends):
            if isinstance(text, InputError):
                yield Row(line, text)
                continue
            fields = _fields(text)
            # PubMed ends every entry with its source, but not every program does.
            if is_last and "SO" not in fields and (have_sources or not text.endswith("\n")):
                raise BrokenFileError(str(lines.path), line, _NO_END)
            have_sources = have_sources or "SO" in fields
            yield Row(line, _raw(fields))


def _ends(line: bytes) -> bool:
    return line.startswith(b"SO  -")


def _fields(text: str) -> dict[str, list[str]]:
    """Return the values of each field; a line that begins with six spaces continues the last value."""
    fields: dict[str, list[list[str]]] = {}
    last: list[str] = []
    for line in split_lines(text):
        if found := _FIELD.match(line):
            last = [found[2].strip()]
            fields.setdefault(found[1], []).append(last)
        elif line.startswith(_CONTINUATION):
            last.append(line.strip())
    return {tag: [" ".join(filter(None, parts)) for parts in values] for tag, values in fields.items()}


def _raw(fields: Mapping[str, Sequence[str]]) -> RawPaper:
    number = _first(fields, "PMID")
    ids = [*fields.get("LID", ()), *fields.get("AID", ())]
    names = entry_names(
        doi=next((each.removesuffix(_DOI) for each in ids if each.endswith(_DOI)), None),
        arxiv=None,
        pmid=number,
        key=None,
    )
    authors = [_full(name) for name in fields.get("FAU", ())] or [
        _short(name) for name in fields.get("AU", ())
    ]
    return RawPaper(
        id=names.id,
        title=without_tags(_first(fields, "TI", "BTI")),
        abstract=without_tags(_first(fields, "AB", "OAB")),
        year=year_in(_first(fields, "DP")),
        venue=_first(fields, "JT", "TA"),
        authors=[*authors, *fields.get("CN", ())],
        url=f"https://pubmed.ncbi.nlm.nih.gov/{number}/" if number else None,
        doi=names.doi,
    )


def _full(name: str) -> str:
    """Return ``King, Martin Luther Jr`` as ``Martin Luther King Jr``."""
    begin, suffix = _parted(name)
    return f"{usual_order(begin)}{suffix}"


def _short(name: str) -> str:
    """Return ``King ML Jr`` as ``ML King Jr``."""
    begin, suffix = _parted(name)
    last, _, initials = begin.rpartition(" ")
    return f"{initials} {last}{suffix}" if last and initials.isupper() else name


def _parted(name: str) -> tuple[str, str]:
    found = _SUFFIX.search(name)
    return (name[: found.start()], found[0]) if found else (name, "")


def _first(fields: Mapping[str, Sequence[str]], *tags: str) -> str | None:
    """Return the first value of these fields that is not empty, or ``None``."""
    return next((value for tag in tags for value in fields.get(tag, ()) if value), None)
