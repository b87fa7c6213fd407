"""The requests that a client sends, and where it is in the results of a batch."""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import TypeAdapter

from akin.client.adding import Papers, papers_to_add
from akin.client.answers.batches import Batch, BatchResult, Problem
from akin.client.answers.matches import ComparedPapers, MatchAnswer, MatchedSubmission, Profile, ProfileList
from akin.client.answers.papers import FetchedPapers, PaperAnswer, PaperList, PapersAccepted, TitlesAnswer
from akin.client.answers.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.answers.saved import News, SavedQuery, SavedQueryHead, SavedQueryList
from akin.client.answers.sentences import Analysis, SentenceAnswer
from akin.client.answers.vectors import Embedding, PaperVectorsAnswer
from akin.client.queries import (
    BatchMatch,
    BatchRequest,
    Draft,
    ListRequest,
    MatchRequest,
    RecommendationsRequest,
    SearchRequest,
    Seed,
    SentenceRequest,
)
from models.errors import InputError, ServiceError

_Answer = TypeVar("_Answer")
_SEARCH_ANSWER = TypeAdapter(SearchAnswer)
_RECOMMENDATIONS = TypeAdapter(RecommendationsAnswer)
_MATCHED = TypeAdapter(MatchedSubmission)
_PAPER_KEYS = ("paper_id", "title", "abstract", "text")
_SENTENCE_KEYS = ("text", "paper_id", "sentence")


@dataclass(frozen=True, slots=True)
class Call(Generic[_Answer]):
    """One request and what its answer is; ``repeatable``: no harm is done where it is carried out twice."""

    method: str
    path: str
    answer: type[_Answer]
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True


def given(**keywords: Any) -> dict[str, Any]:
    """Those keywords that are given: all but ``None``."""
    return {name: value for name, value in keywords.items() if value is not None}


