"""Decorators that copy a method's signature to other classes, and suggest keywords for misspelt ones."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Kind = TypeVar("_Kind", bound=type)


def same_as(method: Callable[..., Any]) -> Callable[[_Method], _Method]:
    """Return a decorator that gives a method the signature and docstring of ``method``."""

    def shown(own: _Method) -> _Method:
        taken = signature(method).replace(return_annotation=signature(own).return_annotation)
        own.__signature__ = taken  # type: ignore[attr-defined]  # where inspect looks for it
        own.__doc__ = method.__doc__
        return own

    return shown


def spelt(method: _Method) -> _Method:
    """Return a method that raises TypeError for unknown keywords, and names the keyword that may be meant."""
    known = _keywords(method)

    def expect_known(keywords: dict[str, Any]) -> None:
        for name in keywords:
            if name not in known:
                raise TypeError(_unknown(method.__name__, name, known))

    @wraps(method)
    def plain(*given: Any, **keywords: Any) -> Any:
        expect_known(keywords)
        return method(*given, **keywords)

    @wraps(method)
    async def awaited(*given: Any, **keywords: Any) -> Any:
        expect_known(keywords)
        return await method(*given, **keywords)

    return cast("_Method", awaited if inspect.iscoroutinefunction(method) else plain)


def all_spelt(kind: _Kind) -> _Kind:
    """Apply ``spelt`` to all public methods of a class, also inherited ones."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            setattr(kind, name, spelt(method))
    return kind


def all_like(pattern: type) -> Callable[[_Kind], _Kind]:
    """Extend ``all_spelt``: methods with docstrings that begin "As ``Client." get those of ``Client``."""

    def shown(kind: _Kind) -> _Kind:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if (method.__doc__ or "").startswith(f"As ``{pattern.__name__}."):
                same_as(getattr(pattern, name))(method)
        return all_spelt(kind)

    return shown


def _keywords(method: Callable[..., Any]) -> list[str]:
    """Return the names of a method's parameters."""
    return [name for name in signature(method).parameters if name != "self"]


def _unknown(method: str, name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
    return f"{method}() got an unexpected keyword argument {name!r}; {meant}"
