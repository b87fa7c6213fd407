"""What a service answers, as values of the client: the fields and names are those of the HTTP interface."""

from collections.abc import Iterable
from dataclasses import dataclass

_MIN_HIGHLIGHT = 0.05


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an abstract: ``abstract[start:end]``, counted in Unicode characters."""

    start: int
    end: int
    facet: str | None


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper of the collection; positions in ``sentences``, from 0, are the numbers answers speak of."""

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
        """The text of one sentence."""
        sentence = self.sentences[number]
        return self.abstract[sentence.start : sentence.end]


@dataclass(frozen=True, slots=True)
class FetchedPapers:
    """The papers with the names asked for, in order; ``None`` for each that is not there."""

    papers: tuple[Paper | None, ...]
    generation: str


@dataclass(frozen=True, slots=True)
class PaperList:
    """A page of the ``total`` papers that pass the filters; ``next_cursor`` is ``None`` at the end."""

    papers: tuple[Paper, ...]
    total: int
    next_cursor: str | None
    generation: str


@dataclass(frozen=True, slots=True)
class PaperAnswer:
    """A paper and the generation it was read from."""

    paper: Paper
    generation: str


@dataclass(frozen=True, slots=True)
class PapersAccepted:
    """What was added: ``unchanged`` papers were there word for word, the others show within seconds.

    ``change`` is the number of the last change of the collection.
    """

    accepted: int
    unchanged: int
    change: int
    generation: str


@dataclass(frozen=True, slots=True)
class AnswerWarning:
    """What to know of an answer: ``message`` says in a sentence what was found and what to do.

    ``about`` are the values that the ``code`` speaks of, as texts: facets, sentence numbers from 0, a count.
    """

    code: str
    message: str
    about: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """How much a query and a result sentence count together; ``None`` where a paper has one vector."""

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class Omitted:
    """The lightest alignments of a result, ``count`` of them, summed up; ``distance`` is their mean."""

    count: int
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class Highlight:
    """A sentence of a result, ``abstract[start:end]``, and its share of the match."""

    sentence: int | None
    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class SharedWord:
    """A word that query and result share, as the result writes it, and its share of what they all count."""

    term: str
    share: float


@dataclass(frozen=True, slots=True)
class Words:
    """How far apart query and result are by words, what that weighs, and the shared ones that count most."""

    weight: float
    distance: float
    terms: tuple[SharedWord, ...]


@dataclass(frozen=True, slots=True)
class Strength:
    """How good a match is, on one scale for all queries: ``label`` is strong, fair or weak.

    ``nearer_than`` is the share of the collection's papers, of a sample, that are farther from their own
    nearest paper than this one is from the query.
    """

    label: str
    nearer_than: float


@dataclass(frozen=True, slots=True)
class Result:
    """One paper with its score, higher is better.

    It is minus the sum of weight x distance over ``alignments``, ``omitted`` and ``words``.
    """

    paper: Paper
    score: float
    alignments: tuple[Alignment, ...]
    omitted: tuple[Omitted, ...]
    highlights: tuple[Highlight, ...]
    words: Words
    converged: bool
    strength: Strength | None = None

    def matching(self, limit: int = 3) -> tuple[tuple[str, float], ...]:
        """The sentences that match most, with their shares; those that hardly count are left out."""
        return matching(self.paper, self.highlights, limit)


def matching(paper: Paper, highlights: Iterable[Highlight], limit: int) -> tuple[tuple[str, float], ...]:
    """The sentences of a result that match most, with their shares."""
    ranked = sorted(highlights, key=lambda each: -each.weight)[:limit]
    counting = [each for each in ranked if each.weight >= _MIN_HIGHLIGHT]
    return tuple((paper.abstract[each.start : each.end], each.weight) for each in counting)


