"""Registries are plain dicts of lazy names, ``{"minilm": "package.module:Object"}``; this resolves one."""

import difflib
import gc
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from models.errors import MissingPackageError, UnknownNameError

# Packages whose name on the registry differs from the one imported.
_DISTRIBUTIONS = {"faiss": "faiss-cpu"}


def resolve(registry: Mapping[str, str], name: str, kind: str) -> Any:
    """Import and return the object that ``registry`` holds under ``name``.

    ``kind`` names the registry in words ("corpus format") for messages. Raises UnknownNameError, or
    MissingPackageError where what it needs is not installed.
    """
    if name not in registry:
        close = difflib.get_close_matches(name, registry, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownNameError(f"Unknown {kind} {name!r}; known: {', '.join(sorted(registry))}.{hint}")
    try:
        with uncollected():
            return pkgutil.resolve_name(registry[name])
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise MissingPackageError(
            f"The {kind} {name!r} needs the package {package!r}, which is not installed: "
            f"pip install {_DISTRIBUTIONS.get(package, package)}"
        ) from error


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, which takes a tenth to a quarter of a long import and finds little.

    What modules make stays, and every look goes through more of it.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
