"""The requests that a client sends, and what it makes of the responses."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import NoneType
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import TypeAdapter, ValidationError

from akin.answers import (
    Analysis,
    FetchedPapers,
    PaperAnswer,
    PaperList,
    PapersAccepted,
    RecommendationsAnswer,
    SearchAnswer,
    SentenceAnswer,
)
from akin.batch_answers import Batch, Problem, SeedAnswer
from akin.match_answers import ComparedPapers
from akin.queries import BatchRequest, NewPaper, RecommendationsRequest, SearchRequest, Seed, SentenceRequest
from models.errors import InputError, ServiceError

_Answer = TypeVar("_Answer")
_ANSWERS = {
    answer: TypeAdapter(answer)
    for answer in (
        Analysis,
        Batch,
        ComparedPapers,
        FetchedPapers,
        PaperList,
        PapersAccepted,
        PaperAnswer,
        RecommendationsAnswer,
        SearchAnswer,
        SentenceAnswer,
    )
}
_PAPER_KEYS = ("paper_id", "title", "abstract", "text")
_SENTENCE_KEYS = ("text", "paper_id", "sentence")
_MAX_DETAIL = 300


@dataclass(frozen=True, slots=True)
class Call(Generic[_Answer]):
    """One request and what its answer is; ``repeatable``: no harm is done where it is carried out twice."""

    method: str
    path: str
    answer: type[_Answer]
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True


def _with_query(asked: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The body of a search: what names the query apart from the rest."""
    query = {key: asked[key] for key in keys if key in asked}
    return {"query": query, **{key: value for key, value in asked.items() if key not in keys}}


def search(asked: SearchRequest) -> Call[SearchAnswer]:
    """Papers akin to one."""
    return Call("POST", "/v1/search", SearchAnswer, _with_query(asked, _PAPER_KEYS))


def recommendations(asked: RecommendationsRequest) -> Call[RecommendationsAnswer]:
    """Papers akin to many."""
    return Call("POST", "/v1/recommendations", RecommendationsAnswer, dict(asked))


def sentences(asked: SentenceRequest) -> Call[SentenceAnswer]:
    """Sentences akin to one."""
    return Call("POST", "/v1/sentences/search", SentenceAnswer, _with_query(asked, _SENTENCE_KEYS))


def compare(a: str | Seed, b: str | Seed) -> Call[ComparedPapers]:
    """Two papers side by side."""
    asked = {
        key: {"paper_id": side} if isinstance(side, str) else dict(side) for key, side in (("a", a), ("b", b))
    }
    return Call("POST", "/v1/compare", ComparedPapers, asked)


def analyze(title: str, abstract: str | list[str]) -> Call[Analysis]:
    """The sentences of a text."""
    return Call("POST", "/v1/analyze", Analysis, {"title": title, "abstract": abstract})


def paper(paper_id: str) -> Call[PaperAnswer]:
    """One paper."""
    return Call("GET", f"/v1/papers/{quote(paper_id, safe='')}", PaperAnswer)


def papers(names: Sequence[str]) -> Call[FetchedPapers]:
    """Several papers by their names."""
    return Call("POST", "/v1/papers/fetch", FetchedPapers, {"ids": list(names)})


def list_papers(limit: int, cursor: str | None) -> Call[PaperList]:
    """A page of all papers."""
    place = {"limit": limit} if cursor is None else {"limit": limit, "cursor": cursor}
    return Call("GET", f"/v1/papers?{urlencode(place)}", PaperList)


def add_papers(papers: Sequence[NewPaper], *, wait: bool) -> Call[PapersAccepted]:
    """Papers to add or replace; ``wait``: until they show."""
    path = "/v1/papers?wait=true" if wait else "/v1/papers"
    return Call("POST", path, PapersAccepted, {"papers": [dict(paper) for paper in papers]})


def delete_paper(paper_id: str) -> Call[None]:
    """A paper to delete."""
    return Call("DELETE", f"/v1/papers/{quote(paper_id, safe='')}", NoneType)


def batch(asked: BatchRequest, idempotency_key: str | None) -> Call[Batch]:
    """Its key is made up where none is given, so that no retry starts a second one."""
    body: dict[str, Any] = dict(asked)
    if "queries" in asked:
        body["queries"] = [_with_query(query, _PAPER_KEYS) for query in asked["queries"]]
    key = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    return Call("POST", "/v1/batches", Batch, body, key)


def batch_progress(batch_id: str) -> Call[Batch]:
    """How far a batch is."""
    return Call("GET", _batch_path(batch_id), Batch)


