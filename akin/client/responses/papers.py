"""Answers with papers: one, several, lists, titles."""

from dataclasses import dataclass
from typing import Any, ClassVar

from akin.client.responses.lists import Described, ListedPapers, titled


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an abstract: ``abstract[start:end]``, counted in Unicode characters."""

    start: int
    end: int
    facet: str | None


@dataclass(frozen=True, slots=True, repr=False)
class Paper(Described):
    """A paper of the collection; answers refer to sentences by their positions in ``sentences``, from 0."""

    id: str
    title: str
    abstract: str
    sentences: tuple[Sentence, ...]
    year: int | None
    venue: str | None
    authors: tuple[str, ...]
    url: str | None
    doi: str | None
    fields: tuple[str, ...]

    def sentence(self, number: int) -> str:
        """Return the text of one sentence."""
        sentence = self.sentences[number]
        return self.abstract[sentence.start : sentence.end]

    @property
    def about(self) -> "Paper":
        """The paper itself."""
        return self

    def line(self) -> str:
        """Return the paper's id, title and year on one line."""
        return f"{self.id}: {titled(self.title, self.year)}"

    def row(self) -> dict[str, Any]:
        """Return the paper's cells in a table."""
        return {
            "id": self.id,
            "title": self.title,
            "authors": list(self.authors),
            "year": self.year,
            "venue": self.venue,
            "doi": self.doi,
            "url": self.url,
            "fields": list(self.fields),
            "abstract": self.abstract,
        }


@dataclass(frozen=True, slots=True, repr=False)
class PaperSummary(Described):
    """The metadata of a paper, without its abstract."""

    id: str
    title: str
    year: int | None
    venue: str | None
    authors: tuple[str, ...]
    url: str | None
    doi: str | None

    def line(self) -> str:
        """Return the paper's id, title and year on one line."""
        return f"{self.id}: {titled(self.title, self.year)}"


@dataclass(frozen=True, slots=True, repr=False)
class Summarized(Described):
    """An entry with the summary of a paper."""

    paper: PaperSummary

    @property
    def about(self) -> Paper:
        """The paper without its abstract and fields, which the answer does not hold."""
        paper = self.paper
        return Paper(
            paper.id,
            paper.title,
            "",
            (),
            paper.year,
            paper.venue,
            paper.authors,
            paper.url,
            paper.doi,
            (),
        )


@dataclass(frozen=True, slots=True)
class FetchedPapers:
    """The papers with the requested names, in this order; ``None`` for each that is not there."""

    papers: tuple[Paper | None, ...]
    generation: str


@dataclass(frozen=True, slots=True, repr=False)
class PaperList(ListedPapers[Paper]):
    """A page of the ``total`` papers that pass the filters; ``next_cursor`` is ``None`` at the end.

    ``detail`` says which name of the filters no paper has, if there are none for this reason.
    """

    LIST: ClassVar[str] = "papers"
    papers: tuple[Paper, ...]
    total: int
    next_cursor: str | None
    generation: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class PaperAnswer:
    """A paper and the generation it was read from."""

    paper: Paper
    generation: str


@dataclass(frozen=True, slots=True)
class PapersAccepted:
    """The papers added: ``unchanged`` ones were there word for word, the others are found within seconds.

    ``change`` is the number of the last change of the collection.
    """

    accepted: int
    unchanged: int
    change: int
    generation: str


@dataclass(frozen=True, slots=True, repr=False)
class FoundTitle(Summarized):
    """A paper by its title; ``similarity`` is 1 for the same words, 0 for no shared letter."""

    similarity: float

    def line(self) -> str:
        """Return the id, title and year of the paper on one line."""
        return self.paper.line()

    def row(self) -> dict[str, Any]:
        """Return the cells of the entry in a table."""
        return {
            "similarity": self.similarity,
            "id": self.paper.id,
            "title": self.paper.title,
            "year": self.paper.year,
        }


@dataclass(frozen=True, slots=True, repr=False)
class TitlesAnswer(ListedPapers[FoundTitle]):
    """Papers: nearly the same titles first, then those that contain the words, then other similar ones.

    ``reason``, and ``detail`` in words, say why there are none.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("similarity", "id", "title", "year")
    results: tuple[FoundTitle, ...]
    generation: str
    reason: str | None
    detail: str | None
    took_ms: float


@dataclass(frozen=True, slots=True)
class AnswerWarning:
    """A warning about an answer: ``message`` says in a sentence what was found and what to do.

    ``about`` are the values that the ``code`` refers to, as texts: facets, sentence numbers from 0, a count.
    """

    code: str
    message: str
    about: tuple[str, ...]
