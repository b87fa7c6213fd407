"""Reads BibTeX and BibLaTeX: ``@article{key, title = {...}, abstract = {...}}``."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from bibtexparser.entrypoint import parse_string
from bibtexparser.model import Block, Entry, ParsingFailedBlock, String

from indexer.corpus.library.chunks import MAX_ENTRY_BYTES, entry_chunks
from indexer.corpus.library.keys import made_key
from indexer.corpus.library.latex import from_latex
from indexer.corpus.library.names import entry_names, in_usual_order, with_subtitle, year_in
from indexer.corpus.rows import RawPaper, Row, clean, without_tags
from indexer.corpus.source import Lines
from models.errors import BrokenFileError, InputError

_BEGINS = re.compile(rb"\s{0,20}@\s{0,5}[A-Za-z]{1,40}\s{0,20}[{(]")
_FIRST_LINE = re.compile(r"@\s{0,5}[A-Za-z]{1,40}\s{0,20}[{(]")
_SIGNS = re.compile(r'(?<!\\)[{}"#]')
_SIGNS_BEFORE_NEXT = re.compile(r'(?<!\\)[{}"=]')
# The end of a whole value, then the name of a field: `{A} year`, `2000 month`.
_NEXT_FIELD = re.compile(r"(?:[}\"]\s*+|\w\s++)([A-Za-z][\w-]{0,40})\s*+$")
_SIGNS_OF_NAMES = re.compile(r"(?<!\\)[{},]")
_BETWEEN_NAMES = re.compile(r"(?<!\\)[{}]|(?<!\s)\s++and(?=\s)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([_%&#~$])|\$([<>])\$|[{}]|\\url\b")
_CROSSREF = re.compile(r"\bcrossref\s{0,20}=\s{0,20}[{\"]?\s{0,20}([^\s{}\",]{1,200})", re.IGNORECASE)
_KEY = re.compile(r"\s{0,20}@\s{0,5}([A-Za-z]{1,40})\s{0,20}[{(]\s{0,20}([^\s,{}()=]{1,200})")
_UNENDED = "reached end of file"  # in the parser's words
_MAX_GIVEN_CHARS = 16 * MAX_ENTRY_BYTES  # kept in all of the entries that others refer to
_VENUES = ("journal", "journaltitle", "booktitle", "howpublished", "publisher", "school", "institution")


class BibtexReader:
    """The reader of BibTeX: ids are those of ``library.names``, with the key of the entry or else a made one.

    LaTeX becomes Unicode, and names of @string become their values. An entry without a venue or year gets
    that of the volume it refers to by ``crossref``.
    """

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first line after blank lines and comments begins an entry."""
        for line in head.splitlines():
            if line.strip() and not line.lstrip().startswith("%"):
                return _FIRST_LINE.match(line.lstrip()) is not None
        return False

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each entry; skip comments and preambles."""
        # The parser warns of each broken entry, which is in the report anyway.
        logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)
        strings, parents = _Strings(), _parents(lines)
        for line, text, is_last in entry_chunks(lines, begins=_BEGINS, ends=_ends):
            if isinstance(text, InputError):
                yield Row(line, text)
                continue
            for block in _blocks(text):
                if is_last and isinstance(block, ParsingFailedBlock) and _UNENDED in (why := _reason(block)):
                    raise BrokenFileError(str(lines.path), line + (block.start_line or 0), why)
                yield from _rows(block, line, strings, parents)


def _ends(line: bytes) -> bool:
    return line.rstrip().endswith((b"}", b")"))


class _Strings(dict[str, str]):
    """The values of the names that @string defines, with at most MAX_ENTRY_BYTES characters in all."""

    n_chars = 0

    def remember(self, name: str, value: str) -> None:
        """Store the value of a name; raises InputError if all of them together are too long."""
        self.n_chars += len(name) + len(value)
        if self.n_chars > MAX_ENTRY_BYTES:
            raise InputError(f"all @string together have more than {MAX_ENTRY_BYTES:,} characters")
        self[name.lower()] = value


def _blocks(text: str) -> list[Block]:
    """Return the blocks that the parser finds in an entry; "@ article", which it rejects, loses its space."""
    return parse_string("@" + text.lstrip()[1:].lstrip(), parse_stack=[]).blocks


def _parents(lines: Lines) -> dict[str, dict[str, str]]:
    """Return what entries inherit by ``crossref``, by the key in lower case of the entry they refer to.

    That entry may be anywhere in the file, so the file is read once more, and twice if any entry has a
    ``crossref``. A file that breaks off is read up to that point.
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
                elif isinstance(block, Entry) and n_chars < _MAX_GIVEN_CHARS:
                    given = _given(_values(block, strings))
                    n_chars += sum(map(len, given.values()))
                    parents.setdefault(block.key.lower(), given)
    return parents


