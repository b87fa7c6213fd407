"""Tests of the signatures that help() and editors show for the clients and collections."""

import inspect
import typing
from types import FunctionType
from typing import Any, get_args
from unittest.mock import AsyncMock, create_autospec

import pytest

import akin
from akin.client.params import BatchRequest, ListFilters, MatchRequest
from akin.client.responses.matches import ComparedPapers, ComparedSentence, Side
from akin.client.responses.ranked import Words
from akin.client.signatures import same_as
from akin.local.collection import Collection

CLASSES = (akin.Client, akin.AsyncClient, Collection)
METHODS = [
    pytest.param(method, id=f"{kind.__name__}.{name}")
    for kind in CLASSES
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.parametrize("method", METHODS)
def test_every_keyword_is_shown_by_its_name(method: Any) -> None:
    """No method hides its keywords behind ``*`` or ``**``, or its documentation behind another method's."""
    shown = inspect.signature(method).parameters.values()
    assert [] == [str(each) for each in shown if each.kind in {each.VAR_KEYWORD, each.VAR_POSITIONAL}]
    assert not (method.__doc__ or "As ").startswith("As ")


@pytest.mark.parametrize("method", METHODS)
def test_what_is_shown_is_what_the_method_takes(method: Any) -> None:
    """The shown names and defaults are the real ones; ``**params: Unpack[...]`` counts as its keys."""
    own = inspect.unwrap(method)
    bare = FunctionType(own.__code__, {})  # without the signature that ``same_as`` shows
    bare.__defaults__, bare.__kwdefaults__ = own.__defaults__, own.__kwdefaults__
    taken = dict(inspect.signature(bare).parameters)
    hidden = [name for name, each in taken.items() if each.kind is each.VAR_KEYWORD]
    names = {*taken} - {*hidden}
    for name in hidden:
        names |= set(typing.get_type_hints(get_args(own.__annotations__[name])[0]))
    shown = inspect.signature(method).parameters
    assert names == set(shown)
    defaults = {name: each.default for name, each in taken.items() if each.default is not each.empty}
    assert defaults == {name: shown[name].default for name in defaults}


def test_methods_to_await_are_coroutine_functions() -> None:
    """Mocks and frameworks see that the methods of ``AsyncClient`` are awaited."""
    kinds = inspect.getmembers(akin.AsyncClient, inspect.isfunction)
    others = {name for name, each in kinds if name[0] != "_" and not inspect.iscoroutinefunction(each)}
    assert {"profiles", "batches", "batch_results"} == others  # which are iterated over
    assert isinstance(create_autospec(akin.AsyncClient).search, AsyncMock)


@pytest.mark.parametrize(
    ("method", "typed", "besides"),
    [
        (akin.Client.match, MatchRequest, {"self", "submissions", "profiles"}),
        (akin.Client.count_papers, ListFilters, {"self"}),
        (akin.Client.batch, BatchRequest, {"self", "idempotency_key"}),
    ],
)
def test_keywords_are_those_of_the_request(method: Any, typed: Any, besides: set[str]) -> None:
    """The keywords of a method are the keys of its request type."""
    assert set(inspect.signature(method).parameters) - besides == set(typing.get_type_hints(typed))


def test_a_method_shown_as_another_keeps_what_it_returns() -> None:
    """``same_as`` shows the other method's parameters and documentation, but keeps the return type."""

    def pattern(*, size: int = 1) -> int:
        """The documentation."""
        return size

    @same_as(pattern)
    def own(**given: int) -> str:
        return str(given)

    assert "(*, size: int = 1) -> str" == str(inspect.signature(own))
    assert "The documentation." == own.__doc__


def test_two_compared_papers_are_shown_in_three_lines() -> None:
    """The repr of a comparison shows affinities, titles and counts of unmatched sentences, no abstract."""
    near = ComparedSentence(0, 12, "method", "We sing well.", 0, 0.1, 1.0, alone=False)
    far = ComparedSentence(13, 20, "result", "It rains.", 0, 1.2, 1.0, alone=True)
    sides = [
        Side(name, title, sentences, (), -0.5, affinity, (), (), Words(0.0, 0.0, ()), converged=True)
        for name, title, sentences, affinity in (("a", "Songs", (near, far), 0.75), (None, "", (near,), 0.5))
    ]
    compared = ComparedPapers(*sides, (), "g", (), 1.0)
    assert repr(compared).splitlines() == [
        "<ComparedPapers: affinity 0.750 from A to B, 0.500 from B to A>",
        " A. Songs (1 of 2 sentences only here)",
        " B. a text (0 of 1 sentences only here)",
    ]
