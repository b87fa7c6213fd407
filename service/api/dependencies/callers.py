"""The caller of a request, as a dependency of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.access.api_keys import Scope
from service.access.keys import Caller


def _get_caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerDep = Annotated[Caller, Depends(_get_caller)]


def owner_of(caller: Caller) -> str:
    """Whose a batch or a saved query is; without keys all of this machine are one."""
    return "" if caller.key is None else caller.key.id


def seen_by(caller: Caller) -> str | None:
    """Whose batches and saved queries a caller sees; ``None``: everybody's."""
    return None if caller.key is not None and caller.key.scope is Scope.ADMIN else owner_of(caller)
