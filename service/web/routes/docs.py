"""``GET /docs``: the interface described by Swagger UI, from this service's own origin alone."""

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.staticfiles import StaticFiles

from service.access.policy import PUBLIC, requires
from service.web.render import render

router = APIRouter(include_in_schema=False)

# They are in a package, for its own way of loading them is from other people's servers.
_SWAGGER: Final = StaticFiles(packages=[("fastapi_offline", "static")])


@router.get("/openapi.json")
@requires(PUBLIC)
def document(request: Request) -> Response:
    """The OpenAPI document, for the root path that the service has behind its proxy."""
    written: bytes = request.app.written(request.scope.get("root_path", "").rstrip("/"))
    return Response(written, media_type="application/json")


@router.get("/docs")
@requires(PUBLIC)
def page() -> Response:
    """What can be asked of the service, and a place to try it."""
    return render("docs.html")


@router.get("/docs/{name}")
@requires(PUBLIC)
async def swagger(request: Request, name: str) -> Response:
    """The files of Swagger UI."""
    answer = await _SWAGGER.get_response(name, request.scope)
    answer.headers["Cache-Control"] = "public, max-age=86400"
    return answer
