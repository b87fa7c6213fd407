"""Akin: find scientific papers akin to one you give it, in the respect you choose::

    import akin

    collection = akin.index("papers.jsonl", "my-papers")
    collection.search("10.1000/182", facet="method")

``index`` and ``open`` work in this process and need ``akin[local]``; ``Client`` and ``AsyncClient`` ask a
running service.
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
# Where each is: loaded when it is first used, as torch takes seconds and a client has none.
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
    """One of ``__all__``; raises MissingPackageError where what it needs is not installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Only here are the packages behind them needed.
    from importlib import import_module  # noqa: PLC0415

    from models.extras import needed  # noqa: PLC0415

    module, named = _HOMES[name]
    with needed(f"akin.{name}", extra="local"):
        return getattr(import_module(module), named)


def __dir__() -> list[str]:
    return __all__
