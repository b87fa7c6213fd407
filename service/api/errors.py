"""Every error as ``application/problem+json`` (RFC 9457): one shape, one table of statuses."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from models.errors import (
    AkinError,
    AnswerFormatError,
    BatchNotFoundError,
    BatchUnfinishedError,
    BodyTooLargeError,
    BuildLockedError,
    CursorExpiredError,
    DeadlineError,
    EncoderError,
    IdempotencyError,
    InputError,
    InternalError,
    KeyRefusedError,
    MissingPackageError,
    PaperNotFoundError,
    ProfileNotFoundError,
    RateLimitedError,
    RefusedError,
    RouteClosedError,
    SavedQueryConflictError,
    SavedQueryNotFoundError,
    ScopeMissingError,
    ServiceError,
    SnapshotError,
    StorageError,
)
from service.access.policy import Dialect
from service.api.formats import wants_page
from service.api.middleware.routing import route_of
from service.api.public_details import public_detail
from service.api.schemas.operations import ProblemOut
from service.observability.logging import tracebacks_of
from service.validation import Fault, faults_of, sentence, where

# The most specific class that matches decides; a test walks the tree of errors and fails if one is unmapped.
STATUS: dict[type[AkinError], int] = {
    PaperNotFoundError: 404,
    BatchNotFoundError: 404,
    SavedQueryNotFoundError: 404,
    ProfileNotFoundError: 404,
    BatchUnfinishedError: 409,
    IdempotencyError: 409,
    SavedQueryConflictError: 409,
    InputError: 422,
    AnswerFormatError: 406,
    CursorExpiredError: 410,
    BuildLockedError: 409,
    StorageError: 503,
    SnapshotError: 503,
    EncoderError: 503,
    MissingPackageError: 503,
    RefusedError: 503,
    KeyRefusedError: 401,
    ScopeMissingError: 403,
    RouteClosedError: 403,
    BodyTooLargeError: 413,
    RateLimitedError: 429,
    DeadlineError: 504,
    ServiceError: 502,
    InternalError: 500,
}
# Headers that a client needs besides the problem.
HEADERS: dict[type[AkinError], dict[str, str]] = {
    KeyRefusedError: {"WWW-Authenticate": 'Bearer realm="akin"'},
    ScopeMissingError: {"WWW-Authenticate": 'Bearer realm="akin", error="insufficient_scope"'},
    BodyTooLargeError: {"Connection": "close"},  # the rest of the body is not read
}
_RETRY_AFTER_S = 5  # if an error of ours does not say when to try again
# The errors of every endpoint, for the OpenAPI document.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemOut"}}},
    }
    for status, description in (
        (400, "The body cannot be decoded, or the path contains a control character"),
        (401, "A key is required, and none or an invalid one was given"),
        (403, "The key does not have the required scope"),
        (404, "No such paper, batch, saved query or path"),
        (405, "The path does not accept this method; see the Allow header"),
        (408, "The body did not arrive in time"),
        (413, "The body is too large"),
        (415, "The body is compressed"),
        (422, "The request cannot be carried out; detail says why"),
        (429, "Too many requests; Retry-After says when to try again"),
        (503, "Not ready, or too busy; Retry-After says when to try again"),
        (504, "The request exceeded the time limit of the service"),
    )
}
# Semantic Scholar's clients expect other statuses (403 for a key, 429 for "wait and try again")
# and read the error from these members, which RFC 9457 allows as extensions.
_SCHOLAR_STATUS = {401: 403, 422: 400, 503: 429}
_SCHOLAR_MEMBERS = ("error", "message")
SCHOLAR_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {**RESPONSES[422], "description": "The request cannot be carried out; detail and error say why"}
}
_HTTP_WORDS = {
    404: ("No such page", "There is nothing at this address; check its spelling, or see /docs."),
    405: ("Method not allowed", "The path does not accept this method; see the Allow header."),
}
_TYPE = "urn:akin:problem:"
_MAX_ERRORS = 10
_MAX_READ = 100  # errors; those of one place are merged into one
_NEXT_WORD = re.compile(r"(?<!^)(?=[A-Z])")  # of a class's name
_MAX_DETAIL = 1_000
_MAX_PROBLEM = 300
_log = structlog.get_logger(__name__)


class ProblemPages(NamedTuple):
    """How pages show errors: ``words`` writes what went wrong, ``render`` the whole page."""

    words: Callable[[AkinError], str]
    render: Callable[[ProblemOut, Mapping[str, str]], Response]


def status_of(error: type[AkinError]) -> int:
    """Return the HTTP status of an error class."""
    return next(STATUS[cls] for cls in error.__mro__ if cls in STATUS)


def slug_of(error: AkinError) -> str:
    """Return the slug of an error: the stable part of the ``type`` of its problem."""
    return _words(type(error).__name__).replace(" ", "-")


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
    """Return the response for one error; ``slug`` is the stable part of its type."""
    request.state.problem = slug
    dialect = _dialect(request)
    headers = dict(headers or {})
    if status == 503:
        headers.setdefault("Retry-After", str(_RETRY_AFTER_S))
    if dialect is Dialect.SCHOLAR:
        status = _SCHOLAR_STATUS.get(status, status)
    body = ProblemOut(
        type=f"{_TYPE}{slug}",
        title=title,
        status=status,
        detail=detail[:_MAX_DETAIL],
        request_id=request.state.request_id,
        errors=errors or [],
    )
    if _declared_dialect(request) is Dialect.EITHER:
        headers.setdefault("Vary", "Accept")
    if dialect is Dialect.PAGE:
        return _pages(request).render(body, headers)
    members = body.model_dump(exclude_defaults=True)
    members |= dict.fromkeys(_SCHOLAR_MEMBERS if dialect is Dialect.SCHOLAR else (), body.detail)
    return Response(
        orjson.dumps(members),
        status_code=status,
        media_type="application/problem+json",
        headers=headers,
    )


def problem_of(request: Request, error: Exception) -> Response:
    """Return the response for an expected error: one of ours, or of HTTP."""
    return _akin_error(request, error) if isinstance(error, AkinError) else _http_error(request, error)


def problem_of_ours(request: Request, error: Exception) -> Response:
    """Return the response for an unexpected error, and log where it was raised."""
    _log_raised(error)
    detail = "Something went wrong on our side. The log has the details under the request id."
    return problem(request, status=500, slug="internal", title="Internal error", detail=detail)


def add_problem_handlers(app: FastAPI, pages: ProblemPages) -> None:
    """Answer every expected error of ``app`` with a problem or, on a page, as ``pages`` does."""
    app.state.problem_pages = pages
    app.add_exception_handler(AkinError, _akin_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)


def described(error: AkinError) -> dict[str, str | int]:
    """Return the members of a problem that do not depend on the request."""
    words = _words(type(error).__name__)
    return {
        "type": f"{_TYPE}{slug_of(error)}",
        "title": words.capitalize(),
        "status": status_of(type(error)),
        "detail": public_detail(error)[:_MAX_DETAIL],
    }


def _words(name: str) -> str:
    return _NEXT_WORD.sub(" ", name.removesuffix("Error")).lower()


def _akin_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, AkinError):
        raise error
    status, words = status_of(type(error)), _words(type(error).__name__)
    # These messages name files and servers, never what was sent. No traceback: every request may fail so.
    if isinstance(error, StorageError | SnapshotError):
        _log.warning(slug_of(error), error=str(error))
    elif status >= 500 and not isinstance(error, RefusedError):
        _log_raised(error)
    headers = dict(HEADERS.get(type(error), {}))
    if isinstance(error, RefusedError) and error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return problem(
        request,
        status=status,
        slug=slug_of(error),
        title=words.capitalize(),
        detail=_pages(request).words(error) if _dialect(request) is Dialect.PAGE else public_detail(error),
        headers=headers,
    )


def _invalid_request(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    found = error.errors()[:_MAX_READ]
    alone = _body_alone(found[0])
    faults = faults_of(found)[:_MAX_ERRORS] if alone is None else [alone]
    errors = [{"where": where(each.loc), "problem": _problem(each)[:_MAX_PROBLEM]} for each in faults]
    # Without the leading ``body`` or ``query``: fields are named as the client wrote them.
    said = "; ".join(sentence(where(each.loc[1:]), _problem(each)) for each in faults[:3])
    detail = f"The request cannot be used: {said[:_MAX_DETAIL]}. See /docs for the parameters it accepts."
    return problem(
        request, status=422, slug="invalid-request", title="Invalid request", detail=detail, errors=errors
    )


def _problem(fault: Fault) -> str:
    """Return what is wrong, without "not a string" for parameters of the address, which are all strings."""
    return fault.said.removesuffix(", not a string") if fault.loc[0] == "query" else fault.said


def _body_alone(error: dict[str, Any]) -> Fault | None:
    """Return the fault of a body that is not an object, ``None`` for faults in one, whatever its keys."""
    if where(error["loc"]) != "body" or (error["type"] != "missing" and isinstance(error["input"], dict)):
        return None
    return Fault(("body",), "must be a JSON object, sent with Content-Type: application/json")


def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = (
        {"Allow": ", ".join(route_of(request.scope).allow)} if error.status_code == 405 else error.headers
    )
    title, detail = _HTTP_WORDS.get(error.status_code, ("HTTP error", ""))
    return problem(
        request,
        status=error.status_code,
        slug=f"http-{error.status_code}",
        title=title,
        detail=detail or str(error.detail),
        headers=headers,
    )


def _pages(request: Request) -> ProblemPages:
    pages: ProblemPages = request.app.state.problem_pages
    return pages


def _dialect(request: Request) -> Dialect:
    dialect = _declared_dialect(request)
    if dialect is not Dialect.EITHER:
        return dialect
    return Dialect.PAGE if wants_page(",".join(request.headers.getlist("Accept"))) else Dialect.PROBLEM


def _declared_dialect(request: Request) -> Dialect:
    policy = route_of(request.scope).policy
    return Dialect.PROBLEM if policy is None else policy.dialect


def _log_raised(error: Exception) -> None:
    # Formatted here: a logger that is not configured would add local variables, including keys.
    _log.error("unexpected_error", error=type(error).__name__, exception=tracebacks_of(error))
