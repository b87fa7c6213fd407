"""The types of queries and answers.

The ranked list stays the same however it is cut into pages after the first and however far it is read. It
consists of windows of ``depth`` papers: the nearest by sentences and words, re-ranked among themselves,
then the next nearest, re-ranked, and so on. So no page changes the results of an earlier one, and a page deep
in the list costs no more re-ranking than the first. Scores descend within a window, but may rise from one
window to the next.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from models.errors import QueryError
from models.facets import matching_facets
from models.transport import Scorer
from models.types import Facet, Filters, Paper, RankedPaper
from service.answer_warnings import AnswerWarning, WarningCode, warning
from service.search.aspect import Aspect, Part, Selection

# Measured: docs/decisions/retrieval/several-seeds.md.
DEFAULT_NEGATIVE_WEIGHT = 0.4
# The most alignments of one result, so that no answer grows with the square of its abstracts.
MAX_ALIGNMENTS = 64
# The most papers of a list: more than anyone reads, and a bound on the work of one page.
MAX_LISTED = 10_000


class Reason(StrEnum):
    """Why an answer has no paper."""

    FILTERED_OUT = "filtered_out"
    NO_SEED_RESOLVED = "no_seed_resolved"
    NOTHING_ELSE_INDEXED = "nothing_else_indexed"
    END_OF_LIST = "end_of_list"
    NO_SENTENCE_OF_THAT_FACET = "no_sentence_of_that_facet"
    NO_SUCH_TITLE = "no_such_title"
    NOTHING_ADDED = "nothing_added"
    NO_MATCH_ADDED = "no_match_added"


class Detail(StrEnum):
    """The optional fields of a result, next to its paper's title and metadata, and its score."""

    ABSTRACT = "abstract"
    SENTENCES = "sentences"
    ALIGNMENTS = "alignments"
    HIGHLIGHTS = "highlights"


class Strategy(StrEnum):
    """How seeds are combined: papers similar to any seed (several interests), or to what all seeds share."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Page:
    """The start of a page: after ``offset`` papers of the list with windows of ``depth`` papers.

    With ``depth`` 0 the first page chooses the depth; all further pages keep it.
    """

    offset: int = 0
    depth: int = 0


FIRST_PAGE = Page()


@dataclass(frozen=True, slots=True)
class Window:
    """The papers of one window that are on a page: ``limit`` papers after the first ``skip``.

    The window itself has the candidates ``start`` to ``stop`` of the list.
    """

    start: int
    stop: int
    skip: int
    limit: int


def windows(page: Page, stop: int) -> Iterator[Window]:
    """Yield the windows with the papers from ``page.offset`` up to ``stop``, in order."""
    for start in range(page.offset // page.depth * page.depth, stop, page.depth):
        first, last = max(page.offset, start), min(stop, start + page.depth)
        yield Window(start, start + page.depth, first - start, last - first)


@dataclass(frozen=True, slots=True)
class Seed:
    """One of ``paper_id`` (or another name of an indexed paper), ``paper`` and ``text``, with its aspect.

    ``text`` is a claim or a few words. No part of it can be chosen: the facets of its aspect are those of the
    sentences that it is compared with. ``weight`` (over 0) is how much the seed counts relative to the others
    of its list.
    """

    paper_id: str | None = None
    paper: Paper | None = None
    text: str | None = None
    aspect: Aspect = field(default_factory=Aspect)
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Papers to start from (``seeds``) and papers to keep away from (``negatives``); a search has one seed.

    ``negative_weight`` is how much distance from the negatives counts, relative to nearness to the seeds.
    ``tau`` is the temperature of the marginals, ``words`` the weight of shared words, and ``specificity`` how
    much more specific sentences count, per unit of distance; 0 turns the latter two off, ``None`` takes the
    encoder's default. ``limit`` counts the papers after ``page.offset`` of the ranked list.
    ``skip_unresolved`` leaves out seeds that cannot be used, and the answer says why; otherwise the first
    such seed is an error. ``omit_pasted`` keeps pasted papers out of the answer, recognised by title or
    abstract; papers given by name are never in it. Both also hold for seeds that are left out.
    Details of results that are not in ``include`` are left empty; of the alignments beyond
    ``max_alignments`` (0 to MAX_ALIGNMENTS), only the sum is reported.
    """

    seeds: tuple[Seed, ...]
    negatives: tuple[Seed, ...] = ()
    strategy: Strategy = Strategy.ANY
    negative_weight: float = DEFAULT_NEGATIVE_WEIGHT
    filters: Filters = field(default_factory=Filters)
    scorer: Scorer = Scorer.OT
    tau: float | None = None
    words: float | None = None
    specificity: float | None = None
    limit: int = 10
    page: Page = FIRST_PAGE
    include: frozenset[Detail] = frozenset(Detail)
    max_alignments: int = MAX_ALIGNMENTS
    skip_unresolved: bool = False
    omit_pasted: bool = False

    def of_paper(self, paper_id: str) -> "SearchQuery":
        """Return the same query for another paper: the first seed with this ``paper_id``."""
        return replace(self, seeds=(replace(self.seeds[0], paper_id=paper_id),))

    def of_seeds(self, seeds: Iterable[Seed]) -> "SearchQuery":
        """Return the same query for other seeds; those without an aspect get that of the only seed here."""
        (own,) = self.seeds
        each = (replace(seed, aspect=own.aspect) if seed.aspect == Aspect() else seed for seed in seeds)
        return replace(self, seeds=tuple(each))

    def seeds_of(self, parts: Iterable[Part]) -> list[Seed]:
        """Return the seeds that these ``parts`` come from; a seed that is left out has none."""
        return [self.seeds[number] for number in sorted({part.seed for part in parts if not part.negative})]

    @property
    def pasted(self) -> list[Paper]:
        """The papers among the seeds and negatives that are given themselves, not by name."""
        return [seed.paper for seed in (*self.seeds, *self.negatives) if seed.paper is not None]

    @property
    def reads_text(self) -> bool:
        """Whether the encoder is needed to answer: some seed or negative is not given by name."""
        return any(seed.paper_id is None for seed in (*self.seeds, *self.negatives))


