"""Reads Semantic Scholar's S2ORC metadata (``paper_id``), datasets (``corpusid``) and API (``paperId``).

Among the datasets, S2ORC's full texts have title and abstract as spans of the text. The papers and abstracts
datasets are separate and must be merged by ``corpusid`` first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import RawPaper, Row, at, without_tags
from indexer.corpus.source import Lines
from models.errors import InputError

_S2ORC_KEYS = frozenset({"mag_id", "mag_field_of_study", "has_pdf_parse", "s2_url", "inbound_citations"})


@dataclass(frozen=True, slots=True)
class Annotation:
    """A part of a full text, from ``start`` to ``end``, with its ``attributes``."""

    start: int
    end: int
    attributes: JsonObject


class S2Reader:
    """The reader of Semantic Scholar: ids become ``s2:77490025``; an S2ORC ``paper_id`` is a corpus id too.

    A paper of the API that was requested without its corpus id keeps the 40 digits of its ``paperId``.
    """

    needs_abstract = False

    def recognises(self, head: str) -> bool:
        """Return whether the first record has the keys of one of the three.

        These are ``corpusid``, ``paperId`` with ``title``, or ``paper_id`` with a key that only S2ORC has.
        """
        keys = first_record(head).keys()
        return (
            "corpusid" in keys
            or keys >= {"paperId", "title"}
            or ("paper_id" in keys and bool(keys & _S2ORC_KEYS))
        )

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each line, or for each paper of an answer."""
        return json_rows(lines, _raw)


def _raw(record: JsonObject) -> RawPaper:
    names = [record[key] for key in ("corpusid", "corpusId", "paper_id") if key in record]
    name = next(iter(names), None) or at(record, "externalIds", "CorpusId") or record.get("paperId")
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise InputError("no corpusid and no paper_id")
    if "corpusid" in record and not {"title", "content"} & record.keys():
        raise InputError("no title; merge the abstracts dataset with the papers dataset by corpusid")
    title, abstract = record.get("title"), record.get("abstract")
    if "content" in record:
        # The title is often annotated twice, on the cover page and above the text.
        title = title or next(iter(_annotated(record, "title")), None)
        abstract = abstract or " ".join(_annotated(record, "abstract"))
    return RawPaper(
        id=f"s2:{name}",
        title=without_tags(title),
        abstract=without_tags(abstract),
        year=record.get("year"),
        venue=record.get("venue") or at(record, "journal", "name") or _text_only(record.get("journal")),
        authors=_authors(record.get("authors")),
        url=record.get("url") or record.get("s2_url"),
        doi=record.get("doi") or _external(record, "DOI") or _external(record, "doi"),
        fields=record.get("mag_field_of_study")
        or _fields(record.get("s2fieldsofstudy") or record.get("s2FieldsOfStudy"))
        or record.get("fieldsOfStudy"),
    )


def annotations(part: object, name: str) -> list[Annotation]:
    """Return the annotations ``name`` of a full text, ``{"text", "annotations"}``, in the order of the file.

    They are JSON within JSON: ``"[{\\"start\\": 1, \\"end\\": 9}]"``, or null if there are none. Raises
    InputError.
    """
    text, given = at(part, "text"), at(part, "annotations", name)
    if given is None:
        return []
    if not isinstance(text, str) or not isinstance(given, str):
        raise InputError(f"the text or the annotation {name} is not text")
    try:
        spans = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the annotation {name} is not valid JSON: {error.msg}") from error
    if not isinstance(spans, list):
        raise InputError(f"the annotation {name} is not a list of spans")
    return [_annotation(text, span, name) for span in spans]


def _annotation(text: str, span: object, name: str) -> Annotation:
    start, end, attributes = at(span, "start"), at(span, "end"), at(span, "attributes")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= len(text):
        raise InputError(f"the annotation {name} has a span outside the text, or without start and end")
    return Annotation(start, end, attributes if isinstance(attributes, dict) else {})


def _annotated(record: JsonObject, name: str) -> list[str]:
    """Return the parts of the full text that are annotated as ``name``."""
    content = record["content"]
    return [content["text"][each.start : each.end] for each in annotations(content, name)]


def _authors(given: object) -> object:
    """Return a name for each ``{first, middle, last, suffix}`` (S2ORC) or ``{name}`` (datasets)."""
    if not isinstance(given, list):
        return given
    return [_name(author) if isinstance(author, dict) else author for author in given]


def _name(author: JsonObject) -> object:
    if "name" in author:
        return author["name"]
    middle = author.get("middle")
    parts = [
        author.get("first"),
        *(middle if isinstance(middle, list) else []),
        author.get("last"),
        author.get("suffix"),
    ]
    return " ".join(part for part in parts if isinstance(part, str) and part)


def _external(record: JsonObject, name: str) -> object:
    return at(record, "externalids", name) or at(record, "externalIds", name)


def _fields(given: object) -> object:
    if not isinstance(given, list):
        return given
    return [name for field in given if (name := at(field, "category")) is not None]


def _text_only(given: object) -> str | None:
    return given if isinstance(given, str) else None
