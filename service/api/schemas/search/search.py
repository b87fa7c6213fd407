"""``POST /v1/search``: the query, its aspect and filters, and the ranked, explained papers."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Tag, model_validator
from pydantic.config import JsonDict

from indexer.corpus.rows import MAX_SENTENCES
from models.transport import Scorer
from models.types import Paper, StrengthLabel
from service.api.schemas.base import (
    NOT_BLANK,
    WHOLE,
    WITH_TEXT,
    Abstract,
    CursorIn,
    Facets,
    Out,
    PaperName,
    PaperOut,
    SentenceOut,
    Strict,
    Title,
    WarningOut,
    facet_tuple,
    kind_of,
    pasted_paper,
    tag,
)
from service.api.schemas.search.filters import FiltersIn
from service.resolve.text_query import MAX_TEXT_CHARS
from service.search.aspect import DEFAULT_CONTRAST, Aspect, Contrast
from service.search.query import MAX_ALIGNMENTS, Detail, Reason, SearchAnswer, SearchQuery, Seed
from service.search.rerank import MAX_SPECIFICITY
from service.search.words import MAX_WEIGHT

Numbers = Annotated[
    list[Annotated[int, Field(ge=0), WHOLE]], Field(fail_fast=True, min_length=1, max_length=MAX_SENTENCES)
]


class IndexedIn(Strict):
    """A paper of the collection, by its id, DOI, arXiv id, address or title."""

    paper_id: PaperName

    def to_seed(self) -> Seed:
        """The same as a domain value."""
        return Seed(self.paper_id)


class PastedIn(Strict):
    """A title and an abstract, as text or as the list of its sentences."""

    title: Title = ""
    abstract: Abstract = Field(description="Text, or the list of its sentences.")

    def to_paper(self) -> Paper:
        """The same as a paper; it has sentences where they came as a list."""
        return pasted_paper(self.title, self.abstract)

    def to_seed(self) -> Seed:
        """The same as a domain value."""
        return Seed(paper=self.to_paper())


class TextIn(Strict):
    """A short text, such as a claim: one sentence, of which no part can be chosen.

    A ``facet`` beside it chooses the sentences of papers that it is compared with.
    """

    text: Annotated[
        str, Field(min_length=1, max_length=MAX_TEXT_CHARS, json_schema_extra=WITH_TEXT), NOT_BLANK
    ]

    def to_seed(self) -> Seed:
        """The same as a domain value."""
        return Seed(text=self.text)


QueryIn = Annotated[
    Annotated[IndexedIn, Tag(tag("paper_id"))]
    | Annotated[PastedIn, Tag(tag("abstract"))]
    | Annotated[TextIn, Tag(tag("text"))],
    kind_of("paper_id", "abstract", "text", problem="give either paper_id, or title and abstract, or text"),
]


class _UnlikeIn(Strict):
    """How much a contrast counts."""

    weight: Annotated[float, Field(gt=0, le=1)] = Field(
        default=DEFAULT_CONTRAST,
        description="How much being far from these counts against being near to the others.",
    )


class UnlikeSentencesIn(_UnlikeIn):
    """The respect in which papers should differ from the query: some of its sentences."""

    sentences: Numbers = Field(description="Numbers, from 0, of query sentences.")

    def to_contrast(self) -> Contrast:
        """The same as a domain value."""
        return Contrast(sentences=tuple(self.sentences), weight=self.weight)


class UnlikeFacetIn(_UnlikeIn):
    """The respect in which papers should differ from the query: a facet of it, or several."""

    facet: Facets = Field(description="A facet, or a list of them.")

    def to_contrast(self) -> Contrast:
        """The same as a domain value."""
        return Contrast(facets=facet_tuple(self.facet), weight=self.weight)


UnlikeIn = Annotated[
    Annotated[UnlikeSentencesIn, Tag(tag("sentences"))] | Annotated[UnlikeFacetIn, Tag(tag("facet"))],
    kind_of("sentences", "facet", problem="give either sentences or a facet"),
]

# In the words of JSON Schema what AspectIn checks: sentences or a facet, or neither.
_ONE_CHOICE: JsonDict = {
    "not": {
        "required": ["sentences", "facet"],
        "properties": {name: {"not": {"type": "null"}} for name in ("sentences", "facet")},
    }
}


class AspectIn(Strict):
    """The respect in which papers should be akin to a paper."""

    model_config = ConfigDict(json_schema_extra=_ONE_CHOICE)

    sentences: Numbers | None = Field(
        default=None, description="Numbers, from 0, of the paper's sentences that count."
    )
    facet: Facets | None = Field(
        default=None,
        description="Count the paper's sentences of this facet, or of these; objective counts as background.",
    )
    unlike: UnlikeIn | None = Field(
        default=None,
        description="Contrast: prefer papers far from these sentences of the paper; where nothing else is "
        "chosen, all the others are to be like.",
    )
    focus: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="How far chosen sentences are turned away from the rest of their abstract; "
        "by default what suits the facet, the least where there are several.",
    )

    @model_validator(mode="after")
    def _one_aspect(self) -> "AspectIn":
        if self.sentences is not None and self.facet is not None:
            raise ValueError("give sentences or a facet, not both")
        return self

    def to_aspect(self) -> Aspect:
        """The same as a domain value."""
        return Aspect(
            None if self.sentences is None else tuple(self.sentences),
            facet_tuple(self.facet),
            self.focus,
            None if self.unlike is None else self.unlike.to_contrast(),
        )


class _WeightIn(Strict):
    """How much a seed counts."""

    weight: Annotated[float, Field(ge=0.01, le=100)] = Field(
        default=1.0, description="How much it counts beside the others of its list."
    )


class IndexedSeedIn(AspectIn, IndexedIn, _WeightIn):
    """A paper of the collection, the respect in which others should be akin to it, and how much it counts."""

    def to_seed(self) -> Seed:
        """The same as a domain value."""
        return Seed(self.paper_id, aspect=self.to_aspect(), weight=self.weight)


class PastedSeedIn(AspectIn, PastedIn, _WeightIn):
    """A pasted paper, the respect in which others should be akin to it, and how much it counts."""

    def to_seed(self) -> Seed:
        """The same as a domain value."""
        return Seed(paper=self.to_paper(), aspect=self.to_aspect(), weight=self.weight)


class TextSeedIn(TextIn, _WeightIn):
    """A short text, how much it counts, and of which facets the sentences are that it is compared with.

    With a ``facet`` only papers that have such a sentence are results; none may stand beside a negative.
    """

    facet: Facets | None = Field(
        default=None, description="Compare the text with the sentences of papers that have these facets."
    )

    def to_seed(self) -> Seed:
        """The same as a domain value."""
        return Seed(text=self.text, aspect=Aspect(facets=facet_tuple(self.facet)), weight=self.weight)


# One of many papers to start from; a name by itself is that of an indexed paper.
SeedIn = Annotated[
    Annotated[PaperName, Tag(tag(""))]
    | Annotated[IndexedSeedIn, Tag(tag("paper_id"))]
    | Annotated[PastedSeedIn, Tag(tag("abstract"))]
    | Annotated[TextSeedIn, Tag(tag("text"))],
    kind_of(
        "paper_id",
        "abstract",
        "text",
        problem="give the name of a paper, or either paper_id, or title and abstract, or text",
    ),
]


def to_seed(given: SeedIn) -> Seed:
    """The same as a domain value."""
    return Seed(given) if isinstance(given, str) else given.to_seed()


class ResultsIn(Strict):
    """Which papers to return, and what of them."""

    filters: FiltersIn = FiltersIn()
    limit: Annotated[int, Field(ge=1, le=100), WHOLE] = Field(default=10, description="Papers on this page.")
    include: Annotated[
        list[Annotated[Detail, Field(strict=False)]], Field(fail_fast=True, max_length=len(Detail))
    ] = Field(
        default=list(Detail),
        description="What results hold beside the paper's title, its metadata and the score; what is not "
        "named is left empty.",
    )
    max_alignments: Annotated[int, Field(ge=0, le=MAX_ALIGNMENTS), WHOLE] = Field(
        default=MAX_ALIGNMENTS,
        description="The most alignments of a result; the lightest of more are summed up in omitted.",
    )

    def returned(self) -> dict[str, Any]:
        """The same as arguments of a query."""
        return {
            "filters": self.filters.to_filters(),
            "limit": self.limit,
            "include": frozenset(self.include),
            "max_alignments": self.max_alignments,
        }


WordsIn = Annotated[
    Annotated[float, Field(ge=0, le=MAX_WEIGHT)] | None,
    Field(
        description="What the words that query and result share weigh beside the distances of sentences, in "
        "units of these; 0: nothing, null: what suits the encoder."
    ),
]

SpecificityIn = Annotated[
    Annotated[float, Field(ge=0, le=MAX_SPECIFICITY)] | None,
    Field(
        description="How much more sentences count that say something in particular: each weighs exp(this x "
        "its mean distance to the nearest papers of a sample); 0: all alike, null: what suits the encoder. "
        "Sentences chosen by number always count alike."
    ),
]


class SearchShapeIn(AspectIn, ResultsIn):
    """The respect in which papers should be akin to a query, and what to return; not the query itself."""

    scorer: Annotated[Scorer, Field(strict=False)] = Scorer.OT
    tau: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Temperature of the marginals: small favours the best-matching sentences.",
    )
    words: WordsIn = None
    specificity: SpecificityIn = None

    def to_shape(self, seed: Seed) -> SearchQuery:
        """The same as a domain value: a search for what is akin to ``seed``, whose aspect is the one here."""
        return SearchQuery(
            (replace(seed, aspect=self.to_aspect()),),
            scorer=self.scorer,
            tau=self.tau,
            words=self.words,
            specificity=self.specificity,
            **self.returned(),
        )


class FirstPageIn(SearchShapeIn):
    """A search from its first page: a query, and all of ``SearchShapeIn``."""

    query: QueryIn

    def to_query(self) -> SearchQuery:
        """The same as a domain value, from the first page."""
        return self.to_shape(self.query.to_seed())


class SearchIn(FirstPageIn):
    """A search: a paper, the respect in which others should be akin to it, and what to return."""

    cursor: CursorIn | None = None


class AlignmentOut(Out):
    """How much a query and a result sentence count together; null: the encoder has one vector a paper.

    Weights sum to 1; with ``unlike``, its cells have negative weights, which sum to minus its weight.
    """

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float


class OmittedOut(Out):
    """The lightest alignments, ``count`` of them, summed up; ``distance`` is their mean by weight."""

    count: int
    weight: float
    distance: float


class HighlightOut(Out):
    """A sentence of the result, ``abstract[start:end]``, and its share of the match; null: all of it.

    The match is that with the query sentences to be like; contrast has no part in it. Where a paper has more
    sentences, the heaviest 32 stand here, and what their weights lack to 1 is that of the others.
    """

    sentence: int | None
    start: int
    end: int
    weight: float


class SharedWordOut(Out):
    """A word that query and result share, as the result writes it, and its share of what all of them count.

    The shares of all shared words sum to 1, signs aside; under 0 are words of what to be unlike. Words of any
    abstract ("we", "our", "propose", "results") have shares too, but are not listed.
    """

    term: str
    share: float


class WordsOut(Out):
    """How far apart query and result are by their words, and the shared ones that count most, ten at most.

    ``distance`` is 1 minus the cosine of their tf-idf vectors; of a query of several parts (contrast, seeds)
    the sum of how much each part counts times its distance. ``weight`` is 0 where words do not count.
    """

    weight: float
    distance: float
    terms: tuple[SharedWordOut, ...]


class StrengthOut(Out):
    """How good a match is, on one scale for all queries of a collection.

    ``nearer_than`` is the share of the collection's papers, of a sample, that are farther from their own
    nearest paper than this one is from the query, each in units of what is usual. From 0.5 on a match is
    strong, below 0.05 weak.
    """

    label: StrengthLabel
    nearer_than: float


class ResultOut(Out):
    """One paper with its score, higher is better; scores compare within one search, on whatever page.

    It is minus the sum of weight x distance over ``alignments``, ``omitted`` and ``words``: where there are
    more alignments than ``max_alignments``, the lightest are summed up in ``omitted``, in one entry, or in
    one each for the sentences to be like and unlike.
    """

    paper: PaperOut
    score: float
    alignments: tuple[AlignmentOut, ...]
    omitted: tuple[OmittedOut, ...]
    highlights: tuple[HighlightOut, ...]
    words: WordsOut
    converged: bool
    gap: float = Field(
        description="How far at most what the plan minimises is from its least, in units of distance; 0 for "
        "scorers without transport."
    )
    strength: StrengthOut | None = Field(description="Null where the collection is too small to tell.")


class QuerySentenceOut(SentenceOut):
    """A sentence of the query with its text, and the facet it was taken to have."""

    text: str


class QueryOut(BaseModel):
    """What the query was taken to be: its sentences, those that counted, how many were past the limit.

    ``selected`` are the numbers of the sentences to be like, ``unlike`` of those to be unlike.
    """

    id: str | None
    title: str
    sentences: list[QuerySentenceOut]
    selected: tuple[int, ...]
    unlike: tuple[int, ...]
    dropped_sentences: int


class SearchOut(BaseModel):
    """Ranked papers; ``reason``, and ``detail`` in words, say why where there are none.

    The papers nearest by sentences and by shared words are re-ranked together, hundreds at a time, then the
    next nearest, and so on: within each such stretch scores descend, from one to the next they may rise. A
    score does not depend on its stretch, so whoever has read several pages may sort their papers by it.

    ``total`` is how many papers the whole list has, on all its pages: those that pass the filters, without
    the query's own, and 10,000 at most; null where that is not known yet. ``next_cursor`` leads to the
    next page and is null at the end of the list, after 10,000 papers at most.
    """

    query: QueryOut
    results: list[ResultOut]
    total: int | None
    next_cursor: str | None
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[WarningOut, ...]
    coverage: float = Field(
        description="The share of the collection's papers that could be found.", ge=0, le=1
    )
    took_ms: float

    @classmethod
    def of(cls, answer: SearchAnswer, *, next_cursor: str | None = None) -> "SearchOut":
        """From the domain value and the cursor of its next page."""
        (seed,) = answer.seeds
        query = QueryOut(
            id=seed.paper.id or None,
            title=seed.paper.title,
            sentences=[QuerySentenceOut.model_validate(each) for each in seed.paper.sentences],
            selected=seed.selected,
            unlike=seed.unlike,
            dropped_sentences=seed.dropped_sentences,
        )
        return cls(
            query=query,
            results=[ResultOut.model_validate(ranked) for ranked in answer.results],
            total=answer.total,
            next_cursor=next_cursor,
            generation=answer.generation,
            reason=answer.reason,
            detail=answer.detail,
            warnings=tuple(WarningOut.model_validate(each) for each in answer.warnings),
            coverage=answer.coverage,
            took_ms=round(answer.took_ms, 3),
        )