def _with_query(asked: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The body of a search: what names the query apart from the rest."""
    query = {key: asked[key] for key in keys if key in asked}
    return {"query": query, **{key: value for key, value in asked.items() if key not in keys}}


def search(asked: SearchRequest) -> Call[SearchAnswer]:
    """Papers akin to one."""
    return Call("POST", "/v1/search", SearchAnswer, _with_query(asked, _PAPER_KEYS))


def recommend(asked: RecommendationsRequest) -> Call[RecommendationsAnswer]:
    """Papers akin to many."""
    return Call("POST", "/v1/recommendations", RecommendationsAnswer, dict(asked))


def search_sentences(asked: SentenceRequest) -> Call[SentenceAnswer]:
    """Sentences akin to one."""
    return Call("POST", "/v1/sentences/search", SentenceAnswer, _with_query(asked, _SENTENCE_KEYS))


def compare(a: str | Seed, b: str | Seed) -> Call[ComparedPapers]:
    """Two papers side by side."""
    return Call("POST", "/v1/compare", ComparedPapers, {"a": _query(a), "b": _query(b)})


def match(
    submissions: Sequence[str | Seed], profiles: Mapping[str, Sequence[str] | None], asked: MatchRequest
) -> Call[MatchAnswer]:
    """Profiles near to submissions."""
    body = _match_body(submissions, profiles, asked)
    quotas = body.pop("quotas", {})
    if unknown := set(quotas) - set(profiles):
        raise InputError(f"Quotas name {len(unknown)} profiles that are none of those given; drop them.")
    for profile in body["profiles"]:
        if profile["name"] in quotas:
            profile["quota"] = quotas[profile["name"]]
    return Call("POST", "/v1/match", MatchAnswer, body)


def _match_body(
    submissions: Sequence[str | Seed],
    profiles: Mapping[str, Sequence[str] | None],
    asked: MatchRequest | BatchMatch,
) -> dict[str, Any]:
    return {
        **asked,
        "submissions": [_query(each) for each in submissions],
        "profiles": _profiles(profiles),
        "conflicts": [{"submission": row, "profile": name} for row, name in asked.get("conflicts", ())],
    }


def put_profile(
    name: str, papers: Sequence[str], conflicts: Sequence[str], quota: int | None
) -> Call[Profile]:
    """A profile to keep."""
    body = {"papers": list(papers), "conflicts": list(conflicts), "quota": quota}
    return Call("PUT", f"/v1/profiles/{quote(name, safe='')}", Profile, body)


def profiles(after: str) -> Call[ProfileList]:
    """A page of the names of profiles."""
    return Call("GET", f"/v1/profiles?{urlencode({'after': after})}", ProfileList)


def delete_profile(name: str) -> Call[None]:
    """A profile to forget."""
    return Call("DELETE", f"/v1/profiles/{quote(name, safe='')}", NoneType)


def embed(papers: Sequence[Draft]) -> Call[Embedding]:
    """The vectors of drafts."""
    body = {"papers": [dict(paper) for paper in papers], "encoding": "base64"}
    return Call("POST", "/v1/embed", Embedding, body)


def vectors(name: str) -> Call[PaperVectorsAnswer]:
    """The vectors of one paper."""
    return Call("GET", f"/v1/papers/{quote(name, safe='')}/vectors?encoding=base64", PaperVectorsAnswer)


def _profiles(given: Mapping[str, Sequence[str] | None]) -> list[dict[str, Any]]:
    return [
        {"name": name} if papers is None else {"name": name, "papers": list(papers)}
        for name, papers in given.items()
    ]


def _query(given: str | Seed) -> dict[str, Any]:
    return {"paper_id": given} if isinstance(given, str) else dict(given)


def analyze(title: str, abstract: str | list[str]) -> Call[Analysis]:
    """The sentences of a text."""
    return Call("POST", "/v1/analyze", Analysis, {"title": title, "abstract": abstract})


def paper(paper_id: str) -> Call[PaperAnswer]:
    """One paper."""
    return Call("GET", f"/v1/papers/{quote(paper_id, safe='')}", PaperAnswer)


def papers(names: Sequence[str]) -> Call[FetchedPapers]:
    """Several papers by their names."""
    return Call("POST", "/v1/papers/fetch", FetchedPapers, {"ids": list(names)})


def list_papers(asked: ListRequest) -> Call[PaperList]:
    """A page of the papers that pass filters."""
    return Call("GET", f"/v1/papers?{urlencode(asked, doseq=True)}", PaperList)


def find_papers(title: str, limit: int) -> Call[TitlesAnswer]:
    """Papers by a title."""
    return Call("GET", f"/v1/papers?{urlencode({'title': title, 'limit': limit})}", TitlesAnswer)


def add(papers: Papers, *, wait: bool) -> Call[PapersAccepted]:
    """Papers to add or replace, or files of them; ``wait``: until they show."""
    path = "/v1/papers?wait=true" if wait else "/v1/papers"
    return Call("POST", path, PapersAccepted, {"papers": papers_to_add(papers)})


def ids_of(given: str | Sequence[str]) -> list[str]:
    """The ids of one paper or several; raises InputError for what is none."""
    ids: list[Any] = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(each, str) for each in ids):
        raise InputError("Papers are deleted by their ids, which are texts; give one, or a list of them.")
    return ids


def delete(paper_id: str) -> Call[None]:
    """A paper to delete."""
    return Call("DELETE", f"/v1/papers/{quote(paper_id, safe='')}", NoneType)


def save_query(
    name: str, search: SearchRequest | None, recommendations: RecommendationsRequest | None
) -> Call[SavedQuery]:
    """A query to keep under a name."""
    body: dict[str, Any] = {"name": name}
    if search is not None:
        body["search"] = _with_query(search, _PAPER_KEYS)
    if recommendations is not None:
        body["recommendations"] = dict(recommendations)
    return Call("POST", "/v1/queries", SavedQuery, body)


def saved_queries() -> Call[SavedQueryList]:
    """All saved queries of a key."""
    return Call("GET", "/v1/queries", SavedQueryList)


def saved_query(query_id: str) -> Call[SavedQuery]:
    """One saved query."""
    return Call("GET", _query_path(query_id), SavedQuery)


def delete_query(query_id: str) -> Call[None]:
    """A saved query to forget."""
    return Call("DELETE", _query_path(query_id), NoneType)


def new_papers(query_id: str, limit: int | None, *, weak: bool) -> Call[News]:
    """What is new to a saved query."""
    wanted = {"weak": "true"} if weak else {}
    asked = urlencode(wanted if limit is None else {**wanted, "limit": limit})
    return Call("GET", f"{_query_path(query_id)}/new{'?' if asked else ''}{asked}", News)


def mark_seen(query_id: str, up_to: int) -> Call[SavedQueryHead]:
    """How far the news of a saved query were read."""
    return Call("POST", f"{_query_path(query_id)}/seen", SavedQueryHead, {"up_to": up_to})


def open_feed(query_id: str) -> Call[SavedQueryHead]:
    """A feed of a saved query."""
    return Call("POST", f"{_query_path(query_id)}/feed", SavedQueryHead)


def close_feed(query_id: str) -> Call[None]:
    """The end of a feed."""
    return Call("DELETE", f"{_query_path(query_id)}/feed", NoneType)


def feed_address(base_url: httpx.URL, saved: SavedQueryHead) -> str:
    """Where the feed of a saved query is read, in full."""
    return str(base_url.join(saved.feed or ""))


def _query_path(query_id: str) -> str:
    return f"/v1/queries/{quote(query_id, safe='')}"


def batch(asked: BatchRequest, idempotency_key: str | None) -> Call[Batch]:
    """Its key is made up where none is given, so that no retry starts a second one."""
    body: dict[str, Any] = dict(asked)
    if "queries" in asked:
        body["queries"] = [_with_query(query, _PAPER_KEYS) for query in asked["queries"]]
    if "profiles" in asked:
        body["profiles"] = _profiles(asked["profiles"])
    if "match" in asked:
        match = asked["match"]
        body["match"] = _match_body(match["submissions"], match["profiles"], match)
    key = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    return Call("POST", "/v1/batches", Batch, body, key)


def get_batch(batch_id: str) -> Call[Batch]:
    """How far a batch is."""
    return Call("GET", _batch_path(batch_id), Batch)


def cancel_batch(batch_id: str) -> Call[None]:
    """The end of a batch."""
    # Sent again after a lost answer, it would be told that there is no such batch.
    return Call("DELETE", _batch_path(batch_id), NoneType, repeatable=False)


def _batch_path(batch_id: str) -> str:
    return f"/v1/batches/{quote(batch_id, safe='')}"


class ResultsReader:
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

    def answers(self, content: bytes) -> list[BatchResult]:
        """Those whose last byte has come."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        answers = [_batch_result(line) for line in lines]  # first: what cannot be read has not been read
        self.start += len(answers)
        self.attempt = 0 if answers else self.attempt
        return answers

    def end(self, response: httpx.Response) -> None:
        """Notes whether that was all."""
        self.attempt = 0
        self.finished = response.headers.get("x-akin-batch-state") not in {"queued", "running"}


def _batch_result(line: bytes) -> BatchResult:
    try:
        answer = json.loads(line)
        seed, paper_id = answer.pop("seed"), answer.pop("paper_id")
        name = answer.pop("name", None)
        if "problem" in answer:
            return BatchResult(seed, paper_id, None, Problem(**answer["problem"]), name)
        if "match" in answer:
            return BatchResult(seed, paper_id, _MATCHED.validate_python(answer["match"]), None)
        shape: TypeAdapter[Any] = _SEARCH_ANSWER if name is None else _RECOMMENDATIONS
        return BatchResult(seed, paper_id, shape.validate_python(answer), None, name)
    except (ValueError, KeyError, TypeError) as error:
        raise ServiceError(
            "A result is not what a service of Akin answers; look at the versions of both.",
            type="about:blank",
            status=None,
        ) from error
