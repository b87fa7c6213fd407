"""The caller of a request, as a dependency of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.access.api_keys import Scope
from service.access.keys import Caller


async def _get_caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerDep = Annotated[Caller, Depends(_get_caller)]


def owner_of(caller: Caller) -> str:
    """Return the owner of a caller's batches and saved queries: the key's id, or empty without a key."""
    return "" if caller.key is None else caller.key.id


def seen_by(caller: Caller) -> str | None:
    """Return the owner whose batches and saved queries a caller sees; ``None`` for those of all owners."""
    return None if caller.key is not None and caller.key.scope is Scope.ADMIN else owner_of(caller)
