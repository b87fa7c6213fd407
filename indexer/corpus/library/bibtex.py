"""BibTeX and BibLaTeX: ``@article{key, title = {...}, abstract = {...}}``."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from bibtexparser.entrypoint import parse_string
from bibtexparser.middlewares.names import split_multiple_persons_names
from bibtexparser.model import Block, Entry, ParsingFailedBlock, String

from indexer.corpus.library.chunks import MAX_ENTRY_BYTES, entry_chunks
from indexer.corpus.library.keys import made_key
from indexer.corpus.library.latex import from_latex
from indexer.corpus.library.names import entry_names, in_usual_order, year_in
from indexer.corpus.rows import RawPaper, Row, clean, without_tags
from indexer.corpus.source import Lines
from models.errors import BrokenFileError, InputError

_BEGINS = re.compile(rb"\s{0,20}@\s{0,5}[A-Za-z]{1,40}\s{0,20}[{(]")
_FIRST_LINE = re.compile(r"@\s{0,5}[A-Za-z]{1,40}\s{0,20}[{(]")
_SIGNS = re.compile(r'(?<!\\)[{}"#]')
_SIGNS_OF_NAMES = re.compile(r"(?<!\\)[{},]")
_ESCAPED = re.compile(r"\\([_%&#~$])|\$([<>])\$|[{}]|\\url\b")
_CROSSREF = re.compile(r"\bcrossref\s{0,20}=\s{0,20}[{\"]?\s{0,20}([^\s{}\",]{1,200})", re.IGNORECASE)
_KEY = re.compile(r"\s{0,20}@\s{0,5}([A-Za-z]{1,40})\s{0,20}[{(]\s{0,20}([^\s,{}()=]{1,200})")
_MOST_GIVEN_CHARS = 16 * MAX_ENTRY_BYTES  # of what is kept of entries that others refer to
_VENUES = ("journal", "journaltitle", "booktitle", "howpublished", "publisher", "school", "institution")


class BibtexReader:
    """Ids are those of ``library.names``; the key is the entry's, else made as RIS does.

    LaTeX becomes Unicode, @string names their values.
    Venue and year that an entry lacks are those of the volume that it refers to by ``crossref``.
    """

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """A first line, behind comments, that begins an entry."""
        for line in head.splitlines():
            if line.strip() and not line.lstrip().startswith("%"):
                return _FIRST_LINE.match(line.lstrip()) is not None
        return False

    def rows(self, lines: Lines) -> Iterator[Row]:
        """One row for each entry; comments and preambles are none."""
        # It warns of each broken entry, which goes into the report.
        logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)
        strings, parents = _Strings(), _parents(lines)
        for line, text in entry_chunks(lines, begins=_BEGINS, ends=_ends):
            if isinstance(text, InputError):
                yield Row(line, text)
                continue
            for block in _blocks(text):
                yield from _rows(block, line, strings, parents)


def _ends(line: bytes) -> bool:
    return line.rstrip().endswith((b"}", b")"))


class _Strings(dict[str, str]):
    """What the names of @string stand for, up to MAX_ENTRY_BYTES characters of all."""

    n_chars = 0

    def remember(self, name: str, value: str) -> None:
        """Keep what a name stands for; raises InputError where that is too much."""
        self.n_chars += len(name) + len(value)
        if self.n_chars > MAX_ENTRY_BYTES:
            raise InputError(f"all @string together have more than {MAX_ENTRY_BYTES:,} characters")
        self[name.lower()] = value


def _blocks(text: str) -> list[Block]:
    """What an entry is to the parser, to which "@ article" is none."""
    return parse_string("@" + text.lstrip()[1:].lstrip(), parse_stack=[]).blocks


def _parents(lines: Lines) -> dict[str, dict[str, str]]:
    """What those entries of a file give to others that these refer to by ``crossref``, by their keys.

    They may stand anywhere, so that the file is read once more, and twice where one is referred to. A file
    that breaks off is read as far as it goes.
    """
    wanted: set[str] = set()
    for text in _texts(lines):
        wanted.update(found[1].lower() for found in _CROSSREF.finditer(text))
    parents: dict[str, dict[str, str]] = {}
    strings = _Strings()
    n_chars = 0
    for text in _texts(lines) if wanted else ():
        begin = _KEY.match(text)
        if begin is None or not (begin[1].lower() == "string" or begin[2].lower() in wanted):
            continue
        for block in _blocks(text):
            with suppress(InputError):
                if isinstance(block, String):
                    strings.remember(block.key, _value(block.value, strings))
                elif isinstance(block, Entry) and n_chars < _MOST_GIVEN_CHARS:
                    given = _given(_values(block, strings))
                    n_chars += sum(map(len, given.values()))
                    parents.setdefault(block.key.lower(), given)
    return parents


def _texts(lines: Lines) -> Iterator[str]:
    """The entries of a file that can be read, from its beginning."""
    with lines.again() as fresh, suppress(BrokenFileError):
        for _, text in entry_chunks(fresh, begins=_BEGINS, ends=_ends):
            if isinstance(text, str):
                yield text


def _given(values: Mapping[str, str]) -> dict[str, str]:
    """Of a volume what goes for what stands in it, too; its title is theirs of the book."""
    given = {name: values[name] for name in (*_VENUES, "year", "date") if values.get(name)}
    if title := values.get("booktitle") or values.get("title"):
        given["booktitle"] = title
    return given


def _rows(
    block: Block, line: int, strings: "_Strings", parents: Mapping[str, Mapping[str, str]]
) -> Iterator[Row]:
    """What a block gives: a paper, a reason why not, or a name for later entries."""
    at = line + (block.start_line or 0)
    # One with a field or a key twice is whole beside that; of the fields the first counts.
    whole = block.ignore_error_block if isinstance(block, ParsingFailedBlock) else block
    try:
        if isinstance(whole, String):
            strings.remember(whole.key, _value(whole.value, strings))
            return
        if isinstance(whole, Entry):
            values = _values(whole, strings)
            volume = clean(values.get("crossref", "")).lower()
            given = parents.get(volume, {}) if volume != whole.key.lower() else {}
            lacking = {name: value for name, value in given.items() if not values.get(name)}
            yield Row(at, _raw(whole.key, {**values, **lacking}))
            return
    except InputError as error:
        yield Row(at, error)
    if isinstance(block, ParsingFailedBlock):
        reason = clean(str(getattr(block.error, "abort_reason", block.error)))
        yield Row(
            at, InputError(f"not a valid BibTeX entry: {reason} Check that its braces and quotes are closed.")
        )


def _values(entry: Entry, strings: Mapping[str, str]) -> dict[str, str]:
    """What the fields of an entry say, by their names in lower case."""
    values: dict[str, str] = {}
    for field in entry.fields:
        values.setdefault(field.key.lower(), _value(str(field.value), strings))
    return values


def _raw(key: str, values: Mapping[str, str]) -> RawPaper:
    address = _verbatim(values.get("url")) or None
    title, year = _text(values.get("title")), year_in(values.get("year") or values.get("date"))
    authors = _people(values.get("author") or values.get("editor") or "")
    names = entry_names(
        doi=_verbatim(values.get("doi")),
        arxiv=_arxiv(values),
        pmid=_verbatim(values.get("pmid")),
        key=key or made_key("bibtex", title, year or "", authors),
        others=(address, values.get("journal"), _verbatim(values.get("howpublished"))),
    )
    return RawPaper(
        id=names.id,
        title=title,
        abstract=_text(values.get("abstract")),
        year=year,
        venue=_text(next((values[name] for name in _VENUES if values.get(name)), None)),
        authors=authors,
        url=address,
        doi=names.doi,
        lookup=names.lookup,
    )


def _value(value: str, strings: Mapping[str, str]) -> str:
    """What a value says: its parts, joined by #, without quotes and outer braces, names replaced."""
    said = [_part(part.strip(), strings) for part in _split(value, _SIGNS)]
    # Names of names of names can grow without bounds.
    if sum(map(len, said)) > MAX_ENTRY_BYTES:
        raise InputError(f"a value has more than {MAX_ENTRY_BYTES:,} characters, its names replaced")
    return "".join(said)


