"""Tests of the error classes."""

import inspect
import pickle

import pytest

from models import errors
from models.errors import AkinError

# The arguments of the classes that take more than a message.
ARGUMENTS = {"path": "p.jsonl", "line": 3, "reason": "why", "detail": "why", "message": "why", "status": 503}
ARGUMENTS |= {"type": "about:blank", "request_id": "r1", "retry_after_s": 7}
CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, AkinError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_can_be_pickled(kind: type[AkinError]) -> None:
    """A pickled error keeps its class, message and attributes, so that pools of processes can raise it."""
    if "__init__" in vars(kind):
        names = list(inspect.signature(kind).parameters)
        keywords = inspect.signature(kind).parameters.values()
        error = kind(
            *(ARGUMENTS[each.name] for each in keywords if each.kind is each.POSITIONAL_OR_KEYWORD),
            **{each.name: ARGUMENTS[each.name] for each in keywords if each.kind is each.KEYWORD_ONLY},
        )
        assert {name: ARGUMENTS[name] for name in names if name != "message"} == vars(error)
    else:
        error = kind("why")
    error.add_note("a note")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    assert (kind, error.args, vars(error)) == (type(again), again.args, vars(again))
