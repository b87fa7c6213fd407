"""The keywords of the client's methods, with the names of the HTTP interface."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NotRequired, Required, TypedDict

FacetName = Literal["background", "objective", "method", "result", "other"]
DetailName = Literal["abstract", "sentences", "alignments", "highlights"]
ScorerName = Literal["ot", "single", "mean_min", "attention", "exact_ot"]


class Unlike(TypedDict, total=False):
    """The respect in which papers should differ: ``sentences`` or ``facet`` of the query, and its weight."""

    sentences: Sequence[int]
    facet: FacetName | Sequence[FacetName]
    weight: float


class ListFilters(TypedDict, total=False):
    """Which papers are listed; years are inclusive, names match whatever their case."""

    year_from: int
    year_to: int
    venues: Sequence[str]
    fields: Sequence[str]
    authors: Sequence[str]
    has_facets: Sequence[FacetName]


class ListRequest(ListFilters, total=False):
    """Which papers are listed, and how many; ``cursor`` is ``next_cursor`` of a list that ended there."""

    limit: int
    cursor: str


class Filters(ListFilters, total=False):
    """Which papers may be returned."""

    ids: Sequence[str]
    exclude_ids: Sequence[str]


class Results(TypedDict, total=False):
    """Which papers to return, ``limit`` a page, and what of them: details to ``include``, alignments."""

    filters: Filters
    limit: int
    include: Sequence[DetailName]
    max_alignments: int


class SearchShape(Results, total=False):
    """What of a query counts, and what to return."""

    sentences: Sequence[int]
    facet: FacetName | Sequence[FacetName]
    unlike: Unlike
    focus: float
    scorer: ScorerName
    tau: float
    words: float
    specificity: float


class SearchKeywords(SearchShape, total=False):
    """A pasted paper (``title`` and ``abstract``) or a short ``text``; what counts; what to return.

    ``cursor`` is ``next_cursor`` of the answer before, given with the same other keywords.
    """

    title: str
    abstract: str | Sequence[str]
    text: str
    cursor: str


class SearchRequest(SearchKeywords, total=False):
    """The same, or a paper by its name."""

    paper_id: str


class Seed(TypedDict, total=False):
    """A paper or a short ``text``, the respect in which others should be akin to it, how much it counts."""

    paper_id: str
    title: str
    abstract: str | Sequence[str]
    text: str
    sentences: Sequence[int]
    facet: FacetName | Sequence[FacetName]
    unlike: Unlike
    focus: float
    weight: float


class Draft(TypedDict):
    """A title, if there is one, and an abstract as text or as the list of its sentences."""

    title: NotRequired[str]
    abstract: str | Sequence[str]


class NewPaper(TypedDict):
    """A paper to add, or to put in the place of the one with its id; ``facets`` are one a sentence."""

    id: str
    title: str
    abstract: str | Sequence[str]
    facets: NotRequired[Sequence[FacetName | None]]
    year: NotRequired[int | None]
    venue: NotRequired[str | None]
    authors: NotRequired[Sequence[str]]
    url: NotRequired[str | None]
    doi: NotRequired[str | None]
    fields: NotRequired[Sequence[str]]


class RecommendationsShape(Results, total=False):
    """Papers to keep away from, how papers are combined, and what to return.

    ``cursor`` is ``next_cursor`` of the answer before, given with the same other keywords.
    """

    negatives: Sequence[str | Seed]
    strategy: Literal["any", "all"]
    negative_weight: float
    words: float
    specificity: float
    cursor: str


class RecommendationsRequest(RecommendationsShape, total=False):
    """The same, and papers to start from, by name or as a ``Seed``."""

    seeds: Sequence[str | Seed]


class RecommendKeywords(RecommendationsShape, total=False):
    """The same with libraries: files to start from (``like``) and to keep away from (``unlike``).

    ``facet`` counts of the seeds that choose nothing themselves.
    """

    like: str | Path | Sequence[str | Path]
    unlike: str | Path | Sequence[str | Path]
    facet: FacetName | Sequence[FacetName]


class SentenceKeywords(TypedDict, total=False):
    """Number ``sentence`` of ``paper_id``, in what others should be like it, and which may be returned."""

    paper_id: str
    sentence: int
    by: Literal["meaning", "function"]
    facet: FacetName | Sequence[FacetName]
    filters: Filters
    limit: int


class SentenceRequest(SentenceKeywords, total=False):
    """The same, or a sentence as ``text``."""

    text: str


class Assign(TypedDict, total=False):
    """How many profiles each submission is assigned, and how many submissions a profile at most."""

    per_submission: int
    per_profile: int
    aim: Literal["total", "worst"]


class MatchRequest(TypedDict, total=False):
    """``conflicts`` are numbers of submissions with names of profiles, ``quotas`` are by name.

    Told are the ``limit`` nearest profiles of each submission, with as many ``reasons``; ``nearest`` says how
    many papers of a profile make its affinity.
    """

    conflicts: Sequence[tuple[int, str]]
    quotas: Mapping[str, int]
    assign: Assign
    limit: int
    reasons: int
    nearest: int
    own_conflicts: bool


class BatchMatch(TypedDict, total=False):
    """A match of thousands of submissions with profiles, as in ``match`` but for quotas and assignments.

    ``limit`` may be the number of profiles where ``reasons`` is 0.
    """

    submissions: Required[Sequence[str | Seed]]
    profiles: Required[Mapping[str, Sequence[str] | None]]
    conflicts: Sequence[tuple[int, str]]
    limit: int
    reasons: int
    nearest: int
    own_conflicts: bool


class NamedRecommendations(RecommendationsRequest, total=False):
    """Recommendations, and what their result is known by."""

    name: str


class BatchRequest(SearchShape, total=False):
    """Many searches: ``queries``, each with its own keywords; or ``seeds``, which share all others.

    Or many recommendations: ``recommendations``, each with its own keywords, or ``profiles``, names of sets
    of papers (``None``: those kept under the name), which share ``negatives``, ``strategy``,
    ``negative_weight`` and what to return. Or a ``match``, of which each submission is a query.
    """

    seeds: Sequence[str | Seed]
    match: BatchMatch
    queries: Sequence[SearchRequest]
    recommendations: Sequence[NamedRecommendations]
    profiles: Mapping[str, Sequence[str] | None]
    negatives: Sequence[str | Seed]
    strategy: Literal["any", "all"]
    negative_weight: float
