"""Which fields of a request go together, in the words of JSON Schema: what its validators enforce."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

_JsonSchema = dict[str, Any]
_NULL = {"type": "null"}
# What of an object's schema each of its alternatives repeats.
_OF_OBJECTS = ("type", "properties", "required", "additionalProperties")


@dataclass(frozen=True, slots=True)
class Shape:
    """Requests with the fields ``given``, none of them null, where those of ``null`` and ``empty`` are not.

    They may be there, though: as null, or as an empty text. ``alone``: and no field that is not named.
    """

    given: Sequence[str] = ()
    null: Sequence[str] = ()
    empty: Sequence[str] = ()
    alone: bool = False


# Sentences or a facet, or neither.
ONE_CHOICE = (Shape(null=["facet"]), Shape(null=["sentences"]))


def any_of(*choices: Sequence[Shape]) -> Callable[[_JsonSchema], None]:
    """What makes of a model's schema that of requests that have, of each of the ``choices``, one shape.

    Each combination is spelt out as a whole: generators of clients and of tests make little of half objects.
    """

    def spell_out(schema: _JsonSchema) -> None:
        whole = {key: schema.pop(key) for key in _OF_OBJECTS if key in schema}
        schema["anyOf"] = [_narrowed(whole, shapes) for shapes in product(*choices)]

    return spell_out


def _narrowed(whole: _JsonSchema, shapes: Sequence[Shape]) -> _JsonSchema:
    properties, required = dict(whole["properties"]), list(whole.get("required", []))
    for shape in shapes:
        required += shape.given
        properties |= {name: _without_null(properties[name]) for name in shape.given}
        properties |= dict.fromkeys(shape.null, _NULL) | {name: {"const": ""} for name in shape.empty}
        if shape.alone:
            properties = {name: properties[name] for name in (*shape.given, *shape.null, *shape.empty)}
    return {**whole, "properties": properties, "required": required}


def _without_null(field: _JsonSchema) -> _JsonSchema:
    return {**field, "anyOf": [each for each in field["anyOf"] if each != _NULL]}