def cancel_batch(batch_id: str) -> Call[None]:
    """The end of a batch."""
    # Sent again after a lost answer, it would be told that there is no such batch.
    return Call("DELETE", _batch_path(batch_id), NoneType, repeatable=False)


def _batch_path(batch_id: str) -> str:
    return f"/v1/batches/{quote(batch_id, safe='')}"


class Reading:
    """Where a client is in the results of a batch: ``start`` is the number of the next."""

    def __init__(self, batch_id: str, start: int) -> None:
        self._path = f"{_batch_path(batch_id)}/results"
        self.start = start
        self.attempt = 0
        self.finished = False
        self._rest = b""

    def request(self) -> dict[str, Any]:
        """What to ask for next, as keywords of httpx."""
        self.attempt += 1
        self._rest = b""
        return {
            "method": "GET",
            "url": self._path,
            "params": {"start": self.start},
            "headers": {"Accept": "application/x-ndjson"},
        }

    def answers(self, content: bytes) -> list[SeedAnswer]:
        """Those whose last byte has come."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        self.start += len(lines)
        self.attempt = 0 if lines else self.attempt
        return [_seed_answer(line) for line in lines]

    def end(self, response: httpx.Response) -> None:
        """Notes whether that was all."""
        self.attempt = 0
        self.finished = response.headers.get("x-akin-batch-state") not in {"queued", "running"}


def _seed_answer(line: bytes) -> SeedAnswer:
    try:
        answer = json.loads(line)
        seed, paper_id = answer.pop("seed"), answer.pop("paper_id")
        if "problem" in answer:
            return SeedAnswer(seed, paper_id, None, Problem(**answer["problem"]))
        adapter: TypeAdapter[SearchAnswer] = _ANSWERS[SearchAnswer]  # type: ignore[assignment]  # by its type
        return SeedAnswer(seed, paper_id, adapter.validate_python(answer), None)
    except (ValueError, KeyError, TypeError) as error:
        raise ServiceError(
            "A result is not what a service of Akin answers; look at the versions of both.",
            type="about:blank",
            status=None,
        ) from error


def received(call: Call[_Answer], response: httpx.Response) -> _Answer:
    """The answer; raises ServiceError for a problem and for what no service of Akin would answer."""
    if not response.is_success:
        raise problem(response)
    if call.answer is NoneType:
        return None  # type: ignore[return-value]  # which is its type
    try:
        adapter: TypeAdapter[_Answer] = _ANSWERS[call.answer]  # type: ignore[index,assignment]  # by its type
        return adapter.validate_json(response.content)
    except ValidationError as error:
        raise ServiceError(
            f"The answer is not what {call.path} of a service of Akin answers; look at the address and at "
            "the versions of both.",
            type="about:blank",
            status=response.status_code,
        ) from error


def problem(response: httpx.Response) -> ServiceError:
    """The problem a service answered (RFC 9457), or the bare status of whatever stands before it."""
    problem: Any = {}
    if "json" in response.headers.get("content-type", ""):
        try:
            problem = response.json()
        except ValueError:
            problem = {}
    if not isinstance(problem, dict):
        problem = {}
    return ServiceError(
        str(problem.get("detail") or response.reason_phrase)[:_MAX_DETAIL],
        type=str(problem.get("type", "about:blank")),
        status=response.status_code,
        request_id=response.headers.get("x-request-id"),
        retry_after_s=_retry_after_s(response.headers.get("retry-after")),
    )


def _retry_after_s(given: str | None) -> float | None:
    """Seconds, given as such or as a date (RFC 9110, 10.2.3); ``None`` for anything else."""
    if given is None:
        return None
    if given.strip().isdecimal():
        return float(given)
    try:
        until = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (until.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def unreachable(error: httpx.TransportError, url: httpx.URL) -> ServiceError:
    """A connection that was not made, broke, or took too long."""
    slow = isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout)
    what = "did not answer in time; ask for less or allow a longer timeout_s" if slow else "cannot be reached"
    return ServiceError(
        f"The service at {url.copy_with(userinfo=None)} {what} ({type(error).__name__}).",
        type=f"urn:akin:problem:{'timeout' if slow else 'unreachable'}",
        status=504 if slow else None,
    )


def options(url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    """What a client of httpx is made with; raises InputError for an address without its scheme."""
    if not url.startswith(("http://", "https://")):
        raise InputError("The address of a service starts with http:// or https://; give it in full.")
    headers = {"Accept": "application/json", **({} if key is None else {"Authorization": f"Bearer {key}"})}
    return {"base_url": url, "headers": headers, "timeout": timeout_s}
