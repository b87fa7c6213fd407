"""Papers as files that other programs read: CSV, BibTeX and RIS, and Atom for feed readers."""

import csv
import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Protocol
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from indexer.corpus.library.names import is_suffix
from indexer.files.cells import escape_formulas

_PAPER_COLUMNS = ("id", "title", "authors", "year", "venue", "doi", "url", "fields", "abstract")
CSV_COLUMNS = ("rank", "score", "strength", "nearer_than", *_PAPER_COLUMNS)
# Without it, Excel reads a CSV file as text of the local code page.
BYTE_ORDER_MARK = "\ufeff"
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        # Not \{ and \}: BibTeX counts braces without regard to backslashes.
        "{": r"\textbraceleft{}",
        "}": r"\textbraceright{}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)
_LIGATURE = re.compile("(?<=-)-|(?<=`)`|(?<=')'")  # TeX writes dashes and quotation marks for several
# BibTeX styles take every character of an address literally, so those that would end it are percent-encoded.
_SAFE_IN_ADDRESS = "!\"#$&'()*+,-./:;<=>?@[]^_`|~%"
_PARTED = re.compile(r"\band\b|\bothers\b", re.IGNORECASE)  # words at which BibTeX splits a name
_NO_XML = re.compile("[\ufffe\uffff]")
_NOT_ASCII = re.compile(r"[^a-z0-9]")
_KEY_HASH_CHARS = 6
_STOP_WORDS = {"a", "an", "the", "on", "of", "in", "for", "to", "and", "with", "towards", "toward"}


