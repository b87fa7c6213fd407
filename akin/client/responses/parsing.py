"""Conversion of a service's HTTP responses, and of failed connections, into answers and errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import NoneType
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from akin.client.requests import Request
from akin.client.responses.batches import Batch, BatchList
from akin.client.responses.matches import ComparedPapers, MatchAnswer, Profile, ProfileList
from akin.client.responses.papers import FetchedPapers, PaperAnswer, PaperList, PapersAccepted, TitlesAnswer
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.responses.saved import News, SavedQuery, SavedQueryList, SavedQuerySummary
from akin.client.responses.sentences import Analysis, SentenceAnswer
from akin.client.responses.vectors import Embedding, PaperVectorsAnswer
from akin.client.retries import is_number
from models.errors import InputError, ServiceError

_Answer = TypeVar("_Answer")
_ANSWERS = {
    answer: TypeAdapter(answer)
    for answer in (
        Analysis,
        Batch,
        BatchList,
        ComparedPapers,
        Embedding,
        FetchedPapers,
        MatchAnswer,
        PaperList,
        PapersAccepted,
        PaperAnswer,
        News,
        NoneType,
        PaperVectorsAnswer,
        Profile,
        ProfileList,
        RecommendationsAnswer,
        SavedQuery,
        SavedQuerySummary,
        SavedQueryList,
        SearchAnswer,
        SentenceAnswer,
        TitlesAnswer,
    )
}
_MAX_DETAIL = 1_000  # as long as the details of a service may be
_WITHOUT_BODY = frozenset({202, 204})  # the statuses of a service's answers that have none


def read_answer(kind: type[_Answer], content: bytes) -> _Answer:
    """Parse the JSON of an answer as a value of ``kind``; raises pydantic's ValidationError."""
    adapter: TypeAdapter[_Answer] = _ANSWERS[kind]  # type: ignore[index,assignment]  # by its type
    return adapter.validate_json(content)


def received(request: Request[_Answer], response: httpx.Response) -> _Answer:
    """Return the answer; raises ServiceError for a problem, or if the response is not one of Akin."""
    if not response.is_success:
        raise problem(response)
    if request.answer is NoneType and response.status_code in _WITHOUT_BODY:
        return None  # type: ignore[return-value]  # which is its type
    try:
        return read_answer(request.answer, response.content)
    except ValidationError as error:
        raise ServiceError(
            f"The response is not one of {request.path} of an Akin service; check the address, and the "
            "versions of client and service.",
            type="about:blank",
            status=response.status_code,
        ) from error


@contextmanager
def sending() -> Iterator[None]:
    """Raise InputError for an address that is too long, and if the client or its event loop is closed."""
    try:
        yield
    except httpx.InvalidURL as refused:
        raise InputError(f"A name, or a filter, is too long for an address ({refused}).") from refused
    except RuntimeError as refused:
        if "closed" not in str(refused):
            raise
        advice = (
            "Make another, and close it after its last use; each asyncio.run needs an AsyncClient of its own."
        )
        raise InputError(
            f"The client can send nothing more ({str(refused).rstrip('.')}). {advice}"
        ) from refused


def problem(response: httpx.Response) -> ServiceError:
    """Return a service's problem (RFC 9457) as an error, or the status of a proxy before the service."""
    problem: Any = {}
    if "json" in response.headers.get("content-type", ""):
        try:
            problem = response.json()
        except ValueError:
            problem = {}
    if not isinstance(problem, dict):
        problem = {}
    return ServiceError(
        str(problem.get("detail") or _without_detail(response))[:_MAX_DETAIL],
        type=str(problem.get("type", "about:blank")),
        status=response.status_code,
        request_id=response.headers.get("x-request-id"),
        retry_after_s=_retry_after_s(response.headers),
    )


def _without_detail(response: httpx.Response) -> str:
    """Return what a response says that is not a problem of an Akin service."""
    status = f"{response.status_code} {response.reason_phrase}"
    if response.has_redirect_location:
        place = response.headers["location"]
        advice = "if the service is there, give the client that address, up to /v1."
        return f"The answer is a redirect ({status}) to {place}; {advice}"
    return f"The answer is {status}, not one of an Akin service; check the address, and any proxy before it."


def _retry_after_s(headers: httpx.Headers) -> float | None:
    """Return the seconds to wait, sent as such or as a date (RFC 9110, 10.2.3); ``None`` if not sent."""
    given = headers.get("retry-after", "")
    if given.strip().isdecimal():
        return float(given)
    if (until := _date_in(given)) is None:
        return None
    sent_at = _date_in(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (until - sent_at).total_seconds())


def _date_in(header: str) -> datetime | None:
    try:
        return parsedate_to_datetime(header).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def unreachable(error: httpx.RequestError, url: httpx.URL, *, resumable: bool = False) -> ServiceError:
    """Return the error for a failed, broken or slow connection, or for a response that cannot be read.

    If what was requested is ``resumable``, a slow connection counts as a broken one: clients retry.
    """
    if not isinstance(error, httpx.TransportError):
        return ServiceError(
            f"The service at {url.copy_with(userinfo=None)} answered what cannot be read "
            f"({type(error).__name__}); check the address, and any proxy before the service.",
            type="about:blank",
            status=502,
        )
    slow = isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout)
    what = (
        "did not answer in time; request less or increase timeout_s"
        if slow
        else "cannot be reached; check the address, and that the service runs there"
    )
    why = f": {str(error)[:_MAX_DETAIL]}" if isinstance(error, httpx.ConnectError) and str(error) else ""
    return ServiceError(
        f"The service at {url.copy_with(userinfo=None)} {what} ({type(error).__name__}{why}).",
        type=f"urn:akin:problem:{'timeout' if slow else 'unreachable'}",
        status=504 if slow and not resumable else None,
    )


def options(url: Any, key: Any, timeout_s: Any) -> dict[str, Any]:
    """Return the keywords of an httpx client; raises InputError for an invalid address, key or time limit."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise InputError("Give the full address of the service, starting with http:// or https://.")
    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InputError(f"The address of the service cannot be used ({error}); check it.") from error
    if key is not None and not isinstance(key, str):
        raise InputError(f"key must be the text of an API key, or None, not {type(key).__name__}.")
    if timeout_s is not None and (not is_number(timeout_s) or not timeout_s > 0):
        raise InputError(f"timeout_s must be a number of seconds above 0, not {timeout_s!r}.")
    if key is not None and not (key.isascii() and key.isprintable() and key.split() == [key]):
        said = (
            "holds characters that no key has; copy it again, whole"
            if key
            else "is empty; give one, or none at all"
        )
        raise InputError(f"The API key {said}.")
    headers = {"Accept": "application/json", **({} if key is None else {"Authorization": f"Bearer {key}"})}
    return {"base_url": url, "headers": headers, "timeout": timeout_s}
