"""The requests that a client can send: one function for each endpoint."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import httpx

from akin.client.params import (
    BatchRequest,
    Draft,
    ListRequest,
    MatchRequest,
    Profiles,
    RecommendationsRequest,
    SearchRequest,
    SeedLike,
    SentenceRequest,
    Submissions,
    id_of,
    ids_of,
    in_path,
    mapping_of,
    name_of,
)
from akin.client.responses.batches import Batch, BatchList
from akin.client.responses.matches import ComparedPapers, MatchAnswer, Profile, ProfileList
from akin.client.responses.papers import FetchedPapers, PaperAnswer, PaperList, PapersAccepted, TitlesAnswer
from akin.client.responses.ranked import PaperLike, RecommendationsAnswer, SearchAnswer
from akin.client.responses.saved import News, SavedQuery, SavedQueryList, SavedQuerySummary
from akin.client.responses.sentences import Analysis, SentenceAnswer
from akin.client.responses.vectors import Embedding, PaperVectorsAnswer
from akin.client.uploads import Papers, papers_to_add, parts_of
from models.errors import InputError

_Answer = TypeVar("_Answer")
_PAPER_KEYS = ("paper_id", "title", "abstract", "text")
_SENTENCE_KEYS = ("text", "paper_id", "sentence")
_DRAFTS = "Papers to encode are dictionaries with title and abstract"
_SEED = "A paper is given by its id, or as a dictionary such as {'title': ..., 'abstract': ...}"
_PROFILES = "Profiles are a dictionary of lists of ids by their names"


@dataclass(frozen=True, slots=True)
class Request(Generic[_Answer]):
    """One request and the type of its answer; sending it twice does no harm."""

    method: str
    path: str
    answer: type[_Answer]
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)


def given(**keywords: Any) -> dict[str, Any]:
    """Return the keywords that are not ``None``, and without ``self``, one of the locals of a method."""
    return {name: value for name, value in keywords.items() if value is not None and name != "self"}


def _with_query(params: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the body of a search, with the ``keys`` that name the query in its field ``query``."""
    keywords = mapping_of(params, "A search is a dictionary of its keywords")
    query = {key: keywords[key] for key in keys if key in keywords}
    return {"query": query, **{key: value for key, value in keywords.items() if key not in keys}}


def search(params: SearchRequest) -> Request[SearchAnswer]:
    """Return a request for papers similar to one."""
    return Request("POST", "/v1/search", SearchAnswer, _with_query(params, _PAPER_KEYS))


def recommend(params: RecommendationsRequest) -> Request[RecommendationsAnswer]:
    """Return a request for papers similar to several."""
    return Request("POST", "/v1/recommendations", RecommendationsAnswer, dict(params))


def search_sentences(params: SentenceRequest) -> Request[SentenceAnswer]:
    """Return a request for sentences similar to one."""
    return Request("POST", "/v1/sentences/search", SentenceAnswer, _with_query(params, _SENTENCE_KEYS))


def compare(a: SeedLike, b: SeedLike) -> Request[ComparedPapers]:
    """Return a request that compares two papers."""
    return Request("POST", "/v1/compare", ComparedPapers, {"a": _query(a), "b": _query(b)})


def match(submissions: Submissions, profiles: Profiles, params: MatchRequest) -> Request[MatchAnswer]:
    """Return a request for the profiles nearest to submissions; raises InputError for invalid ones."""
    body = _match_body({**params, "submissions": submissions, "profiles": profiles})
    quotas = body.pop("quotas", {})
    quotas = mapping_of(quotas, "Quotas are a dictionary of numbers by the names of profiles")
    if unknown := set(quotas) - set(profiles):
        raise InputError(f"Quotas name {len(unknown)} profiles that were not given; remove them.")
    for profile in body["profiles"]:
        if profile["name"] in quotas:
            profile["quota"] = quotas[profile["name"]]
    return Request("POST", "/v1/match", MatchAnswer, body)


def _match_body(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **given,
        "submissions": [_query(each) for each in parts_of(given.get("submissions"))],
        "profiles": _profiles(given.get("profiles")),
        "conflicts": _conflicts(given.get("conflicts", ())),
    }


