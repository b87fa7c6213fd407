"""Tests of the words for invalid requests: the expected value, and the kind of the given one."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from models.types import Facet
from service.validation import Fault, faults_of, sentence, where

SECRET = "hunter2"  # noqa: S105 - no password of anybody's
Text = Annotated[str, Field(max_length=9)]
KINDS: list[tuple[Any, Any, str]] = [
    (Annotated[int, Field(strict=True)], SECRET, "must be a whole number, not a string"),
    (Annotated[int, Field(strict=True)], 2.5, "must be a whole number, not a fraction"),
    (int, SECRET, "must be a whole number"),
    (float, SECRET, "must be a number"),
    (Annotated[bool, Field(strict=True)], None, "must be true or false, not null"),
    (str, [SECRET], "must be a string, not a list"),
    (list[str], {SECRET: 1}, "must be a list, not an object"),
    (list[str], object, "must be a list, not a type"),
    (Text | Annotated[list[Text], Field(max_length=9)], 3, "must be a string or a list, not a number"),
    (Facet | list[Facet], SECRET, "must be one of 'background', 'objective', 'method', 'result' or 'other'"),
    (Facet | Annotated[list[Facet], Field(min_length=1)], [], "must not be empty"),
    (Annotated[str, Field(min_length=1)], "", "must not be empty"),
    (Annotated[str, Field(max_length=2_000)], "x" * 2_001, "must have at most 2,000 characters"),
    (Annotated[str, Field(pattern="^a$")], SECRET, "must match the pattern ^a$"),
    (Annotated[list[int], Field(min_length=2)], [1], "must have at least 2 entries"),
    (Annotated[float, Field(gt=0)], -1.0, "must be greater than 0.0"),
    (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
    (Annotated[int, Field(le=100)], 101, "must be at most 100"),
    (Literal["a", "b"], SECRET, "must be one of 'a' or 'b'"),
]


def faults(kind: Any, given: Any) -> list[Fault]:
    """Return the faults of a value."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(given)
    return faults_of(caught.value.errors())


@pytest.mark.parametrize(("kind", "given", "said"), KINDS)
def test_a_fault_says_what_was_expected(kind: Any, given: Any, said: str) -> None:
    """Each value has one fault, which says what was expected but never repeats the value."""
    assert [said] == [fault.said for fault in faults(kind, given)]


def test_no_fault_is_said_in_the_words_of_what_checks() -> None:
    """A fault that the table lacks is not reported in pydantic's words either."""
    (fault,) = faults(Annotated[int, Field(multiple_of=3)], 4)
    assert "must be a multiple of 3" == fault.said


@pytest.mark.parametrize(
    ("place", "said", "expected"),
    [
        ("limit", "must be at least 1", "limit must be at least 1"),
        ("", "must be at least 1", "it must be at least 1"),
        ("query", "give either a or b", "query: give either a or b"),
        ("", "give either a or b", "give either a or b"),
    ],
)
def test_a_sentence_names_the_place(place: str, said: str, expected: str) -> None:
    """A predicate follows the place; a full sentence comes after a colon, or stands alone without a place."""
    assert expected == sentence(place, said)


def test_a_place_is_named_without_the_kinds_of_a_union() -> None:
    """A place consists only of fields and numbers."""
    assert "query.abstract.0" == where(("query", "with abstract", "abstract", "constrained-str", 0))
