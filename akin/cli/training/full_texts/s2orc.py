"""Reads the full texts of S2ORC in the layouts of its releases.

- 2020: ``body_text``, paragraphs with ``cite_spans``, and ``bib_entries``, whose ``link`` is the cited paper.
- 2019: the same in ``grobid_parse`` or ``latex_parse``, with ``links``. s2orc-doc2json: in ``pdf_parse``.
- Today's datasets: a text with annotations, of which ``bibref`` are citations and ``bibentry`` cited papers.
  s2orc_v2 names them ``bib_ref`` and ``bib_entry``, and has the latter in a text of their own.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from akin.cli.training.full_texts.full_text import DOI, FullText, Paragraph
from evaluation.sets.files import JsonObject
from indexer.corpus.formats.s2 import Annotation, annotations
from indexer.corpus.rows import at
from models.errors import InputError

_S2 = "s2:"
_PARSES = ("grobid_parse", "pdf_parse", "latex_parse")
_REFS, _ENTRIES = ("bibref", "bib_ref"), ("bibentry", "bib_entry")

# Far longer than any key; of a longer mark only the beginning is read.
_MAX_MARK_CHARS = 200

# A citation in a text: its begin, its end and the key of the cited paper, or None.
_Span = tuple[int, int, str | None]


def is_s2orc(row: JsonObject) -> bool:
    """Return whether a line is a full text of S2ORC; one of unarXive may be, too."""
    return (
        {"body_text", "bib_entries"} <= row.keys()
        or any(name in row for name in _PARSES)
        or ("corpusid" in row and ("content" in row or "body" in row))
    )


def read_s2orc(row: JsonObject) -> FullText:
    """Return the full text of a line, whose citing paper is given by id and, if known, title and DOI.

    A cited paper has its id (``s2:77490025``) and DOI. Raises InputError for a line of another layout.
    """
    name = _id(row.get("corpusid", row.get("paper_id")), '"corpusid" or "paper_id"')
    if name is None:
        raise InputError('expected "corpusid" or "paper_id"')
    if "corpusid" in row:
        return _annotated(row, name)
    parse = _parse_of(row)
    paragraphs, entries = parse.get("body_text", []), parse.get("bib_entries", {})
    if not (isinstance(paragraphs, list) and isinstance(entries, dict)):
        raise InputError('expected "body_text" (a list) and "bib_entries" (an object)')
    return FullText(
        name,
        _paragraphs(paragraphs, _numbers(entries)),
        {key: _names(_link(entry), at(entry, "other_ids")) for key, entry in entries.items()},
        _text(at(row, "metadata", "title"), row.get("title")),
        _text(at(row, "metadata", "doi"), row.get("doi")) or None,
    )


def _parse_of(row: JsonObject) -> JsonObject:
    """Return the first parse with a text: of two, the sentences are the same."""
    if "body_text" in row:
        return row
    for name in _PARSES:
        parse = row.get(name)
        if not isinstance(parse, dict | None):
            raise InputError(f'expected "{name}" as an object or null')
        if parse and parse.get("body_text"):
            return parse
    return {}


def _link(entry: object) -> object:
    return at(entry, "link") or at(entry, "links")


def _paragraphs(given: list[object], numbers: Mapping[str, int]) -> Iterator[Paragraph]:
    for paragraph in given:
        text, spans = at(paragraph, "text"), at(paragraph, "cite_spans")
        if not isinstance(text, str) or not isinstance(spans, list | None):
            raise InputError('expected "text" and "cite_spans" (a list) in each paragraph of "body_text"')
        yield _paragraph(text, [_span(text, span) for span in spans or ()], numbers, 0)


def _span(text: str, span: object) -> _Span:
    start, end, key = at(span, "start"), at(span, "end"), at(span, "ref_id")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= len(text):
        raise InputError('an entry of "cite_spans" is outside the text, or without start and end')
    return start, end, _key(key)


def _key(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise InputError('expected "ref_id" as a text or null')
    return given or None


def _annotated(row: JsonObject, name: str) -> FullText:
    body = row["content"] if "content" in row else row["body"]
    bibliography = body if "content" in row else row.get("bibliography")
    for part in (body, bibliography):
        if not isinstance(part, dict | None):
            raise InputError('expected "content", or "body" and "bibliography", as objects or null')
    refs = [each for kind in _REFS for each in annotations(body, kind)]
    entries = [each.attributes for kind in _ENTRIES for each in annotations(bibliography, kind)]
    cited = {each["id"]: _names_in(each) for each in entries if isinstance(each.get("id"), str)}
    for ref in refs:  # some citations name the cited paper themselves
        key, names = _key(ref.attributes.get("ref_id")), _names_in(ref.attributes)
        if key is not None and names and not cited.get(key):
            cited[key] = names
    title = next((body["text"][each.start : each.end] for each in annotations(body, "title")), None)
    ids = [row.get("externalids"), at(row, "openaccessinfo", "externalids")]
    return FullText(
        name,
        _pieces(body, refs, _numbers(cited)),
        cited,
        _text(row.get("title"), title),
        _text(*(at(each, key) for each in ids for key in ("doi", "DOI"))) or None,
    )


def _pieces(body: object, refs: Iterable[Annotation], numbers: Mapping[str, int]) -> Iterator[Paragraph]:
    """Yield the annotated paragraphs of a text with their citations.

    Annotations may be repeated; a paragraph that begins within another is left out, so no text is read twice.
    """
    spans = sorted({(each.start, each.end, _key(each.attributes.get("ref_id")) or "") for each in refs})
    starts = [start for start, _, _ in spans]
    pieces, text, read = annotations(body, "paragraph"), _text(at(body, "text")), 0
    for piece in sorted(pieces, key=lambda each: (each.start, -each.end)):
        if piece.start < read:
            continue
        read = piece.end
        inside = spans[bisect_left(starts, piece.start) : bisect_left(starts, piece.end)]
        own = [
            (start - piece.start, min(end, piece.end) - piece.start, key or None)
            for start, end, key in inside
        ]
        yield _paragraph(text[piece.start : piece.end], own, numbers, piece.start)


def _paragraph(text: str, spans: list[_Span], numbers: Mapping[str, int], begin: int) -> Paragraph:
    """Return a paragraph with its citations; ``begin`` is its offset in the file's text.

    A mark that is only the key, as in texts made of LaTeX, becomes its number in brackets.
    """
    parts: list[str] = []
    places: list[tuple[int, str | int]] = []
    length = done = 0
    for start, end, key in sorted(dict.fromkeys(spans), key=lambda span: span[:2]):
        mark = text[start : min(end, start + _MAX_MARK_CHARS)]
        blank = len(mark) - len(mark.lstrip())
        places.append((max(length + start + blank - done, 0), begin + start if key is None else key))
        if start >= done and key is not None and mark.strip() == key:
            shown = f"[{numbers.get(key, 0)}]"
            parts += [text[done : start + blank], shown]
            length += start + blank - done + len(shown)
            done = start + blank + len(key)
    return Paragraph("".join([*parts, text[done:]]), tuple(sorted(places, key=lambda place: place[0])))


def _numbers(entries: Iterable[str]) -> dict[str, int]:
    return {key: number for number, key in enumerate(entries, start=1)}


def _names_in(attributes: JsonObject) -> tuple[str, ...]:
    return _names(attributes.get("matched_paper_id"), attributes)


def _names(given: object, ids: object) -> tuple[str, ...]:
    """Return the names of a cited paper: its id, and its DOI among ``ids``."""
    name = _id(given, "the id of a cited paper")
    doi = at(ids, "doi") or at(ids, "DOI")
    first = doi[0] if isinstance(doi, list) and doi else doi
    return (
        *([name] if name else []),
        *([f"{DOI}{first.casefold()}"] if isinstance(first, str) and first else []),
    )


def _id(given: object, what: str) -> str | None:
    """Return an id of Semantic Scholar as the corpus reader names it, or None if there is none."""
    if given is None or given == "":
        return None
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise InputError(f"expected {what} as a text, a whole number or null")
    return f"{_S2}{given}"


def _text(*given: object) -> str:
    """Return the first of ``given`` that is a text and not empty, or an empty text."""
    return next((each for each in given if isinstance(each, str) and each), "")
