"""Akin: find scientific papers similar to one that you give, in the respect that you choose::

    import akin

    collection = akin.index("papers.jsonl", "my-papers")
    collection.search("10.1000/182", facet="method")

``index`` and ``open`` work in this process and need ``akin[local]``; ``Client`` and ``AsyncClient`` send
requests to a running service.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from akin.client.async_client import AsyncClient
    from akin.client.client import Client
    from akin.client.retries import Retries
    from akin.local.collection import Collection
    from akin.local.collection import open_collection as open  # noqa: A004 - akin.open
    from akin.local.indexing import index
    from models.errors import AkinError, ServiceError

__all__ = ["AkinError", "AsyncClient", "Client", "Collection", "Retries", "ServiceError", "index", "open"]
# The module of each name, imported on first use: torch takes seconds, and a client may not have it.
_HOMES: Final = {
    "AkinError": ("models.errors", "AkinError"),
    "AsyncClient": ("akin.client.async_client", "AsyncClient"),
    "Client": ("akin.client.client", "Client"),
    "Collection": ("akin.local.collection", "Collection"),
    "Retries": ("akin.client.retries", "Retries"),
    "ServiceError": ("models.errors", "ServiceError"),
    "index": ("akin.local.indexing", "index"),
    "open": ("akin.local.collection", "open_collection"),
}


def __getattr__(name: str) -> Any:
    """Return a name of ``__all__``; raises MissingPackageError if a package that it needs is missing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported here so that ``import akin`` needs no packages.
    from importlib import import_module  # noqa: PLC0415

    from models.extras import needed  # noqa: PLC0415

    module, named = _HOMES[name]
    with needed(f"akin.{name}", extra="local"):
        return getattr(import_module(module), named)


def __dir__() -> list[str]:
    return __all__