def _split(text: str, signs: re.Pattern[str]) -> list[str]:
    """The parts of a text: of ``signs`` braces and quotes hold together, the others part it."""
    parts, depth, quoted, begin = [], 0, False, 0
    for sign in signs.finditer(text):
        if sign[0] in "{}":
            depth += 1 if sign[0] == "{" else -1
        elif sign[0] == '"' and not depth:
            quoted = not quoted
        elif not depth and not quoted:
            parts.append(text[begin : sign.start()])
            begin = sign.end()
    return [*parts, text[begin:]]


def _part(part: str, strings: Mapping[str, str]) -> str:
    if len(part) > 1 and (part[0], part[-1]) in {("{", "}"), ('"', '"')}:
        return part[1:-1]
    return strings.get(part.lower(), part)


def _text(value: str | None) -> object:
    return None if value is None else without_tags(from_latex(value))


def _verbatim(value: str | None) -> str:
    """An address or an id, of which LaTeX escapes some characters."""
    return _ESCAPED.sub(lambda found: found[1] or found[2] or "", value or "").strip()


def _arxiv(values: Mapping[str, str]) -> str | None:
    """The number of a preprint, where it is one of the arXiv."""
    kind = values.get("archiveprefix") or values.get("eprinttype") or "arxiv"
    return _verbatim(values.get("eprint")) or None if clean(kind).lower() == "arxiv" else None


def _people(value: str) -> list[str]:
    """``Last, First and Last, Jr, First and {A Group} and others`` as names in their usual order."""
    names = [_person(name) for name in split_multiple_persons_names(value)]
    return [name for name in names if name not in {"", "others"}]


def _person(name: str) -> str:
    """A name, parted at its commas; those in braces part nothing, be they of a group or an accent."""
    last, *rest = [clean(from_latex(part)) for part in _split(name, _SIGNS_OF_NAMES)]
    # Last, Jr, First is the only form of three parts.
    return in_usual_order([last, *reversed(rest)])
