"""Akin: find scientific papers similar to one that you give, in the respect that you choose::

    import akin

    collection = akin.index("papers.jsonl", "my-papers")
    collection.search("10.1000/182", facet="method")

``index`` and ``open`` work in this process and need ``akin[local]``; ``Client`` and ``AsyncClient`` send
requests to a running service.
"""

from typing import TYPE_CHECKING, Any

from models.errors import AkinError, ServiceError

if TYPE_CHECKING:
    from akin.client.async_client import AsyncClient
    from akin.client.client import Client
    from akin.client.retries import Retries
    from akin.local.collection import Collection
    from akin.local.collection import open_collection as open  # noqa: A004 - akin.open
    from akin.local.indexing import index

__all__ = ["AkinError", "AsyncClient", "Client", "Collection", "Retries", "ServiceError", "index", "open"]


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__`` on first use, as torch takes seconds and a client may not have it.

    Raises MissingPackageError if a package that it needs is missing.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from models.extras import needed

    found: Any
    with needed(f"akin.{name}", extra="local"):
        match name:
            case "AsyncClient":
                from akin.client.async_client import AsyncClient as found
            case "Client":
                from akin.client.client import Client as found
            case "Retries":
                from akin.client.retries import Retries as found
            case "Collection":
                from akin.local.collection import Collection as found
            case "open":
                from akin.local.collection import open_collection as found
            case "index":
                from akin.local.indexing import index as found
    return found


def __dir__() -> list[str]:
    return __all__
