"""Parts shared by all schemas: papers, facets, sentences, warnings."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    model_validator,
)
from pydantic.config import JsonDict

from indexer.corpus.rows import MAX_ABSTRACT_CHARS, MAX_ID_CHARS, MAX_SENTENCES, MAX_TITLE_CHARS
from models.errors import QueryError
from models.text.sentences import sentences_from_list
from models.types import Facet, Paper
from service.answer_warnings import WarningCode
from service.search.query import SearchAnswer
from service.search.sentences import SentenceAnswer

# Characters that are no text by themselves. Other white space is no text either, but the dialects of JSON
# Schema define it differently, so the shape of a request does not exclude it. The anchor and the length are
# redundant, but help test generators to find texts at once.
_BLANK = "".join(map(chr, range(0x21)))
WITH_TEXT: JsonDict = {"pattern": r"^[\x00-\x20]*[^\x00-\x20]", "minLength": 1}


def _expect_text(given: str, what: str) -> None:
    if not given.strip(_BLANK):
        raise ValueError(f"{what} is blank")
    if not given.strip():
        raise QueryError(f"Expected words, but {what} contains only white space.")


def _with_text(given: str) -> str:
    _expect_text(given, "the text")
    return given


# Used together with WITH_TEXT, which documents it.
NOT_BLANK = AfterValidator(_with_text)


def _readable(abstract: str | list[str]) -> str | list[str]:
    given = [abstract] if isinstance(abstract, str) else abstract
    for text in given:
        _expect_text(text, "the abstract, or a sentence of it,")
    if sum(map(len, given)) > MAX_ABSTRACT_CHARS:
        # Not a ValueError: each sentence is valid, and the shape of a request cannot express a sum.
        raise QueryError(
            f"The sentences of the abstract hold more than {MAX_ABSTRACT_CHARS} characters together; leave "
            "some out."
        )
    return abstract


def _whole(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


# Stands after the bounds of an integer: 3.0 is the number 3, in JSON and in JSON Schema.
WHOLE = BeforeValidator(_whole)

_MAX_NAME_CHARS = 40
_WHOLE_NUMBER = re.compile(r"[0-9]{1,99}")


def _whole_number(given: object) -> object:
    """Return the number that a text in an address stands for; anything but 1 to 99 digits stays unchanged."""
    return int(given) if isinstance(given, str) and _WHOLE_NUMBER.fullmatch(given) else given


# For a number in an address. Stands after its bounds: otherwise they would not be read as bounds of a number.
IN_ADDRESS = BeforeValidator(_whole_number)
Limit = Annotated[int, Field(ge=1, le=100, description="Maximum number."), IN_ADDRESS]

PaperId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
# Any name of a paper: its id, DOI, arXiv id, address or title.
PaperName = Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS)]
Title = Annotated[str, Field(max_length=MAX_TITLE_CHARS)]
_Text = Annotated[str, Field(max_length=MAX_ABSTRACT_CHARS, json_schema_extra=WITH_TEXT)]
Abstract = Annotated[
    _Text | Annotated[list[_Text], Field(fail_fast=True, min_length=1, max_length=MAX_SENTENCES)],
    AfterValidator(_readable),
]

# Our cursors are 57 bytes, or 76 characters of base64; longer ones are not ours.
MAX_CURSOR_CHARS = 200
CursorIn = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_CURSOR_CHARS,
        description="next_cursor of the previous page, with an otherwise equal body; only limit may differ.",
    ),
]
FacetIn = Annotated[Facet, Field(strict=False)]
_FacetList = Annotated[list[FacetIn], Field(fail_fast=True, min_length=1, max_length=len(Facet))]
Facets = FacetIn | _FacetList


def facet_tuple(given: Facet | list[Facet] | None) -> tuple[Facet, ...]:
    """Return the facet or facets of a request as a tuple, empty if it has none."""
    if given is None:
        return ()
    return (given,) if isinstance(given, Facet) else tuple(given)


def pasted_paper(title: str, abstract: str | list[str]) -> Paper:
    """Return the paper with this ``Title`` and ``Abstract``; it has sentences if the abstract is a list."""
    if isinstance(abstract, str):
        return Paper(id="", title=title, abstract=abstract, sentences=())
    text, sentences = sentences_from_list(abstract)
    return Paper(id="", title=title, abstract=text, sentences=sentences)


def did_you_mean(unknown: str, known: Iterable[str], *, otherwise: str = ".") -> str:
    """Return how a sentence about an unknown name goes on: with the known one like it, or ``otherwise``."""
    near = get_close_matches(unknown[:_MAX_NAME_CHARS], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else otherwise


# The names of all fields of requests.
_FIELDS: Final = set[str]()


class Strict(BaseModel):
    """A request without unknown fields, type conversion, NaN or infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        _FIELDS.update(field.alias or name for name, field in cls.model_fields.items())

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: object) -> object:
        """Refuse unknown fields; the error suggests a known one like the first.

        It repeats a field only if another part of a request has it: any other may be a text of the caller.
        An error for each of 100,000 unknown fields would take a second, in which nobody is answered.
        """
        known = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = next((key for key in given if key not in known), None) if isinstance(given, dict) else None
        if unknown is None:
            return given
        if unknown in _FIELDS:
            problem, otherwise = f"has no field {unknown}", ", which belongs elsewhere."
        else:
            problem, otherwise = "has an unknown field", "."
        meant = did_you_mean(str(unknown), known, otherwise=otherwise)
        raise ValueError(f"{problem}{meant} The fields are {', '.join(known)}")


