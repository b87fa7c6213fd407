"""``GET /docs``: the HTTP interface in Swagger UI, with all files from this service's own origin."""

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.staticfiles import StaticFiles

from service.access.policy import PUBLIC, requires
from service.web.render import render

router = APIRouter(include_in_schema=False)

# The files come from a package, because FastAPI's own page loads them from third-party servers.
_SWAGGER: Final = StaticFiles(packages=[("fastapi_offline", "static")])


@router.get("/openapi.json")
@requires(PUBLIC)
def document(request: Request) -> Response:
    """Send the OpenAPI document, with the root path that the service has behind its proxy."""
    written: bytes = request.app.written(request.scope.get("root_path", "").rstrip("/"))
    return Response(written, media_type="application/json")


@router.get("/docs")
@requires(PUBLIC)
def page() -> Response:
    """Show the requests that the service answers, with forms to try them."""
    return render("docs.html")


@router.get("/docs/{name}")
@requires(PUBLIC)
async def swagger(request: Request, name: str) -> Response:
    """Send a file of Swagger UI."""
    answer = await _SWAGGER.get_response(name, request.scope)
    answer.headers["Cache-Control"] = "public, max-age=86400"
    return answer