def _texts(lines: Lines) -> Iterator[str]:
    """Yield the readable entries of a file, from its beginning."""
    with lines.again() as fresh, suppress(BrokenFileError):
        for _, text, _ in entry_chunks(fresh, begins=_BEGINS, ends=_ends):
            if isinstance(text, str):
                yield text


def _given(values: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a volume that its entries inherit; its title becomes their ``booktitle``."""
    given = {name: values[name] for name in (*_VENUES, "year", "date") if values.get(name)}
    if title := values.get("booktitle") or values.get("title"):
        given["booktitle"] = title
    return given


def _rows(
    block: Block, line: int, strings: "_Strings", parents: Mapping[str, Mapping[str, str]]
) -> Iterator[Row]:
    """Yield the row of a block, a paper or the reason why there is none; a @string only defines a name."""
    at = line + (block.start_line or 0)
    # A block with a repeated field or key is whole otherwise; the first of the fields counts.
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
        yield Row(at, InputError(_reason(block)))


def _reason(block: ParsingFailedBlock) -> str:
    """Return why the parser refused a block."""
    reason = clean(str(getattr(block.error, "abort_reason", block.error)))
    return f"not a valid BibTeX entry: {reason} Check that its braces and quotes are closed"


def _values(entry: Entry, strings: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the fields of an entry, by their names in lower case."""
    values: dict[str, str] = {}
    for field in entry.fields:
        values.setdefault(field.key.lower(), _value(str(field.value), strings))
    return values


def _raw(key: str, values: Mapping[str, str]) -> RawPaper:
    address = _verbatim(values.get("url")) or None
    main = _text(values.get("title"))
    title = with_subtitle(main, _text(values.get("subtitle")))
    year = year_in(*(from_latex(values.get(name, "")) for name in ("year", "date")))
    authors = _people(values.get("author") or values.get("editor") or "")
    names = entry_names(
        doi=_verbatim(values.get("doi")),
        arxiv=_eprint(values, "arxiv"),
        pmid=_verbatim(values.get("pmid")) or _eprint(values, "pubmed", "pmid"),
        key=key or made_key("bibtex", main, year or "", authors),
        others=(address, values.get("journal"), _verbatim(values.get("howpublished"))),
        note=_verbatim(values.get("note")),
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
    """Return the text of a value: its parts around # without quotes and outer braces, names replaced.

    Raises InputError if the text is too long, or if the next field follows without a comma.
    """
    begin, *rest = _split(value, _SIGNS_BEFORE_NEXT) if "=" in value else [value]
    if rest and (following := _NEXT_FIELD.search(begin)):
        raise InputError(f"no comma before the field {following[1]!r}; add one behind the value before it")
    said = [_part(part.strip(), strings) for part in _split(value, _SIGNS)]
    # Names defined by names of names can grow without bounds.
    if sum(map(len, said)) > MAX_ENTRY_BYTES:
        raise InputError(f"a value has more than {MAX_ENTRY_BYTES:,} characters, its names replaced")
    return "".join(said)


def _split(text: str, signs: re.Pattern[str]) -> list[str]:
    """Split a text at the ``signs`` that are not braces or quotes, unless braces or quotes enclose them."""
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
    """Return an address or an id without the LaTeX that escapes some of its characters."""
    return _ESCAPED.sub(lambda found: found[1] or found[2] or "", value or "").strip()


def _eprint(values: Mapping[str, str], *archives: str) -> str | None:
    """Return the ``eprint`` of an entry if it is of one of these archives; the default is arXiv."""
    archive = values.get("archiveprefix") or values.get("eprinttype") or "arxiv"
    return _verbatim(values.get("eprint")) or None if clean(archive).lower() in archives else None


def _people(value: str) -> list[str]:
    """Return ``Last, First and Last, Jr, First and {A Group} and others`` as names in their usual order."""
    names = [_person(name) for name in _split(value, _BETWEEN_NAMES)]
    return [name for name in names if name not in {"", "others"}]


def _person(name: str) -> str:
    """Return a name in its usual order; commas in braces, of a group or an accent, do not split it."""
    last, *rest = [clean(from_latex(part)) for part in _split(name, _SIGNS_OF_NAMES)]
    # "Last, Jr, First" is the only form with three parts.
    return in_usual_order([last, *reversed(rest)])
