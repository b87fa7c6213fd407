"""Answers of sentence searches and of analyses."""

from dataclasses import dataclass
from typing import Any, ClassVar

from akin.client.responses.lists import Faceted, Listed, ListedPapers, notes_of, titled
from akin.client.responses.papers import AnswerWarning, Summarized


@dataclass(frozen=True, slots=True, repr=False)
class FoundSentence(Summarized):
    """One sentence, ``abstract[start:end]`` of its paper, and its L2 distance from the query's."""

    sentence: int
    text: str
    start: int
    end: int
    facet: str | None
    distance: float

    def line(self) -> str:
        """Return the distance and text, and the id of the paper, on one line."""
        return f"{self.distance:.3f}  {titled(self.text, None)}  [{self.paper.id}]"

    def row(self) -> dict[str, Any]:
        """Return the cells of the sentence in a table."""
        return {
            "distance": self.distance,
            "facet": self.facet,
            "text": self.text,
            "sentence": self.sentence,
            "id": self.paper.id,
            "title": self.paper.title,
            "year": self.paper.year,
        }


@dataclass(frozen=True, slots=True, repr=False)
class SentenceQuery(Faceted):
    """The query as it was understood; a text has no paper."""

    paper_id: str | None
    title: str | None
    sentence: int | None
    text: str
    facet: str | None
    by: str


@dataclass(frozen=True, slots=True, repr=False)
class SentenceAnswer(ListedPapers[FoundSentence]):
    """Sentences, nearest first; ``reason``, and ``detail`` in words, say why there are none.

    BibTeX and RIS have each paper once, without its abstract.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("distance", "facet", "text", "sentence", "id", "title", "year")
    query: SentenceQuery
    results: tuple[FoundSentence, ...]
    generation: str
    reason: str | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float
    coverage: float = 1.0  # the share of the collection's papers that could be found

    def _repr_html_(self) -> str | None:
        """Return cards of sentences, or ``None`` (text is shown) if the service is not installed."""
        try:
            from service.web.notebook import cards_of_sentences  # noqa: PLC0415 - a client alone has no page
        except ModuleNotFoundError:
            return None
        return cards_of_sentences(self._items, text=self.query.text, notes=notes_of(self))


@dataclass(frozen=True, slots=True, repr=False)
class AnalyzedSentence(Faceted):
    """A sentence, its facet, and the probability of each facet; they sum to 1."""

    start: int
    end: int
    facet: str | None
    text: str
    probabilities: dict[str, float]

    def row(self) -> dict[str, Any]:
        """Return the cells of the sentence in a table."""
        return {"facet": self.facet, "text": self.text, **self.probabilities}


@dataclass(frozen=True, slots=True, repr=False)
class Analysis(Listed[AnalyzedSentence]):
    """The sentences of an abstract; the encoder did not read the last ``dropped_sentences`` of them."""

    LIST: ClassVar[str] = "sentences"
    title: str
    abstract: str
    sentences: tuple[AnalyzedSentence, ...]
    dropped_sentences: int
    tagger: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float
