"""Every error as ``application/problem+json`` (RFC 9457): one shape, one table of statuses."""

import re
from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from models.errors import (
    AkinError,
    BuildLockedError,
    EncoderError,
    InputError,
    MissingPackageError,
    PaperNotFoundError,
    SnapshotError,
    StorageError,
)
from service.schemas.operations import ProblemOut

# The most specific class that matches decides; a test walks the tree of errors and fails if one is unmapped.
STATUS: dict[type[AkinError], int] = {
    PaperNotFoundError: 404,
    InputError: 422,
    BuildLockedError: 409,
    StorageError: 503,
    SnapshotError: 503,
    EncoderError: 503,
    MissingPackageError: 503,
}
# What the OpenAPI document says of every endpoint's errors.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {"application/problem+json": {"schema": ProblemOut.model_json_schema()}},
    }
    for status, description in (
        (404, "No such paper or path"),
        (422, "The request cannot be carried out; detail says why"),
        (503, "Not ready; try again later"),
    )
}
_MAX_ERRORS = 10
_MAX_DETAIL = 1_000
_log = structlog.get_logger(__name__)


def status_of(error: type[AkinError]) -> int:
    """The HTTP status of an error class."""
    return next(STATUS[cls] for cls in error.__mro__ if cls in STATUS)


def problem(
    request: Request,
    *,
    status: int,
    slug: str,
    title: str,
    detail: str,
    errors: list[dict[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The response for one error; ``slug`` is the stable part of its type."""
    body = ProblemOut(
        type=f"urn:akin:problem:{slug}",
        title=title,
        status=status,
        detail=detail[:_MAX_DETAIL],
        request_id=request.state.request_id,
        errors=errors or [],
    )
    headers = {**identity(request), **(headers or {})}
    if status == 503:
        headers["Retry-After"] = "5"
    return Response(
        orjson.dumps(body.model_dump(exclude_defaults=True)),
        status_code=status,
        media_type="application/problem+json",
        headers=headers,
    )


def identity(request: Request) -> dict[str, str]:
    """The headers every response carries: the request's id and the generation that answered."""
    generation = request.app.state.engine.snapshot.generation
    return {"X-Request-ID": request.state.request_id, "X-Akin-Generation": generation}


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every failure of ``app`` with a problem."""
    app.add_exception_handler(AkinError, _akin_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


def _words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name.removesuffix("Error")).lower()


def _akin_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, AkinError):
        raise error
    words = _words(type(error).__name__)
    status = status_of(type(error))
    return problem(
        request, status=status, slug=words.replace(" ", "-"), title=words.capitalize(), detail=str(error)
    )


def _invalid_request(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    errors = [_one_error(each) for each in error.errors()[:_MAX_ERRORS]]
    where = "; ".join(f"{each['where']}: {each['problem']}" for each in errors[:3])
    detail = f"The request does not have the expected shape ({where}). See /docs for what is expected."
    return problem(
        request, status=422, slug="invalid-request", title="Invalid request", detail=detail, errors=errors
    )


def _one_error(each: dict[str, Any]) -> dict[str, str]:
    """Where and what, without the offending value; keys the client made up are part of the value."""
    if each["type"] == "extra_forbidden":
        return {
            "where": ".".join(map(str, each["loc"][:-1])),
            "problem": "holds a field that is not known here",
        }
    # Of a union's parts pydantic names the types, which mean nothing to a client.
    where = ".".join(str(part)[:40] for part in each["loc"] if str(part).replace("_", "").isalnum())
    return {"where": where, "problem": str(each["msg"])[:200]}


def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    title = {404: "No such resource", 405: "Method not allowed"}.get(error.status_code, "HTTP error")
    return problem(
        request,
        status=error.status_code,
        slug=f"http-{error.status_code}",
        title=title,
        detail=str(error.detail),
        headers=error.headers,
    )


def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("unexpected_error", path=request.url.path, error=type(error).__name__, exc_info=error)
    detail = "Something went wrong on our side. The request id finds it in the log."
    return problem(request, status=500, slug="internal", title="Internal error", detail=detail)
