"""Registries are plain dicts of lazy names, ``{"minilm": "package.module:Object"}``; this resolves one."""

import difflib
import gc
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from models.errors import UnknownNameError
from models.extras import needed


def resolve(registry: Mapping[str, str], name: str, kind: str) -> Any:
    """Import and return the object that ``registry`` holds under ``name``.

    ``kind`` names the registry in words ("corpus format") for messages. Raises UnknownNameError, or
    MissingPackageError where what it needs is not installed.
    """
    if name not in registry:
        close = difflib.get_close_matches(name, registry, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownNameError(f"Unknown {kind} {name!r}; known: {', '.join(sorted(registry))}.{hint}")
    with uncollected(), needed(f"The {kind} {name!r}"):
        return pkgutil.resolve_name(registry[name])


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