def kind_of(*keys: str, problem: str) -> Discriminator:
    """Return the discriminator of request kinds by the one of ``keys`` they hold; tags are ``tag(key)``.

    A string instead of an object has the tag ``tag("")``. ``problem`` says what to give if a request holds
    none or several of the keys.
    """

    def kind(given: object) -> str | None:
        if isinstance(given, str):
            return tag("")
        held = given if isinstance(given, dict) else getattr(given, "__dict__", {})
        found = [key for key in keys if key in held]
        return tag(found[0]) if len(found) == 1 else None

    return Discriminator(kind, custom_error_type="kind", custom_error_message=problem)


def tag(key: str) -> str:
    """Return the tag of requests with ``key``; its space keeps it apart from the fields of a request."""
    return f"with {key}"


class Out(BaseModel):
    """A part of an answer that is built directly from the domain value with the same fields."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


TookMs = Annotated[
    float,
    Field(
        description="Milliseconds of the work itself: reading the query, finding, comparing, explaining. "
        "Waiting in a queue and writing the answer are not counted. For a cached answer: to find it."
    ),
]


def utc_time(unix_s: int) -> datetime:
    """Return a time of the database, in Unix seconds, as answers give it."""
    return datetime.fromtimestamp(unix_s, UTC)


class WarningOut(Out):
    """A warning about an answer: ``message`` says in words what was found and what to do.

    ``about`` holds the values that ``code`` refers to, as strings: facets, sentence numbers from 0, a count.
    """

    code: WarningCode
    message: str
    about: tuple[str, ...]


def of_answer(answer: SearchAnswer | SentenceAnswer) -> dict[str, Any]:
    """Return what every answer to a search contains besides its results."""
    return {
        "generation": answer.generation,
        "reason": answer.reason,
        "detail": answer.detail,
        "warnings": tuple(WarningOut.model_validate(each) for each in answer.warnings),
        "coverage": answer.coverage,
        "took_ms": round(answer.took_ms, 3),
    }


class SentenceOut(Out):
    """A sentence of an abstract: ``abstract[start:end]``, counted in Unicode characters."""

    start: int
    end: int
    facet: Facet | None


class PaperOut(Out):
    """A paper of the collection."""

    id: str
    title: str
    abstract: str
    sentences: tuple[SentenceOut, ...]
    year: int | None
    venue: str | None
    authors: tuple[str, ...]
    url: str | None
    doi: str | None
    fields: tuple[str, ...]


class PaperAnswerOut(BaseModel):
    """A paper and the generation it was read from."""

    paper: PaperOut
    generation: str
