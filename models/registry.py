"""Resolves names in registries, which are dicts of import paths: ``{"minilm": "package.module:Object"}``."""

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
    MissingPackageError if a package that the object needs is not installed.
    """
    if name not in registry:
        close = difflib.get_close_matches(name, registry, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownNameError(f"Unknown {kind} {name!r}; known: {', '.join(sorted(registry))}.{hint}")
    with without_gc(), needed(f"The {kind} {name!r}"):
        return pkgutil.resolve_name(registry[name])


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable the garbage collector, which takes a tenth to a quarter of a long import and frees little.

    The objects of imported modules stay alive, so every collection scans more of them.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
