"""Checks, while tests run, that arrays have the shapes and types that signatures state.

Only functions that state some are wrapped. The import hook of jaxtyping wraps all others too, which
took a quarter of the time of the service's tests.
"""

import sys
from collections.abc import Sequence
from functools import cached_property
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, ModuleType
from typing import Any

from beartype import beartype
from jaxtyping import jaxtyped


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
    return jaxtyped(member, typechecker=beartype) if states_shapes else member
