"""The parameters of an address, checked: FastAPI ignores those that a route does not have."""

from collections.abc import Mapping
from typing import Final

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import ParamTypes
from fastapi.routing import APIRoute

from models.errors import InputError
from service.api.middleware.routing import route_of
from service.api.schemas.base import did_you_mean

_CHECKED: Final = "/v1/"
_FEEDS: Final = "/v1/feeds/"  # read by programs that add parameters of their own


async def expect_known_parameters(request: Request) -> None:
    """Refuse a parameter that the API's route does not have, or that is given twice and is not a list.

    Raises InputError.
    """
    path = route_of(request.scope).name
    if not request.scope["query_string"] or not path.startswith(_CHECKED) or path.startswith(_FEEDS):
        return
    known = _parameters(request.scope["route"])
    seen = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            meant, has = did_you_mean(name, known), ", ".join(known) or "none"
            raise InputError(f"The address has an unknown parameter{meant} Its parameters are: {has}")
        if name in seen and not known[name]:
            raise InputError(f"The address has the parameter {name} twice; give it once")
        seen.add(name)


def _parameters(route: APIRoute) -> Mapping[str, bool]:
    """Return the names of a route's parameters in the address, and whether each is a list."""
    return {
        field.alias: str(field.field_info.annotation).startswith("list[")
        for field in get_flat_params(route.dependant)
        # The fields of a model of parameters have no ``in_``.
        if getattr(field.field_info, "in_", ParamTypes.query) is ParamTypes.query
    }
