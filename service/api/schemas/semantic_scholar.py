"""The schemas of Semantic Scholar's interface."""
# ruff: noqa: N815 - the names are Semantic Scholar's

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, Field, model_validator

from models.errors import QueryError
from models.types import Paper
from service.api.schemas.base import Strict
from service.search.query import Detail, SearchQuery, Seed, UnresolvedSeed

MAX_IDS = 500
_MAX_FIELDS_CHARS = 4_000

MAX_NAME_CHARS = 300  # of an id, with its prefix, or an address
PaperName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
_Names = Annotated[list[PaperName], Field(fail_fast=True, min_length=1, max_length=MAX_IDS)]

# The prefixes of ids of a collection, and Semantic Scholar's names for such ids.
_EXTERNAL = {
    "arxiv:": "ArXiv",
    "acl:": "ACL",
    "pmid:": "PubMed",
    "pmcid:": "PubMedCentral",
    "mag:": "MAG",
    "s2:": "CorpusId",
}


class Pool(StrEnum):
    """The pools that Semantic Scholar recommends papers from; a collection here is one pool."""

    RECENT = "recent"
    ALL_CS = "all-cs"


class AuthorOut(BaseModel):
    """An author, who has no id here."""

    authorId: str | None = None
    name: str


class ScholarPaper(BaseModel):
    """A paper in Semantic Scholar's shape, with the requested fields; null if a value is unknown here.

    ``paperId`` is the paper's id in this collection, which every other call accepts.
    """

    paperId: str
    corpusId: int | None = None
    externalIds: dict[str, str | int] | None = None
    url: str | None = None
    title: str | None = None
    abstract: str | None = None
    venue: str | None = None
    publicationVenue: None = None
    year: int | None = None
    referenceCount: None = None
    citationCount: None = None
    influentialCitationCount: None = None
    isOpenAccess: None = None
    openAccessPdf: None = None
    fieldsOfStudy: list[str] | None = None
    s2FieldsOfStudy: list[dict[str, str]] | None = None
    publicationTypes: None = None
    publicationDate: None = None
    journal: None = None
    citationStyles: None = None
    authors: list[AuthorOut] | None = None
    citations: None = None
    references: None = None
    embedding: None = None
    tldr: None = None
    textAvailability: None = None
    matchScore: float | None = None

    @classmethod
    def of(cls, paper: Paper, fields: Iterable[str], **more: Any) -> "ScholarPaper":
        """Return the paper with its id and these fields set; ``more`` are fields not held by papers."""
        held = {"paperId": paper.id, **_held(paper), **more}
        # Requested fields that are not held are set to null; only fields that are set are sent.
        return cls.model_validate({name: held.get(name) for name in {"paperId", *fields, *more}})


def _held(paper: Paper) -> dict[str, Any]:
    external = _external_ids(paper)
    corpus_id = external.get("CorpusId")
    return {
        "corpusId": corpus_id,
        "externalIds": external,
        "url": paper.url,
        "title": paper.title,
        "abstract": paper.abstract,
        "venue": paper.venue or "",
        "year": paper.year,
        "fieldsOfStudy": list(paper.fields) or None,
        "s2FieldsOfStudy": [{"category": field, "source": "external"} for field in paper.fields],
        "authors": [AuthorOut(name=name) for name in paper.authors],
    }


def _external_ids(paper: Paper) -> dict[str, str | int]:
    ids: dict[str, str | int] = {} if paper.doi is None else {"DOI": paper.doi}
    for prefix, name in _EXTERNAL.items():
        value = paper.id.removeprefix(prefix)
        if value == paper.id or (name == "CorpusId" and not (value.isascii() and value.isdecimal())):
            continue
        ids[name] = int(value) if name == "CorpusId" else value
    return ids


def _known_fields(given: str) -> str:
    """Refuse fields Semantic Scholar does not have; ``authors.name`` and the like belong to ``authors``."""
    for number, name in enumerate(given.split(","), start=1):
        if name.strip(" ") and name.strip(" ").partition(".")[0] not in ScholarPaper.model_fields:
            raise ValueError(
                f"name {number} is not a field of papers; the fields are "
                f"{', '.join(ScholarPaper.model_fields)}"
            )
    return given


# The pattern of what _known_fields accepts, for the OpenAPI document.
_FIELD = rf" *(?:(?:{'|'.join(ScholarPaper.model_fields)})(?:\.[^,]*)?)? *"
FieldNames = Annotated[
    str,
    Field(max_length=_MAX_FIELDS_CHARS, json_schema_extra={"pattern": f"^{_FIELD}(?:,{_FIELD})*$"}),
    AfterValidator(_known_fields),
]


def field_set(given: str | None) -> frozenset[str]:
    """Return the fields that a request names, separated by commas; if it names none, the title."""
    names = {name.strip(" ").partition(".")[0] for name in (given or "title").split(",")}
    return frozenset(names - {"", "matchScore"})


class ScholarBatchIn(Strict):
    """Papers to look up."""

    ids: _Names


# The details of a paper in these answers, which explain no match.
SHOWN: Final = frozenset({Detail.ABSTRACT})


class ListsIn(Strict):
    """Papers that recommendations should be like, and papers that they should be unlike."""

    positive: _Names = Field(alias="positivePaperIds")
    negative: Annotated[list[PaperName], Field(fail_fast=True, max_length=MAX_IDS)] | None = Field(
        default=None, alias="negativePaperIds"
    )

    @model_validator(mode="after")
    def _not_too_many(self) -> "ListsIn":
        if len(self.positive) + len(self.negative or ()) > MAX_IDS:
            # Not a ValueError: each list is valid, and the shape of a request cannot express a sum.
            raise QueryError(f"There are more than {MAX_IDS} ids in the two lists; leave some out.")
        return self

    def to_query(self, limit: int) -> SearchQuery:
        """Return the domain value."""
        return SearchQuery(
            seeds=tuple(Seed(paper_id=name) for name in self.positive),
            negatives=tuple(Seed(paper_id=name) for name in self.negative or ()),
            limit=limit,
            skip_unresolved=True,
            omit_pasted=True,
            include=SHOWN,
        )


class RecommendedOut(BaseModel):
    """Recommended papers, best first; ``unresolved``: the places, from 0, of ids that could not be used."""

    recommendedPapers: list[ScholarPaper]
    unresolved: dict[str, list[int]] | None = None


def unresolved_places(unresolved: Iterable[UnresolvedSeed]) -> dict[str, list[int]]:
    """Return the places, in each of the two lists, of ids that could not be used."""
    places: dict[str, list[int]] = {"positivePaperIds": [], "negativePaperIds": []}
    for seed in unresolved:
        places["negativePaperIds" if seed.negative else "positivePaperIds"].append(seed.number)
    return places


class MatchesOut(BaseModel):
    """The one paper whose title matches best."""

    data: list[ScholarPaper]