@dataclass(frozen=True, slots=True)
class UsedSeed:
    """Seed number ``number``, from 0, of its list (of the negatives if ``negative``), as it was understood.

    ``selected`` are the numbers of its sentences that count, ``unlike`` the numbers of those to be unlike;
    ``dropped_sentences`` is how many lie past the encoder's token limit.
    """

    number: int
    negative: bool
    paper: Paper
    selected: tuple[int, ...]
    unlike: tuple[int, ...] = ()
    dropped_sentences: int = 0


class SeedReason(StrEnum):
    """Why a seed is left out."""

    NOT_INDEXED = "not_indexed"
    NO_SENTENCE_OF_THAT_FACET = "no_sentence_of_that_facet"
    SELECTION_IMPOSSIBLE = "selection_impossible"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A paper that an unknown id may have meant."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class UnresolvedSeed:
    """Seed number ``number``, from 0, of its list, which is left out; ``detail`` says why in words.

    ``position`` is that of its paper, ``None`` if the seed names no paper of the collection.
    """

    number: int
    negative: bool
    reason: SeedReason
    detail: str
    did_you_mean: tuple[Suggestion, ...] = ()
    position: int | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Ranked papers, best first, the seeds that were used (negatives last), and those that could not be used.

    ``total`` counts the papers of the whole list, on all its pages; ``None`` if that is not known yet. If
    there are no results, ``reason`` and ``detail``, the reason in words, are set. ``next_page`` is ``None``
    at the end of the list. ``coverage`` is the share of the collection's papers that could be found, below 1
    while a machine that holds some of them is away. ``took_ms`` is wall time in milliseconds.
    """

    seeds: tuple[UsedSeed, ...]
    unresolved: tuple[UnresolvedSeed, ...]
    results: tuple[RankedPaper, ...]
    total: int | None
    next_page: Page | None
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float
    coverage: float = 1.0


# The reasons in words, as far as they do not depend on the query.
REASON_DETAILS = {
    Reason.NO_SEED_RESOLVED: "None of the seeds can be used; the answer says why for each of them.",
    Reason.NO_SENTENCE_OF_THAT_FACET: "No paper that matches the filters has a sentence of this facet; "
    "choose another facet, or none.",
    Reason.FILTERED_OUT: "No paper matches the filters; widen them.",
    Reason.NOTHING_ELSE_INDEXED: "The collection has no other paper.",
    Reason.END_OF_LIST: "The list ended with the page before this one.",
    Reason.NOTHING_ADDED: "No paper that matches the filters has been added since.",
    Reason.NO_MATCH_ADDED: "None of the papers added since is related to this search; include those that are "
    "hardly related (`weak=true`) to see them.",
}


def empty_page_reason(filters: Filters, page: Page = FIRST_PAGE) -> Reason:
    """Return why no paper may answer a query with these filters, or why a later page of its list is empty."""
    if page.offset:
        return Reason.END_OF_LIST
    return Reason.NOTHING_ELSE_INDEXED if filters == Filters() else Reason.FILTERED_OUT


def expect_apart(seeds: Sequence[UsedSeed]) -> None:
    """Raise QueryError if all chosen sentences of an indexed seed are also those of negatives."""
    away = {(seed.paper.id, n) for seed in seeds if seed.negative for n in seed.selected}
    for seed in seeds:
        both = seed.selected and all((seed.paper.id, n) in away for n in seed.selected)
        if both and seed.paper.id and not seed.negative:
            raise QueryError(
                f"{seed.paper.id!r} is both among the seeds and among the negatives; leave it out of one, or "
                "choose sentences or facets that do not overlap."
            )


def facet_warnings(
    aspect: Aspect, selection: Selection, present: frozenset[Facet | None]
) -> Iterator[AnswerWarning]:
    """Yield warnings for chosen facets that no query sentence has; ``present`` are the sentences' facets."""
    if selection.like:
        unlike = () if aspect.unlike is None else aspect.unlike.facets
        for code, facets in (
            (WarningCode.FACET_MISSING, aspect.facets),
            (WarningCode.UNLIKE_FACET_MISSING, unlike),
        ):
            if missing := [facet for facet in facets if not matching_facets(facet) & present]:
                yield warning(code, *missing)


def limit_warnings(aspect: Aspect, n_vectors: int) -> Iterator[AnswerWarning]:
    """Yield warnings for chosen sentences beyond the first ``n_vectors``, the only ones that were encoded."""
    unlike = None if aspect.unlike is None else aspect.unlike.sentences
    for code, chosen in (
        (WarningCode.SENTENCES_PAST_TOKEN_LIMIT, aspect.sentences),
        (WarningCode.UNLIKE_SENTENCES_PAST_TOKEN_LIMIT, unlike),
    ):
        if past := sorted({number for number in chosen or () if number >= n_vectors}):
            yield warning(code, *past)


def health_warnings(converged: Iterable[bool]) -> Iterator[AnswerWarning]:
    """Yield a warning if some results have a plan that did not meet its tolerance."""
    if unconverged := sum(not each for each in converged):
        yield warning(WarningCode.NOT_CONVERGED, unconverged)
