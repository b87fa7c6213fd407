"""Registries are plain dicts of lazy names, ``{"minilm": "package.module:Object"}``; this resolves one."""

import difflib
import pkgutil
from collections.abc import Mapping
from typing import Any

from models.errors import UnknownNameError


def resolve(registry: Mapping[str, str], name: str, kind: str) -> Any:
    """Import and return the object that ``registry`` holds under ``name``.

    ``kind`` names the registry in words ("corpus format") for the message of UnknownNameError.
    """
    if name not in registry:
        close = difflib.get_close_matches(name, registry, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownNameError(f"Unknown {kind} {name!r}; known: {', '.join(sorted(registry))}.{hint}")
    return pkgutil.resolve_name(registry[name])
