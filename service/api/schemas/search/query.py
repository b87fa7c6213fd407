"""A query in a request: papers, texts and seeds, with the sentences or facets that count."""

from typing import Annotated

from pydantic import ConfigDict, Field, Tag, model_validator
from pydantic.config import JsonDict

from indexer.corpus.rows import MAX_SENTENCES
from models.types import Paper
from service.api.schemas.base import (
    NOT_BLANK,
    WHOLE,
    WITH_TEXT,
    Abstract,
    Facets,
    PaperName,
    Strict,
    Title,
    facet_tuple,
    kind_of,
    pasted_paper,
    tag,
)
from service.resolve.identifiers import is_name
from service.resolve.text_query import MAX_TEXT_CHARS
from service.search.aspect import DEFAULT_CONTRAST, Aspect, Contrast
from service.search.query import Seed

Numbers = Annotated[
    list[Annotated[int, Field(ge=0), WHOLE]], Field(fail_fast=True, min_length=1, max_length=MAX_SENTENCES)
]


class IndexedIn(Strict):
    """A paper of the collection, by its id, DOI, arXiv id, address or title."""

    paper_id: PaperName

    def to_seed(self) -> Seed:
        """Return the domain value."""
        return Seed(self.paper_id)


class PastedIn(Strict):
    """A title and an abstract, as text or as the list of its sentences."""

    title: Title = ""
    abstract: Abstract = Field(description="Text, or the list of its sentences.")

    def to_paper(self) -> Paper:
        """Return the paper; it has sentences if the abstract is a list."""
        return pasted_paper(self.title, self.abstract)

    def to_seed(self) -> Seed:
        """Return the domain value."""
        return Seed(paper=self.to_paper())


class TextIn(Strict):
    """A short text, such as a claim, taken as one sentence; no part of it can be chosen.

    A ``facet`` next to it chooses the sentences of papers that it is compared with. A text that is the
    identifier of a paper, such as a DOI, stands for the paper.
    """

    text: Annotated[
        str, Field(min_length=1, max_length=MAX_TEXT_CHARS, json_schema_extra=WITH_TEXT), NOT_BLANK
    ]

    def to_seed(self) -> Seed:
        """Return the domain value."""
        return self._seed(Aspect())

    def _seed(self, aspect: Aspect, weight: float = 1.0) -> Seed:
        if is_name(self.text):
            return Seed(self.text.strip(), aspect=aspect, weight=weight)
        return Seed(text=self.text, aspect=aspect, weight=weight)


BY_KIND = kind_of(
    "paper_id", "abstract", "text", problem="give either paper_id, or title and abstract, or text"
)
QueryIn = Annotated[
    Annotated[IndexedIn, Tag(tag("paper_id"))]
    | Annotated[PastedIn, Tag(tag("abstract"))]
    | Annotated[TextIn, Tag(tag("text"))],
    BY_KIND,
]


class _UnlikeIn(Strict):
    """How much a contrast counts."""

    weight: Annotated[float, Field(ge=0.01, le=1)] = Field(
        default=DEFAULT_CONTRAST,
        description="Weight of being far from these, relative to being near to the others.",
    )


class UnlikeSentencesIn(_UnlikeIn):
    """The respect in which papers should differ from the query: some of its sentences."""

    sentences: Numbers = Field(description="Numbers, from 0, of query sentences.")

    def to_contrast(self) -> Contrast:
        """Return the domain value."""
        return Contrast(sentences=tuple(self.sentences), weight=self.weight)


class UnlikeFacetIn(_UnlikeIn):
    """The respect in which papers should differ from the query: a facet of it, or several."""

    facet: Facets = Field(description="A facet, or a list of them.")

    def to_contrast(self) -> Contrast:
        """Return the domain value."""
        return Contrast(facets=facet_tuple(self.facet), weight=self.weight)


UnlikeIn = Annotated[
    Annotated[UnlikeSentencesIn, Tag(tag("sentences"))] | Annotated[UnlikeFacetIn, Tag(tag("facet"))],
    kind_of(
        "sentences", "facet", problem='give either sentences or a facet, such as {"facet": "background"}'
    ),
]

# The check of AspectIn in JSON Schema: sentences or a facet, or neither.
_ONE_CHOICE: JsonDict = {
    "not": {
        "required": ["sentences", "facet"],
        "properties": {name: {"not": {"type": "null"}} for name in ("sentences", "facet")},
    }
}


class AspectIn(Strict):
    """The respect in which papers should be similar to a paper."""

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
        description="Contrast: prefer papers far from these sentences of the paper; if nothing else is "
        "chosen, results should be similar to all other sentences.",
    )
    focus: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="How strongly chosen sentences are set apart from the rest of their abstract; the "
        "default depends on the facet (the smallest of several).",
    )

    @model_validator(mode="after")
    def _one_aspect(self) -> "AspectIn":
        if self.sentences is not None and self.facet is not None:
            raise ValueError("give sentences or a facet, not both")
        return self

    def to_aspect(self) -> Aspect:
        """Return the domain value."""
        return Aspect(
            None if self.sentences is None else tuple(self.sentences),
            facet_tuple(self.facet),
            self.focus,
            None if self.unlike is None else self.unlike.to_contrast(),
        )


class _WeightIn(Strict):
    """How much a seed counts."""

    weight: Annotated[float, Field(ge=0.01, le=100)] = Field(
        default=1.0, description="Weight relative to the others of its list."
    )


class IndexedSeedIn(AspectIn, IndexedIn, _WeightIn):
    """A paper of the collection, the respect in which papers should be similar to it, and its weight."""

    def to_seed(self) -> Seed:
        """Return the domain value."""
        return Seed(self.paper_id, aspect=self.to_aspect(), weight=self.weight)


class PastedSeedIn(AspectIn, PastedIn, _WeightIn):
    """A pasted paper, the respect in which papers should be similar to it, and its weight."""

    def to_seed(self) -> Seed:
        """Return the domain value."""
        return Seed(paper=self.to_paper(), aspect=self.to_aspect(), weight=self.weight)


class TextSeedIn(TextIn, _WeightIn):
    """A short text, its weight, and the facets of the sentences that it is compared with.

    With a ``facet``, only papers that have such a sentence are results; a negative may not have one.
    """

    facet: Facets | None = Field(
        default=None, description="Compare the text with the sentences of papers that have these facets."
    )

    def to_seed(self) -> Seed:
        """Return the domain value."""
        return self._seed(Aspect(facets=facet_tuple(self.facet)), self.weight)


# One of many papers to start from; a string is the name of an indexed paper.
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
    """Return the domain value."""
    return Seed(given) if isinstance(given, str) else given.to_seed()
