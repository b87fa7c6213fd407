"""``GET /docs``: the interface described by Swagger UI, from this service's own origin alone."""

from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from service.access.policy import PUBLIC, requires

router = APIRouter(include_in_schema=False)

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Akin: the interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
"""
# Without validatorUrl a document that others can reach is sent to a validator of Swagger's.
_START: Final = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
});
"""
_POLICY: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
}
_KEPT: Final = {"Cache-Control": "public, max-age=86400"}
# Swagger UI's files are in a package, for its own way of loading them is from other people's servers.
_SWAGGER: Final = files("fastapi_offline") / "static"


@router.get("/openapi.json")
@requires(PUBLIC)
def document(request: Request) -> JSONResponse:
    """The OpenAPI document, for the root path that the service has behind its proxy."""
    document: dict[str, Any] = request.app.openapi()
    root_path = request.scope.get("root_path", "").rstrip("/")
    return JSONResponse(document | {"servers": [{"url": root_path}]} if root_path else document)


@router.get("/docs")
@requires(PUBLIC)
def page() -> HTMLResponse:
    """What can be asked of the service, and a place to try it."""
    return HTMLResponse(_PAGE, headers=_POLICY)


@router.get("/docs/start.js")
@requires(PUBLIC)
def start() -> Response:
    """What shows the document on the page."""
    return Response(_START, media_type="text/javascript", headers=_KEPT)


@router.get("/docs/swagger-ui.css")
@requires(PUBLIC)
def style() -> Response:
    """Swagger UI's style."""
    return Response((_SWAGGER / "swagger-ui.css").read_bytes(), media_type="text/css", headers=_KEPT)


@router.get("/docs/swagger-ui-bundle.js")
@requires(PUBLIC)
def script() -> Response:
    """Swagger UI itself."""
    return Response(
        (_SWAGGER / "swagger-ui-bundle.js").read_bytes(), media_type="text/javascript", headers=_KEPT
    )
