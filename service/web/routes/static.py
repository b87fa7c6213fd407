"""``GET /static/...``: the style sheets and scripts of the pages."""

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.staticfiles import StaticFiles

from service.access.policy import PUBLIC, requires
from service.web import assets

router = APIRouter(include_in_schema=False)
_FILES: Final = StaticFiles(directory=assets.FOLDER)
_YEAR: Final = "public, max-age=31536000, immutable"


@router.get("/static/{version}/{name}")
@requires(PUBLIC)
async def static(request: Request, version: str, name: str) -> Response:
    """Send a file of the pages; at the address of another version, it may not be cached."""
    # A route and not a mount, because each route has its own access policy.
    answer = await _FILES.get_response(name, request.scope)
    answer.headers["Cache-Control"] = _YEAR if version == assets.version() else "no-store"
    return answer
