"""Methods that are the same in several classes: what help() and editors show of them is written once."""

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])


def same_as(method: Callable[..., Any]) -> Callable[[_Method], _Method]:
    """Shows a method with the keywords and the documentation of ``method``, which takes the same."""

    def shown(own: _Method) -> _Method:
        own.__signature__ = signature(method)  # type: ignore[attr-defined]  # where inspect looks for it
        own.__doc__ = method.__doc__
        return own

    return shown
