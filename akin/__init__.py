"""Akin: find scientific papers akin to one you give it, in the respect you choose."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from akin.client.async_client import AsyncClient
    from akin.client.client import Client, Retries
    from models.errors import ServiceError

__all__ = ["AsyncClient", "Client", "Retries", "ServiceError"]
_HOMES = {
    "AsyncClient": "akin.client.async_client",
    "Client": "akin.client.client",
    "Retries": "akin.client.client",
    "ServiceError": "models.errors",
}


def __getattr__(name: str) -> Any:
    """What a program needs to ask a service, loaded when first used: the commands do without it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Only here are the packages behind HTTP needed.
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_HOMES[name]), name)
