"""Checks, while tests run, that arrays have the shapes and types stated in signatures.

Only functions that state shapes are wrapped; the import hook of jaxtyping would wrap all functions. The first
call of each in a test is checked, then every fiftieth: checking all calls took a third of the time of the
service's tests.
"""

import sys
from collections.abc import Sequence
from functools import cached_property, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from beartype import beartype
from jaxtyping import jaxtyped

ONE_OF = 50


class CheckedLoader(SourceFileLoader):
    """A loader that wraps the definitions of a module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then replace its definitions by the wrapped ones."""
        super().exec_module(module)
        for name, defined in list(vars(module).items()):
            if getattr(defined, "__module__", None) == module.__name__:
                setattr(module, name, checked(defined))


class CheckedFinder(MetaPathFinder):
    """A finder of the modules ``names`` that loads them with checks."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module in ``names``; None for others, which are left to the usual finders."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._names else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = CheckedLoader(spec.loader.name, spec.loader.path)
        return spec


def check_shapes(names: frozenset[str]) -> None:
    """Check the modules ``names`` that are imported from now on."""
    sys.meta_path.insert(0, CheckedFinder(names))


def checked(defined: Any) -> Any:
    """Return a function, class or property, with checked calls if its signature states a shape."""
    if isinstance(defined, type):
        for name, member in list(vars(defined).items()):
            if (wrapped := checked_member(member)) is not member:
                setattr(defined, name, wrapped)
        return defined
    return checked_member(defined)


def checked_member(member: Any) -> Any:
    """Return a member of a class or module, with checked calls if its signature states a shape."""
    if isinstance(member, (staticmethod, classmethod)):
        return type(member)(checked_member(member.__func__))
    if isinstance(member, property) and member.fget is not None:
        return member.getter(checked_member(member.fget))
    if isinstance(member, cached_property):
        member.func = checked_member(member.func)
        return member
    states_shapes = isinstance(member, FunctionType) and any(
        "jaxtyping." in repr(annotation) for annotation in member.__annotations__.values()
    )
    return sampled(member) if states_shapes else member


class Calls:
    """The number of calls of a function in the current test; ``every`` has the counters of all functions."""

    every: ClassVar[list["Calls"]] = []

    def __init__(self) -> None:
        self.number = 0
        self.every.append(self)

    @classmethod
    def forget(cls) -> None:
        """Set all counters to 0, when another test begins."""
        for each in cls.every:
            each.number = 0


def sampled(function: Any) -> Any:
    """Return the function, with some of its calls checked."""
    shaped = jaxtyped(function, typechecker=beartype)
    calls = Calls()

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        calls.number += 1
        is_checked = calls.number % ONE_OF == 1
        return (shaped if is_checked else function)(*args, **named)

    return call
