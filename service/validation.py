"""Messages for invalid requests, in the same words for the HTTP interface, the page, Python and settings.

pydantic gives each fault a type. The table below says for each type what was expected; a message names the
kind of the given value, never the value.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# By pydantic's error types. For types that end in _type, the message also names the kind of the given value.
_EXPECTED: Final = {
    "missing": "is missing",
    "string_type": "must be a string",
    "string_unicode": "holds half of a character (a lone surrogate)",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object with named fields",
    "model_type": "must be an object with named fields",
    "model_attributes_type": "must be an object with named fields",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number, not a fraction",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length:,} entries",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "json_invalid": "is not valid JSON",
    "extra_forbidden": "is not a known field",
}
_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}
# How messages begin that follow the name of a place, like those of the table.
_OF_ITS_PLACE: Final = ("has ", "is ", "must ")
# A field, a header or a number in a list, but not one of pydantic's names for constrained types.
_PLACE: Final = re.compile(r"(?!constrained-)[A-Za-z0-9_]+(-[A-Za-z]+)*")
_MAX_NAME_CHARS: Final = 40


def where(loc: Sequence[str | int]) -> str:
    """Return the place in a request that pydantic calls ``loc``, without the type names of a union."""
    return ".".join(str(part)[:_MAX_NAME_CHARS] for part in loc if _PLACE.fullmatch(str(part)))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at one place of a request, ``loc`` in pydantic's form, and the message about it."""

    loc: tuple[str | int, ...]
    said: str


def faults_of(errors: "Sequence[ErrorDetails] | Sequence[Mapping[str, Any]]") -> list[Fault]:
    """Return one fault per place, in order. If several types are allowed, that of the given value counts."""
    places: dict[str, list[Any]] = {}
    for error in errors:
        places.setdefault(where(error["loc"]), []).append(error)
    return [_fault(found) for found in places.values()]


def _fault(errors: Sequence[Any]) -> Fault:
    of_its_kind = [error for error in errors if not _is_of_another_kind(error)]
    first = (of_its_kind or errors)[0]
    said = _said(first)
    if not of_its_kind:
        others = dict.fromkeys(_EXPECTED.get(error["type"], "") for error in errors[1:])
        kinds = [other.removeprefix("must be") for other in others if other.startswith("must be a")]
        expected, _, given = said.partition(", not ")
        said = " or".join([expected, *(kind for kind in kinds if kind not in expected)])
        said += f", not {given}" if given else ""
    return Fault(first["loc"], said)


def _is_of_another_kind(error: Any) -> bool:
    """Return whether the value has the wrong type, such as a list instead of a text; not a wrong text."""
    kind: str = error["type"]
    return kind.endswith("_type") or (kind == "enum" and not isinstance(error["input"], str))


def _said(error: Any) -> str:
    """Return what was expected: a phrase that follows the name of a place, or a complete message."""
    kind, limits = error["type"], error.get("ctx", {})
    if limits.get("min_length") == 1 and kind in {"too_short", "string_too_short"}:
        return "must not be empty"
    expected = _EXPECTED.get(kind)
    if expected is None:
        return plain(error["msg"])
    if not kind.endswith("_type"):
        return expected.format(**limits)
    given = error.get("input")
    if kind == "int_type" and isinstance(given, float):
        return _EXPECTED["int_from_float"]
    return f"{expected}, not {_KINDS.get(type(given), f'a {type(given).__name__}')}"


def plain(message: str) -> str:
    """Return a pydantic message without pydantic's own wording."""
    return message.removeprefix("Value error, ").replace("Input should", "must", 1)


def sentence(place: str, said: str) -> str:
    """Return the message with the name of its place; without a place it is about the whole request."""
    if said.startswith(_OF_ITS_PLACE):
        return f"{place or 'it'} {said}"
    return f"{place}: {said}" if place else said
