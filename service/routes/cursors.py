"""The maker of cursors as a dependency of endpoints."""

from typing import Annotated, Any

from fastapi import Depends, Request

from service.cursors import Cursors
from service.problems import RESPONSES

# What the OpenAPI document says beside the usual of an endpoint that takes cursors.
CURSOR_RESPONSES: dict[int | str, dict[str, Any]] = {
    410: {
        **RESPONSES[422],
        "description": "The cursor's generation is no longer served; start again without it",
    }
}


def get_cursors(request: Request) -> Cursors:
    """The cursors of the application."""
    cursors: Cursors = request.app.state.cursors
    return cursors


CursorsDep = Annotated[Cursors, Depends(get_cursors)]
