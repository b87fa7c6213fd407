"""Checks, while tests run, that arrays have the shapes and types that signatures state.

Only functions that state some are wrapped: the import hook of jaxtyping wraps all others too. Of each, the
first call of a test is checked and every fiftieth after it: to check all took a third of the time of the
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
    """Loads a module and wraps what it defines."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then put the wrapped definitions in the place of its own."""
        super().exec_module(module)
        for name, defined in list(vars(module).items()):
            if getattr(defined, "__module__", None) == module.__name__:
                setattr(module, name, checked(defined))


class CheckedFinder(MetaPathFinder):
    """Finds the modules of ``names``, to be loaded with checks."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of these names; None for others, which the usual finders find."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._names else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = CheckedLoader(spec.loader.name, spec.loader.path)
        return spec


def check_shapes(names: frozenset[str]) -> None:
    """Have the modules ``names`` checked that are imported from now on."""
    sys.meta_path.insert(0, CheckedFinder(names))


def checked(defined: Any) -> Any:
    """A function, class or property, its calls checked where its signature states a shape."""
    if isinstance(defined, type):
        for name, member in list(vars(defined).items()):
            if (wrapped := checked_member(member)) is not member:
                setattr(defined, name, wrapped)
        return defined
    return checked_member(defined)


def checked_member(member: Any) -> Any:
    """The same of what a class or module holds."""
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
    """How often a function was called in the current test; ``every`` has those of all."""

    every: ClassVar[list["Calls"]] = []

    def __init__(self) -> None:
        self.number = 0
        self.every.append(self)

    @classmethod
    def forget(cls) -> None:
        """Another test begins."""
        for each in cls.every:
            each.number = 0


def sampled(function: Any) -> Any:
    """The function, some of its calls checked."""
    shaped = jaxtyped(function, typechecker=beartype)
    calls = Calls()

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        calls.number += 1
        is_checked = calls.number % ONE_OF == 1
        return (shaped if is_checked else function)(*args, **named)

    return call
