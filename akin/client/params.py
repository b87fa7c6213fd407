"""The keywords of the client's methods, with the names of the HTTP interface, and how values are sent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, TypedDict
from urllib.parse import quote

from akin.client.responses.ranked import PaperLike
from models.errors import InputError

_MAX_NAME_CHARS = 5_000  # up to twelve times as many in an address, which may have 65,536

FacetName = Literal["background", "objective", "method", "result", "other"]
DetailName = Literal["abstract", "sentences", "alignments", "highlights"]
ScorerName = Literal["ot", "single", "mean_min", "attention", "exact_ot"]


class Unlike(TypedDict, total=False):
    """The respect in which papers should differ: ``sentences`` or ``facet`` of the query, and its weight."""

    sentences: Sequence[int]
    facet: FacetName | Sequence[FacetName]
    weight: float


class ListFilters(TypedDict, total=False):
    """The filters of a list of papers; years are inclusive, names match in any case."""

    year_from: int
    year_to: int
    venues: Sequence[str]
    fields: Sequence[str]
    authors: Sequence[str]
    has_facets: Sequence[FacetName]


class ListRequest(ListFilters, total=False):
    """The filters and length of a list of papers; ``cursor`` is ``next_cursor`` of the answer before."""

    limit: int
    cursor: str


class Filters(ListFilters, total=False):
    """The filters of a search: which papers may be returned."""

    ids: Sequence[str]
    exclude_ids: Sequence[str]


class Results(TypedDict, total=False):
    """The papers to return, ``limit`` per page, and the details of each."""

    filters: Filters
    limit: int
    include: Sequence[DetailName]
    max_alignments: int


class SearchShape(Results, total=False):
    """The parts of a query that count, and what to return."""

    sentences: Sequence[int]
    facet: FacetName | Sequence[FacetName]
    unlike: Unlike
    focus: float
    scorer: ScorerName
    tau: float
    words: float
    specificity: float


class SearchKeywords(SearchShape, total=False):
    """A pasted paper or a short ``text``; ``cursor`` is ``next_cursor`` of the answer to the same request."""

    title: str
    abstract: str | Sequence[str]
    text: str
    cursor: str


class SearchRequest(SearchKeywords, total=False):
    """The keywords of a search, including a paper by its name."""

    paper_id: PaperLike


class Seed(TypedDict, total=False):
    """A paper or a short ``text``, the parts of it that count, and its weight."""

    paper_id: PaperLike
    title: str
    abstract: str | Sequence[str]
    text: str
    sentences: Sequence[int]
    facet: FacetName | Sequence[FacetName]
    unlike: Unlike
    focus: float
    weight: float


SeedLike = PaperLike | Seed
Seeds = SeedLike | Iterable[SeedLike]


class Draft(TypedDict):
    """A title, if there is one, and an abstract as text or as a list of sentences."""

    title: NotRequired[str]
    abstract: str | Sequence[str]


class Submission(Draft):
    """A paper to match; profiles with the name of one of its ``authors`` are in conflict with it."""

    authors: NotRequired[Sequence[str]]


Submissions = Iterable[SeedLike | Submission]


class RecommendationsShape(Results, total=False):
    """How seeds are combined, and what to return.

    ``cursor`` is ``next_cursor`` of the answer before, given with the same other keywords.
    """

    strategy: Literal["any", "all"]
    negative_weight: float
    words: float
    specificity: float
    cursor: str


class RecommendationsRequest(RecommendationsShape, total=False):
    """The keywords of recommendations, including the papers to start from, and those to be unlike."""

    seeds: Sequence[SeedLike]
    negatives: Sequence[SeedLike]


class RecommendKeywords(RecommendationsShape, total=False):
    """The keywords of ``recommend``, with libraries: files of seeds (``like``), negatives (``unlike``)."""

    negatives: Seeds
    like: str | Path | Sequence[str | Path]
    unlike: str | Path | Sequence[str | Path]
    facet: FacetName | Sequence[FacetName]


class SentenceKeywords(TypedDict, total=False):
    """Number ``sentence`` of ``paper_id``, how to compare, and which sentences may be returned."""

    paper_id: PaperLike
    sentence: int
    by: Literal["meaning", "function"]
    facet: FacetName | Sequence[FacetName]
    filters: Filters
    limit: int


class SentenceRequest(SentenceKeywords, total=False):
    """The keywords of a sentence search, including a sentence as ``text``."""

    text: str


Profiles = Mapping[str, PaperLike | Iterable[PaperLike] | None]


class Assign(TypedDict, total=False):
    """The profiles per submission, the most submissions per profile, and what an assignment optimizes."""

    per_submission: int
    per_profile: int
    aim: Literal["total", "worst"]


class MatchRequest(TypedDict, total=False):
    """``conflicts`` are pairs (number of a submission, name of a profile); ``quotas`` are by name.

    The answer has the ``limit`` nearest profiles with ``reasons`` papers each; ``nearest`` papers count.
    """

    conflicts: Sequence[tuple[int, str]]
    quotas: Mapping[str, int]
    assign: Assign
    limit: int
    reasons: int
    nearest: int
    own_conflicts: bool


class BatchMatch(TypedDict, total=False):
    """A match of thousands of submissions with profiles, as in ``match``, without quotas and assignments.

    With ``reasons`` 0, ``limit`` may be the number of profiles.
    """

    submissions: Required[Submissions]
    profiles: Required[Profiles]
    conflicts: Sequence[tuple[int, str]]
    limit: int
    reasons: int
    nearest: int
    own_conflicts: bool


class NamedRecommendations(RecommendationsRequest, total=False):
    """Recommendations, and a name for their result."""

    name: str


class BatchRequest(SearchShape, total=False):
    """Many searches: ``queries``, each with its own keywords; or ``seeds``, which share all other keywords.

    Or many recommendations: ``recommendations``, each with its own keywords; or ``profiles``, sets of papers
    by name (``None``: the saved profile), which share ``negatives``, ``strategy``, ``negative_weight`` and
    what to return. Or a ``match``, in which each submission is a query.
    """

    seeds: Sequence[SeedLike]
    match: BatchMatch
    queries: Sequence[SearchRequest]
    recommendations: Sequence[NamedRecommendations]
    profiles: Profiles
    negatives: Sequence[SeedLike]
    strategy: Literal["any", "all"]
    negative_weight: float


def as_sent(value: Any, *place: object) -> Any:
    """Convert ``value`` to JSON types, such as a tuple or an array to a list; raises InputError."""
    if isinstance(value, Mapping):
        return {name: as_sent(each, *place, name) for name, each in value.items()}
    if hasattr(value, "tolist"):  # a number of numpy, or an array
        return as_sent(value.tolist(), *place)
    if isinstance(value, list | tuple | range | AbstractSet):
        return [as_sent(each, *place, number) for number, each in enumerate(value)]
    value = id_of(value)
    where = ".".join(map(str, place)) or "it"
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"{where} must be a finite number.")
    if isinstance(value, str) and value.encode(errors="ignore").decode() != value:
        raise InputError(f"{where} must be text in Unicode; half of a character is in it (a surrogate).")
    if not isinstance(value, str | int | float | None):
        kinds = "a text, a number, a list or a dictionary"
        advice = "; give a list" if isinstance(value, Iterator) else ""
        raise InputError(f"{where} must be {kinds}, not {type(value).__name__}{advice}.")
    return value


def id_of(given: Any) -> Any:
    """Return the id of a paper, or of the paper of a result; return anything else, also a list, unchanged."""
    found = None if isinstance(given, Iterable) else getattr(getattr(given, "paper", given), "id", None)
    return found if isinstance(found, str) else given


def ids_of(given: PaperLike | Iterable[PaperLike]) -> list[str]:
    """Return a list of one id or several; raises InputError if one is neither a string nor a paper."""
    ids = list(map(id_of, [given] if isinstance(given, str) or not isinstance(given, Iterable) else given))
    if not all(isinstance(each, str) and each for each in ids):
        raise InputError("Give the id of a paper, or a list of ids; an id is a string that is not empty.")
    as_sent(ids, "ids")
    return ids


def name_of(given: object) -> str:
    """Return an id, a name, or the id of a paper; raises InputError for anything else, or invalid Unicode."""
    name = id_of(given)
    if not isinstance(name, str) or not name:
        kind = "an empty one" if name == "" else type(given).__name__
        raise InputError(f"An id or a name is a string, not {kind}.")
    as_sent(name)
    return name


def in_path(given: object) -> str:
    """Quote an id or a name for a path, also ``.`` and ``..``; raises InputError if it is too long."""
    name = name_of(given)
    if len(name) > _MAX_NAME_CHARS:
        raise InputError(f"A name of {len(name):,} characters is too long for an address.")
    return name.replace(".", "%2E") if name in {".", ".."} else quote(name, safe="")


def mapping_of(given: object, expected: str) -> Mapping[str, Any]:
    """Return ``given`` if it is a dictionary; else raises InputError, which begins with ``expected``."""
    if not isinstance(given, Mapping):
        raise InputError(f"{expected}, not {type(given).__name__}.")
    return given