def _conflicts(given: Any) -> list[dict[str, Any]]:
    try:
        return [{"submission": row, "profile": name} for row, name in given]
    except (TypeError, ValueError) as error:
        raise InputError("conflicts are pairs: (number of a submission, name of a profile).") from error


def put_profile(
    name: str, papers: Iterable[PaperLike], conflicts: Iterable[PaperLike], quota: int | None
) -> Request[Profile]:
    """Return a request that saves a profile."""
    body = {"papers": ids_of(papers), "conflicts": ids_of(conflicts), "quota": quota}
    return Request("PUT", f"/v1/profiles/{in_path(name)}", Profile, body)


def profiles(after: str) -> Request[ProfileList]:
    """Return a request for a page of saved profiles, which starts after the name ``after``."""
    return Request("GET", f"/v1/profiles?{urlencode({'after': after})}", ProfileList)


def delete_profile(name: str) -> Request[None]:
    """Return a request that deletes a profile."""
    return Request("DELETE", f"/v1/profiles/{in_path(name)}", NoneType)


def embed(papers: Draft | Iterable[Draft]) -> Request[Embedding]:
    """Return a request for the vectors of drafts."""
    body = {"papers": [dict(mapping_of(each, _DRAFTS)) for each in parts_of(papers)], "encoding": "base64"}
    return Request("POST", "/v1/embed", Embedding, body)


def vectors(name: PaperLike) -> Request[PaperVectorsAnswer]:
    """Return a request for the vectors of one paper."""
    return Request("GET", f"/v1/papers/{in_path(name)}/vectors?encoding=base64", PaperVectorsAnswer)


def _profiles(given: object) -> list[dict[str, Any]]:
    return [
        {"name": name} if papers is None else {"name": name, "papers": ids_of(papers)}
        for name, papers in mapping_of(given, _PROFILES).items()
    ]


def _query(given: object) -> dict[str, Any]:
    return {"paper_id": seed} if isinstance(seed := id_of(given), str) else dict(mapping_of(seed, _SEED))


def analyze(title: str, abstract: str | Sequence[str]) -> Request[Analysis]:
    """Return a request for the sentences of an abstract and their facets."""
    return Request("POST", "/v1/analyze", Analysis, {"title": title, "abstract": abstract})


def paper(paper_id: PaperLike) -> Request[PaperAnswer]:
    """Return a request for one paper."""
    return Request("GET", f"/v1/papers/{in_path(paper_id)}", PaperAnswer)


def papers(names: PaperLike | Iterable[PaperLike]) -> Request[FetchedPapers]:
    """Return a request for several papers by their names."""
    return Request("POST", "/v1/papers/fetch", FetchedPapers, {"ids": ids_of(names)})


def list_papers(params: ListRequest) -> Request[PaperList]:
    """Return a request for a page of the papers that pass filters; raises InputError for a wrong type."""
    return Request("GET", f"/v1/papers?{_in_address(params)}", PaperList)


def _in_address(params: Mapping[str, Any]) -> str:
    """Return parameters as text, whose types a service does not see; raises InputError for wrong ones."""
    if isinstance(params.get("limit"), str):
        raise InputError("limit must be a whole number, not a string.")
    for name in ("venues", "fields", "authors", "has_facets"):
        names = params.get(name, ())
        if not isinstance(names, str | list | tuple) or not all(isinstance(each, str) for each in names):
            raise InputError(f"{name} must be a name, or a list of names.")
    whole = (each if not isinstance(each, float) or each % 1 else int(each) for each in params.values())
    return urlencode(dict(zip(params, whole, strict=True)), doseq=True)


def find_papers(title: str, limit: int) -> Request[TitlesAnswer]:
    """Return a request for papers with a similar title; raises InputError if it is not a text."""
    params = {"title": name_of(title), "limit": limit}
    return Request("GET", f"/v1/papers?{urlencode(params)}", TitlesAnswer)


def add(papers: Papers, *, wait: bool) -> Request[PapersAccepted]:
    """Return a request that adds or replaces papers, also from files; ``wait``: until they are searchable."""
    path = "/v1/papers?wait=true" if wait else "/v1/papers"
    return Request("POST", path, PapersAccepted, {"papers": papers_to_add(papers)})


