"""Checks and cleans a row of any corpus format and makes a paper of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import unescape
from html.entities import html5
from typing import Any

from models.errors import InputError
from models.text.sentences import sentences_from_list, split_sentences
from models.types import Facet, Paper, Sentence

# Ids are shown, logged and put into URLs; the longest of 188,635 real ones has 106 characters.
MAX_ID_CHARS = 200
# Four times the longest title of the same papers (512 characters).
MAX_TITLE_CHARS = 2_000
# Six times the longest abstract of the same papers (16,262): a pasted chapter fits, a book does not.
MAX_ABSTRACT_CHARS = 100_000
# As many as a text of MAX_ABSTRACT_CHARS usually holds: a list may have no more, of a text the first count.
MAX_SENTENCES = 1_000
MAX_GIVEN_SENTENCE_CHARS = 10_000
# For a venue, a DOI, an address, one author or one field.
MAX_FIELD_CHARS = 2_000
# Far longer than any list of authors or fields; it only keeps junk out.
MAX_LIST_ITEMS = 10_000
MIN_YEAR, MAX_YEAR = 1000, 2100

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What programs write for an abstract that they do not have; nan is from pandas.
_NO_ABSTRACT = frozenset({"nan", "n/a", "[no abstract available]"})
# pandas writes whole numbers as 2020.0 if the column has gaps; a date begins with its year.
_YEAR = re.compile(r"\s*([0-9]{4})(?:\.0+|-[0-9]{2}(?:-[0-9]{2}(?:[T ][0-9:.Z+-]{0,40})?)?)?\s*")
_DOI_PREFIX = re.compile(r"^(?:(?:https?://)?(?:(?:dx|www)\.)?doi\.org/|doi:\s*)", re.IGNORECASE)
# Only clear tags of HTML or JATS match: "p < 0.05 and q > 3" stays.
_HEADING = re.compile(
    r"<(?:jats:)?title[^<>]{0,100}>\s*+(?:abstract|summary)\s*+(?:[:.]\s*+)?</(?:jats:)?title>", re.I
)
# After its name a tag has attributes alone, so that the formula "1<p \le 2 and q>2" stays too.
_ATTRIBUTES = r"""(?:\s++[a-z][\w:.-]*+\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=]++))*+\s*+/?>"""
_INLINE_TAG = re.compile(
    r"</?(?:mml:[a-z-]+|(?:jats:)?(?:i|b|u|em|strong|italic|bold|underline|overline|strike|roman|sans-serif|"
    r"fixed-case|sub|sup|inf|sc|scp|tt|code|span|a|uri|ext-link|xref|monospace|named-content|styled-content|"
    r"inline-formula|tex-math|alternatives))" + _ATTRIBUTES,
    re.I,
)
_BLOCK_TAG = re.compile(  # those of JATS that are not inline, too
    r"</?(?:jats:[a-z-]+|p|br|div|sec|title|label|list(?:-item)?|[uo]l|li|h[1-6]|abstract)" + _ATTRIBUTES,
    re.I,
)
_ENTITY = re.compile(r"&(?:(#)(?:[0-9]{1,7}|x[0-9a-f]{1,6})|[a-z][a-z0-9]{1,31});", re.I)


@dataclass(frozen=True, slots=True)
class RawPaper:
    """A paper as its file states it, unchecked: a field may hold anything.

    ``abstract`` is a text or a list of sentences; ``facets`` names the facet of each sentence, if any.
    ``lookup`` is the name of the paper at a public service: ``arxiv:…``, ``pmid:…`` or ``doi:…``; ``None`` if
    there is nothing to look up, or if the file comes from such a service.
    """

    id: object
    title: object
    abstract: object
    year: object = None
    venue: object = None
    authors: object = None
    url: object = None
    doi: object = None
    fields: object = None
    facets: object = None
    author_ids: object = None
    lookup: str | None = None

    @property
    def lacks_abstract(self) -> bool:
        """Whether there is no abstract at all; an unusable one counts as an abstract."""
        if isinstance(self.abstract, str):
            return not _cleaned_abstract(self.abstract)
        return self.abstract is None or self.abstract == []


@dataclass(frozen=True, slots=True)
class Row:
    """The content of a file at ``line`` (from 1): a paper, or the reason why no paper can be read.

    ``label`` names the row in reports of files whose rows all begin on one line.
    """

    line: int
    content: RawPaper | InputError
    label: str = ""

    def reason(self, error: InputError) -> str:
        """Return the reason why the row cannot be used, after the label of the row, if it has one."""
        return f"{self.label}: {error}" if self.label else str(error)


def to_paper(raw: RawPaper) -> Paper:
    """Return ``raw`` checked and cleaned; raises InputError with the reason if it cannot be used.

    A ``url`` that is not an http(s) address is no error: it becomes ``None``.
    """
    abstract, sentences = _abstract(raw.abstract, raw.facets)
    return Paper(
        id=id_of(raw),
        title=_title(raw.title),
        abstract=abstract,
        sentences=sentences,
        year=year_of(raw.year),
        venue=_field(raw.venue, "venue"),
        authors=_names(raw.authors, "authors"),
        author_ids=_names(raw.author_ids, "author ids"),
        url=_url(raw.url),
        doi=_doi(raw.doi),
        fields=tuple(dict.fromkeys(_names(raw.fields, "fields"))),
    )


def completed(raw: RawPaper, found: RawPaper | None) -> RawPaper:
    """Return ``raw`` with the abstract and facets of ``found``, and its other fields where ``raw`` has none.

    The id, the author ids and ``lookup`` stay. Without ``found``, return ``raw`` unchanged.
    """
    if found is None:
        return raw
    names = ("title", "year", "venue", "authors", "url", "doi", "fields")
    lacking: dict[str, Any] = {name: getattr(found, name) for name in names if not getattr(raw, name)}
    return replace(raw, abstract=found.abstract, facets=found.facets, **lacking)


def clean(text: str) -> str:
    """Return ``text`` with each run of white space and control characters as one space, stripped."""
    return " ".join(_CONTROL.sub(" ", text).split())


def without_tags(text: object) -> object:
    """Return a text without HTML and JATS tags, its entities decoded; return anything else unchanged.

    Decoded characters are not read as tags or entities again.
    """
    if not isinstance(text, str):
        return text
    if "<" in text:
        text = _BLOCK_TAG.sub(" ", _INLINE_TAG.sub("", _HEADING.sub(" ", text)))
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(entity: "re.Match[str]") -> str:
    """Return the character of an entity; a name unknown to HTML stays, even if it begins with a known one."""
    return unescape(entity[0]) if entity[1] == "#" else html5.get(entity[0][1:], entity[0])


def at(record: object, *keys: str) -> object:
    """Return ``record[keys[0]][keys[1]]...``, or ``None`` if a key is absent or a value is not an object."""
    for key in keys:
        record = record.get(key) if isinstance(record, dict) else None
    return record


def id_of(raw: RawPaper) -> str:
    """Return the id of a paper; raises InputError if it has no usable one."""
    given = raw.id
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    text = _not_blank(_text(given, "id", MAX_ID_CHARS), "id")
    if text != text.strip() or not text.isprintable():
        # The id is not quoted: the service sends this message to clients, and never repeats their input.
        raise InputError("the id has white space at its ends or characters that cannot be printed")
    return text


def year_of(given: object) -> int | None:
    """Return a year given as a number, a text or a date; ``None`` for ``None`` or an empty text.

    Raises InputError for any other year than a whole number from MIN_YEAR to MAX_YEAR.
    """
    if given is None or given == "":
        return None
    if isinstance(given, str) and (digits := _YEAR.fullmatch(given)):
        given = int(digits[1])
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not MIN_YEAR <= given <= MAX_YEAR:
        raise InputError(f"the year {str(given)[:50]!r} is not a whole number from {MIN_YEAR} to {MAX_YEAR}")
    return given


def _title(given: object) -> str:
    return _not_blank(clean(_text(given, "title", MAX_TITLE_CHARS)), "title")


def _abstract(given: object, facets: object) -> tuple[str, tuple[Sentence, ...]]:
    labels = _facets(facets)
    if isinstance(given, list):
        if len(given) > MAX_SENTENCES:
            raise InputError(
                f"the abstract has {len(given):,} sentences; at most {MAX_SENTENCES:,} are allowed"
            )
        parts = [clean(_text(part, "sentence", MAX_GIVEN_SENTENCE_CHARS)) for part in given]
        abstract, sentences = sentences_from_list(parts, labels)
        _text(abstract, "abstract", MAX_ABSTRACT_CHARS)
    else:
        abstract = _cleaned_abstract(_text(given, "abstract", MAX_ABSTRACT_CHARS))
        sentences = split_sentences(abstract)[:MAX_SENTENCES]
        if labels is not None:
            # Offsets stay: a cleaned text has one space between sentences, as a joined list has.
            sentences = _labelled(sentences, labels)
    _not_blank(abstract, "abstract")
    return abstract, sentences


def _cleaned_abstract(text: str) -> str:
    """Return an abstract cleaned, or ``""`` if it only says that there is none."""
    abstract = clean(text)
    return "" if abstract.lower() in _NO_ABSTRACT else abstract


def _labelled(sentences: Sequence[Sentence], labels: Sequence[Facet | None]) -> tuple[Sentence, ...]:
    if len(labels) != len(sentences):
        raise InputError(
            f"facets has length {len(labels)}, but the abstract's number of sentences is {len(sentences)}; "
            "give the abstract as a list of sentences"
        )
    return tuple(replace(sentence, facet=label) for sentence, label in zip(sentences, labels, strict=True))


def _facets(given: object) -> list[Facet | None] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise InputError(f"facets is {_kind(given)}, not a list")
    known = set(Facet)
    for label in given:
        if label is not None and not (isinstance(label, str) and label in known):
            raise InputError(f"unknown facet {str(label)[:50]!r}; known: {', '.join(sorted(known))}, or null")
    return [None if label is None else Facet(label) for label in given]


def _field(given: object, name: str) -> str | None:
    return None if given is None else clean(_text(given, name, MAX_FIELD_CHARS)) or None


def _url(given: object) -> str | None:
    """Return an http(s) address, or ``None`` for anything else: a bad link is no reason to lose the paper."""
    url = clean(given) if isinstance(given, str) and len(given) <= MAX_FIELD_CHARS else ""
    return url if url.startswith(("http://", "https://")) else None


def _doi(given: object) -> str | None:
    doi = _field(given, "doi")
    return None if doi is None else _DOI_PREFIX.sub("", doi) or None


def _names(given: object, what: str) -> tuple[str, ...]:
    """Return the names of a list, of texts or objects with a ``name``, or of a text with semicolons.

    Two people may have one name.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        given = _text(given, what, MAX_ABSTRACT_CHARS).split(";")
    if not isinstance(given, list):
        raise InputError(f"{what} is {_kind(given)}, neither a list nor a text with semicolons")
    if len(given) > MAX_LIST_ITEMS:
        raise InputError(f"{what} has {len(given):,} entries; at most {MAX_LIST_ITEMS:,} are allowed")
    one = what.removesuffix("s")
    texts = (each.get("name", each) if isinstance(each, dict) else each for each in given)
    return tuple(filter(None, (clean(_text(it, one, MAX_FIELD_CHARS)) for it in texts if it is not None)))


def _text(given: object, name: str, max_chars: int) -> str:
    if given is None:
        raise InputError(f"no {name}")
    if not isinstance(given, str):
        raise InputError(f"the {name} is {_kind(given)}, not a text")
    if len(given) > max_chars:
        raise InputError(f"the {name} has {len(given):,} characters; at most {max_chars:,} are allowed")
    return given


def _not_blank(text: str, name: str) -> str:
    if not text:
        raise InputError(f"the {name} is empty")
    return text


def _kind(given: object) -> str:
    """Name the type of a JSON value in words."""
    if isinstance(given, bool):
        return "true or false"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(given), type(given).__name__)