class ExportedPaper(Protocol):
    """A paper of a service or of its client, which has neither torch nor numpy: this file needs neither."""

    @property
    def id(self) -> str: ...  # noqa: D102 - as in models.types.Paper, and so all others
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def abstract(self) -> str: ...  # noqa: D102
    @property
    def year(self) -> int | None: ...  # noqa: D102
    @property
    def venue(self) -> str | None: ...  # noqa: D102
    @property
    def authors(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def url(self) -> str | None: ...  # noqa: D102
    @property
    def doi(self) -> str | None: ...  # noqa: D102
    @property
    def fields(self) -> Sequence[str]: ...  # noqa: D102


class ExportedStrength(Protocol):
    """How good a match is."""

    @property
    def label(self) -> str: ...  # noqa: D102
    @property
    def nearer_than(self) -> float: ...  # noqa: D102


class ExportedResult(Protocol):
    """A paper with its score."""

    @property
    def paper(self) -> ExportedPaper: ...  # noqa: D102
    @property
    def score(self) -> float: ...  # noqa: D102
    @property
    def strength(self) -> ExportedStrength | None: ...  # noqa: D102


def to_csv(results: Sequence[ExportedResult], *, ranks: Iterable[int] | None = None) -> str:
    """Return a header and one line per result (RFC 4180); no cell starts a formula in a spreadsheet."""
    return csv_text([CSV_COLUMNS, *csv_rows(results, ranks=ranks)])


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV (RFC 4180), with every cell quoted."""
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    return file.getvalue()


def csv_rows(
    results: Sequence[ExportedResult], *, ranks: Iterable[int] | None = None
) -> Iterator[list[str | int | float]]:
    """Yield the cells of ``CSV_COLUMNS``, one row per result; ``ranks`` count from 1 unless given."""
    for result, rank in zip(results, count(1) if ranks is None else ranks, strict=False):
        # Our own words and numbers need no escaping: a negative number is not a formula.
        strength = [result.strength.label, result.strength.nearer_than] if result.strength else ["", ""]
        yield [rank, result.score, *strength, *_cells(result.paper)]


def papers_csv(papers: Sequence[ExportedPaper]) -> str:
    """Return papers as CSV, as ``to_csv`` does, but without rank, score and strength."""
    return csv_text([_PAPER_COLUMNS, *map(_cells, papers)])


def _cells(paper: ExportedPaper) -> list[str]:
    head = [paper.id, paper.title, "; ".join(paper.authors), paper.year, paper.venue, paper.doi, paper.url]
    return [escape_formulas(str(text or "")) for text in (*head, "; ".join(paper.fields), paper.abstract)]


def to_bibtex(papers: Sequence[ExportedPaper], *, key_hash_chars: int = _KEY_HASH_CHARS) -> str:
    """Return one entry per paper, for UTF-8; a paper has the same key in every export, and keys are unique.

    Keys end in ``key_hash_chars`` characters of a hash, or more if two papers would have the same key.
    """
    keys = bibtex_keys(papers, key_hash_chars=key_hash_chars)
    return "\n".join(_bibtex_entry(paper, key) for paper, key in zip(papers, keys, strict=True))


def bibtex_keys(papers: Sequence[ExportedPaper], *, key_hash_chars: int = _KEY_HASH_CHARS) -> list[str]:
    """Return the keys of the entries of ``to_bibtex``."""
    taken: set[str] = set()
    return [_key(paper, taken, key_hash_chars) for paper in papers]


def _bibtex_entry(paper: ExportedPaper, key: str) -> str:
    kind, container = ("article", "journal") if paper.venue else ("misc", "")
    fields = {
        # Two pairs of braces keep the capitals of a title.
        "title": f"{{{latex_text(paper.title)}}}",
        "author": " and ".join(_bibtex_name(name) for name in paper.authors),
        "year": str(paper.year or ""),
        container: latex_text(paper.venue or ""),
        "doi": _address(paper.doi or ""),
        "url": _address(paper.url or ""),
        "keywords": latex_text(", ".join(paper.fields)),
        "abstract": latex_text(paper.abstract),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{key},", *lines, "}", ""])


def _bibtex_name(name: str) -> str:
    """Return a name unchanged, as ``Last, Jr, First``, or in braces if BibTeX would split it wrongly."""
    words = one_line(name).replace(",", " , ").split()
    if not is_suffix(words[-1] if words else "") or _PARTED.search(name):
        latex = latex_text(name)
        return f"{{{latex}}}" if name.count(",") > 1 or _PARTED.search(name) else latex
    suffix = words.pop()
    before = words[:-1] if words[-1:] == [","] else words
    n_first = next((i for i, word in enumerate(before) if word[0].islower()), len(before) - 1)
    if n_first < 1 or "," in before:
        return f"{{{latex_text(name)}}}"
    return latex_text(f"{' '.join(before[n_first:])}, {suffix}, {' '.join(before[:n_first])}")


def _key(paper: ExportedPaper, taken: set[str], hash_chars: int) -> str:
    """Return first author, year, first title word, and enough of a hash of the id to make the key unique."""
    author = paper.authors[0] if paper.authors else "anonymous"
    surname = author.split(",")[0] if "," in author else author.split(" ")[-1]
    words = [word for word in map(_ascii, paper.title.split()) if word and word not in _STOP_WORDS]
    stem = f"{_ascii(surname)}{paper.year or ''}{words[0] if words else ''}"[:60]
    digest = hashlib.sha256(paper.id.encode("utf-8", "surrogatepass")).hexdigest()
    for length in range(hash_chars, len(digest) + 1):
        key = f"{stem}-{digest[:length]}"
        if key not in taken:
            break
    taken.add(key)
    return key


def _ascii(word: str) -> str:
    """Return the letters and digits of a word without accents, in lower case."""
    return _NOT_ASCII.sub("", unicodedata.normalize("NFKD", word).lower())


def latex_text(text: str) -> str:
    """Return ``text`` on one line for BibTeX and LaTeX, escaped so that every character stands for itself."""
    return _LIGATURE.sub(r"{\g<0>}", one_line(text).translate(_LATEX))


def _address(text: str) -> str:
    return quote(one_line(text), safe=_SAFE_IN_ADDRESS)


def to_ris(papers: Sequence[ExportedPaper]) -> str:
    """Return one record per paper, for UTF-8."""
    import rispy  # noqa: PLC0415 - what writes BibTeX does without it

    class Unnumbered(rispy.RisWriter):  # type: ignore[misc]  # rispy ships no types
        """A writer without the line number before each entry, which is not part of the format."""

        def set_header(self, count: int) -> str:
            return ""

    text: str = rispy.dumps([_ris_record(paper) for paper in papers], implementation=Unnumbered)
    return text


def _ris_record(paper: ExportedPaper) -> dict[str, str | list[str]]:
    record: dict[str, str | list[str]] = {
        "type_of_reference": "JOUR" if paper.venue else "GEN",
        "id": one_line(paper.id),
        "title": one_line(paper.title),
        "authors": [one_line(name) for name in paper.authors],
        "year": str(paper.year or ""),
        "secondary_title": one_line(paper.venue or ""),
        "doi": one_line(paper.doi or ""),
        "urls": [one_line(paper.url)] if paper.url else [],
        "keywords": [one_line(name) for name in paper.fields],
        "abstract": one_line(paper.abstract),
    }
    return {name: value for name, value in record.items() if value}


def one_line(text: str) -> str:
    """Return ``text`` without line breaks, tabs, control characters: a new line may begin a new field."""
    return " ".join("".join(" " if unicodedata.category(c) in {"Cc", "Cs"} else c for c in text).split())


@dataclass(frozen=True, slots=True)
class Feed:
    """The metadata of a feed: an ``id`` that never changes, its ``address``, and when it was made.

    ``made_at`` is in Unix seconds; ``home`` is the address of the page that shows papers without an address.
    ``note`` is a line for its readers, if there is one.
    """

    id: str
    title: str
    address: str
    home: str
    made_at: int
    note: str = ""


def to_atom(feed: Feed, papers: Sequence[tuple[ExportedPaper, int]]) -> bytes:
    """Return a feed (RFC 4287) of papers, newest first; each comes with the Unix seconds of its addition."""
    newest_first = sorted(papers, key=lambda each: (-each[1], each[0].id))
    root = ET.Element("feed", xmlns="http://www.w3.org/2005/Atom")
    _add(root, "id", f"urn:akin:query:{feed.id}")
    _add(root, "title", feed.title)
    if feed.note:
        _add(root, "subtitle", feed.note)
    _add(root, "updated", _time(max([feed.made_at, *(added_at for _, added_at in papers)])))
    author = ET.SubElement(root, "author")
    _add(author, "name", "Akin")
    ET.SubElement(root, "link", rel="self", href=feed.address)
    for paper, added_at in newest_first:
        entry = ET.SubElement(root, "entry")
        _add(entry, "id", f"urn:akin:query:{feed.id}:{quote(one_line(paper.id), safe='')}")
        _add(entry, "title", one_line(paper.title) or paper.id)
        _add(entry, "updated", _time(added_at))
        for name in paper.authors:
            _add(ET.SubElement(entry, "author"), "name", name)
        address = _address(paper.url or "")
        if not address.startswith(("http://", "https://")):
            address = f"{feed.home}?{urlencode({'paper': paper.id.encode('utf-8', 'replace')})}"
        ET.SubElement(entry, "link", rel="alternate", href=address)
        _add(entry, "summary", paper.abstract)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def _add(parent: ET.Element, name: str, text: str) -> None:
    # XML allows neither control characters nor these two, not even escaped.
    ET.SubElement(parent, name).text = one_line(_NO_XML.sub("", text))


def _time(unix_s: int) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