def delete(paper_id: str) -> Request[None]:
    """Return a request that deletes a paper."""
    return Request("DELETE", f"/v1/papers/{in_path(paper_id)}", NoneType)


def save_query(
    name: str, search: SearchRequest | None, recommendations: RecommendationsRequest | None
) -> Request[SavedQuery]:
    """Return a request that saves a query under a name."""
    body: dict[str, Any] = {"name": name}
    if search is not None:
        body["search"] = _with_query(search, _PAPER_KEYS)
    if recommendations is not None:
        expected = "Recommendations are a dictionary of their keywords"
        body["recommendations"] = dict(mapping_of(recommendations, expected))
    return Request("POST", "/v1/queries", SavedQuery, body)


def saved_queries() -> Request[SavedQueryList]:
    """Return a request for all saved queries of a key."""
    return Request("GET", "/v1/queries", SavedQueryList)


def saved_query(query_id: str) -> Request[SavedQuery]:
    """Return a request for one saved query."""
    return Request("GET", _query_path(query_id), SavedQuery)


def delete_query(query_id: str) -> Request[None]:
    """Return a request that deletes a saved query."""
    return Request("DELETE", _query_path(query_id), NoneType)


def new_papers(query_id: str, limit: int | None, *, weak: bool) -> Request[News]:
    """Return a request for the new papers of a saved query."""
    params = _in_address(given(weak="true" if weak else None, limit=limit))
    return Request("GET", f"{_query_path(query_id)}/new{'?' if params else ''}{params}", News)


def mark_seen(query_id: str, up_to: int) -> Request[SavedQuerySummary]:
    """Return a request that marks the new papers of a saved query as seen."""
    return Request("POST", f"{_query_path(query_id)}/seen", SavedQuerySummary, {"up_to": up_to})


def open_feed(query_id: str) -> Request[SavedQuerySummary]:
    """Return a request that opens the feed of a saved query."""
    return Request("POST", f"{_query_path(query_id)}/feed", SavedQuerySummary)


def close_feed(query_id: str) -> Request[None]:
    """Return a request that deletes the feed of a saved query."""
    return Request("DELETE", f"{_query_path(query_id)}/feed", NoneType)


def feed_address(base_url: httpx.URL, saved: SavedQuerySummary) -> str:
    """Return the full address of a saved query's feed, below the address of the service."""
    return str(base_url.join((saved.feed or "").lstrip("/")))  # the path of a base ends with a slash


def _query_path(query_id: str) -> str:
    return f"/v1/queries/{in_path(query_id)}"


def batch(params: BatchRequest, idempotency_key: str | None) -> Request[Batch]:
    """Return a request that starts a batch; a random key if none is given, so that retries start only one."""
    body: dict[str, Any] = dict(params)
    if "queries" in params:
        if not isinstance(params["queries"], Iterable):
            raise InputError("queries must be a list of queries.")
        body["queries"] = [_with_query(query, _PAPER_KEYS) for query in params["queries"]]
    if "profiles" in params:
        body["profiles"] = _profiles(params["profiles"])
    if "match" in params:
        body["match"] = _match_body(mapping_of(params["match"], "A match is a dictionary of its keywords"))
    key = idempotency_key or uuid.uuid4().hex
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"idempotency_key is {key[:50]!r}; expected printable ASCII characters.")
    return Request("POST", "/v1/batches", Batch, body, {"Idempotency-Key": key})


def get_batch(batch_id: str) -> Request[Batch]:
    """Return a request for the state of a batch."""
    return Request("GET", batch_path(batch_id), Batch)


def batches(after: str) -> Request[BatchList]:
    """Return a request for a page of batches; ``after`` is ``next_after`` of the page before."""
    return Request("GET", f"/v1/batches?{urlencode({'after': after})}", BatchList)


def cancel_batch(batch_id: str) -> Request[None]:
    """Return a request that cancels a batch."""
    return Request("DELETE", batch_path(batch_id), NoneType)


def batch_path(batch_id: str) -> str:
    """Return the path of a batch."""
    return f"/v1/batches/{in_path(batch_id)}"