@dataclass(frozen=True, slots=True)
class QuerySentence:
    """A sentence of the query with its text, and the facet it was taken to have."""

    start: int
    end: int
    facet: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """What the query was taken to be; ``selected`` and ``unlike`` are numbers of its sentences."""

    id: str | None
    title: str
    sentences: tuple[QuerySentence, ...]
    selected: tuple[int, ...]
    unlike: tuple[int, ...]
    dropped_sentences: int


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Ranked papers; ``reason``, and ``detail`` in words, say why where there are none.

    Within each stretch of papers that were re-ranked together scores descend; from one to the next they may
    rise. ``total`` is how many papers all pages have together, ``None`` where that is not known yet.
    ``next_cursor`` leads to the next page and is ``None`` at the end of the list.
    """

    query: Query
    results: tuple[Result, ...]
    total: int | None
    next_cursor: str | None
    generation: str
    reason: str | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float = 0.0  # not told in a batch


@dataclass(frozen=True, slots=True)
class SeedAlignment(Alignment):
    """As in a search, and which seed: number ``seed`` of the seeds or, if ``negative``, of the negatives."""

    seed: int
    negative: bool


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One paper with its score, as in a search."""

    paper: Paper
    score: float
    alignments: tuple[SeedAlignment, ...]
    omitted: tuple[Omitted, ...]
    highlights: tuple[Highlight, ...]
    words: Words
    converged: bool
    strength: Strength | None = None

    def matching(self, limit: int = 3) -> tuple[tuple[str, float], ...]:
        """As ``Result.matching``."""
        return matching(self.paper, self.highlights, limit)


@dataclass(frozen=True, slots=True)
class Seed:
    """What a seed was taken to be, and the numbers of its sentences that counted."""

    seed: int
    negative: bool
    id: str | None
    title: str
    sentences: tuple[Sentence, ...]
    selected: tuple[int, ...]
    dropped_sentences: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A paper that an unknown id may have meant."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A seed, or negative, that could not be used, and why."""

    seed: int
    negative: bool
    reason: str
    detail: str
    did_you_mean: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True)
class RecommendationsAnswer:
    """Ranked papers, the seeds that counted and those that could not be used; scores are as in a search.

    ``reason``, and ``detail`` in words, say why where there are no papers. ``total`` is how many papers all
    pages have together, ``None`` where that is not known yet. ``next_cursor`` leads to the next page and is
    ``None`` at the end of the list.
    """

    results: tuple[Recommendation, ...]
    seeds: tuple[Seed, ...]
    unresolved: tuple[Unresolved, ...]
    total: int | None
    next_cursor: str | None
    generation: str
    reason: str | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float = 0.0  # not told in a batch


@dataclass(frozen=True, slots=True)
class PaperHead:
    """What names a paper, without its abstract."""

    id: str
    title: str
    year: int | None
    venue: str | None
    authors: tuple[str, ...]
    url: str | None
    doi: str | None


@dataclass(frozen=True, slots=True)
class FoundTitle:
    """A paper by its title; ``similarity`` is 1 for the same words, at least 0.6."""

    paper: PaperHead
    similarity: float


@dataclass(frozen=True, slots=True)
class TitlesAnswer:
    """Papers, the most alike title first; ``reason``, and ``detail`` in words, say why there are none."""

    results: tuple[FoundTitle, ...]
    generation: str
    reason: str | None
    detail: str | None
    took_ms: float


@dataclass(frozen=True, slots=True)
class FoundSentence:
    """One sentence, ``abstract[start:end]`` of its paper, and its L2 distance from the query's."""

    paper: PaperHead
    sentence: int
    text: str
    start: int
    end: int
    facet: str | None
    distance: float


@dataclass(frozen=True, slots=True)
class AskedSentence:
    """What the query was taken to be; a text has no paper."""

    paper_id: str | None
    title: str | None
    sentence: int | None
    text: str
    facet: str | None
    by: str


@dataclass(frozen=True, slots=True)
class SentenceAnswer:
    """Sentences, nearest first; ``reason``, and ``detail`` in words, say why where there are none."""

    query: AskedSentence
    results: tuple[FoundSentence, ...]
    generation: str
    reason: str | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float


@dataclass(frozen=True, slots=True)
class AnalyzedSentence:
    """A sentence, its facet, and how probable each facet is: they sum to 1."""

    start: int
    end: int
    facet: str | None
    text: str
    probabilities: dict[str, float]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The sentences of an abstract; of the last ``dropped_sentences`` the encoder read nothing."""

    title: str
    abstract: str
    sentences: tuple[AnalyzedSentence, ...]
    dropped_sentences: int
    tagger: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float
