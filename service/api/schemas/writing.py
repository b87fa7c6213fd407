"""Answers as JSON: domain values are written in the shape of their models, without building the models.

An answer of 20 papers has 1,500 alignments, sentences and words. Validating each of them as a model takes
more time than writing it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import isclass
from operator import attrgetter
from typing import Any, get_args, get_origin

import orjson
from pydantic import BaseModel

from service.api.schemas.base import Out

_Plain = Callable[[Iterable[object]], list[dict[str, Any]]]
_NO_RESULTS = b'"results":[]'  # quotation marks in texts are escaped, so no text holds it


@dataclass(frozen=True, slots=True)
class JSONAnswer:
    """An answer as JSON, with its time and its coverage; ``took_ms`` is its last member."""

    content: bytes
    took_ms: float
    coverage: float = 1.0

    @classmethod
    def of(cls, answer: Any) -> "JSONAnswer":
        """Build from the model of the answer, which has a ``took_ms``."""
        content = answer.model_dump_json(by_alias=True).encode()
        return cls(content, answer.took_ms, getattr(answer, "coverage", 1.0))

    def with_results(self, results: bytes) -> "JSONAnswer":
        """Return the same answer with ``results``, a list in JSON, instead of its empty list."""
        content = self.content.replace(_NO_RESULTS, b'"results":' + results, 1)
        return JSONAnswer(content, self.took_ms, self.coverage)


def writer(shape: type[Out]) -> Callable[[Sequence[object]], bytes]:
    """Return a function that writes domain values as a JSON list, byte for byte like models of ``shape``."""
    plain = _plain(shape)
    return lambda values: orjson.dumps(plain(values))


def _plain(shape: type[BaseModel]) -> _Plain:
    """Return a function that makes dictionaries of domain values that have the fields of ``shape``."""
    names = list(shape.model_fields)
    pick = attrgetter(*names)  # with several names, a tuple
    within = {
        name: found for name, field in shape.model_fields.items() if (found := _within(field.annotation))
    }

    def flat(values: Iterable[object]) -> list[dict[str, Any]]:
        return [dict(zip(names, each, strict=True)) for each in map(pick, values)]

    def nested(values: Iterable[object]) -> list[dict[str, Any]]:
        made = flat(values)
        for each in made:
            for name, make in within.items():
                each[name] = make(each[name])
        return made

    return nested if within else flat


def _within(annotation: Any) -> Callable[[Any], Any] | None:
    """Return what makes plain values of a field of one or many models; ``None`` for any other field."""
    kinds = [
        each for each in (annotation, *get_args(annotation)) if isclass(each) and issubclass(each, BaseModel)
    ]
    if not kinds:
        return None
    plain = _plain(kinds[0])
    if get_origin(annotation) in {tuple, list}:
        return plain
    return lambda value: None if value is None else plain([value])[0]
