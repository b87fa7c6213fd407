"""Resolution of seeds: the papers to start from, their vectors, and why some of them cannot be used.

The functions at the end combine the scores of the seeds' parts: which parts count for a paper, and how much.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64

from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import PaperNotFoundError, SentenceSelectionError
from models.types import Paper, Unit
from service.answer_warnings import AnswerWarning, WarningCode, warning
from service.context import check_deadline, stage
from service.resolve.paper_names import NOT_HERE, PaperNames
from service.resolve.pasted import read_pasted
from service.resolve.text_query import text_paper, text_warnings
from service.search.aspect import Aspect, Part, facets_missing, query_parts, select_sentences
from service.search.query import (
    SearchQuery,
    Seed,
    SeedReason,
    Strategy,
    Suggestion,
    UnresolvedSeed,
    UsedSeed,
    expect_apart,
    facet_warnings,
    limit_warnings,
)

_MAX_SUGGESTIONS = 3
# Looking for similar names reads all ids and titles, so only this many unknown seeds get suggestions.
_MAX_SUGGESTED_FOR = 16

# Measured: docs/decisions/retrieval/several-seeds.md.
# A seed that is farther from a paper than another seed by this much, as a share of the seed's usual distance,
# counts e times less.
_TEMPERATURE = 0.2
# With ``Strategy.ANY``, only this many of the nearest parts count for a paper.
_NEAREST_SEEDS = 10

_NOTHING_TO_CHOOSE = (
    "A query by text counts as one sentence, so leave out sentences, unlike and focus, or give the text as "
    "an abstract. A facet restricts the sentences of papers that the text is compared with; a text among "
    "the negatives takes none."
)


@dataclass(frozen=True, slots=True)
class ResolvedSeed:
    """A seed as it was understood, and its parts: none if no sentence has a chosen facet.

    ``position`` is ``None`` for a text and for a pasted paper. ``missing`` is a message with the requested
    facets that the seed lacks.
    """

    used: UsedSeed
    parts: tuple[Part, ...]
    position: int | None
    warnings: tuple[AnswerWarning, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class EncodedSeed:
    """A paper with its vectors, before any sentence is chosen; a pasted paper has no ``position``."""

    paper: Paper
    vectors: Float32[np.ndarray, "n_sentence dim"]
    position: int | None = None
    dropped_sentences: int = 0
    warnings: tuple[AnswerWarning, ...] = ()


class SeedReader:
    """Reads the seeds of queries to one collection.

    Args:
        snapshot: the collection.
        names: the papers of the collection by their names.
        annotator: loads the encoder, and the models that read its layers, when first called.
    """

    def __init__(self, snapshot: Snapshot, names: PaperNames, annotator: Callable[[], Annotator]) -> None:
        self._snapshot, self._names, self._annotator = snapshot, names, annotator

    def resolve(self, query: SearchQuery) -> tuple[list[ResolvedSeed], list[UnresolvedSeed]]:
        """Return the seeds and then the negatives that can be used, in order, and those that cannot.

        Raises DeadlineError; PaperNotFoundError and SentenceSelectionError unless ``query.skip_unresolved``.
        """
        resolved: list[ResolvedSeed] = []
        unresolved: list[UnresolvedSeed] = []
        for number, negative, seed in _numbered(query):
            check_deadline()
            try:
                seen = self._resolve(seed, number, negative=negative)
            except (PaperNotFoundError, SentenceSelectionError) as error:
                if not query.skip_unresolved:
                    raise
                unresolved.append(self._unresolved(number, negative, seed, error, among=unresolved))
                continue
            if query.skip_unresolved and not seen.parts:
                reason = SeedReason.NO_SENTENCE_OF_THAT_FACET
                lost = UnresolvedSeed(number, negative, reason, seen.missing, position=seen.position)
                unresolved.append(lost)
            else:
                resolved.append(seen)
        expect_apart([seed.used for seed in resolved])
        return resolved, unresolved

    def lost(self, query: SearchQuery, *, apart: bool = False) -> list[UnresolvedSeed]:
        """Return the seeds that cannot be used, as is known without the encoder.

        Raises DeadlineError; with ``apart``, as ``resolve``, QueryError if a paper is seed and negative.
        """
        lost: list[UnresolvedSeed] = []
        indexed: list[UsedSeed] = []
        for number, negative, seed in _numbered(query):
            check_deadline()
            try:
                if (used := self._indexed(seed, number, negative=negative)) is not None:
                    indexed.append(used)
            except (PaperNotFoundError, SentenceSelectionError) as error:
                lost.append(self._unresolved(number, negative, seed, error, among=lost))
        if apart:
            expect_apart(indexed)
        return lost

    def _indexed(self, seed: Seed, number: int, *, negative: bool) -> UsedSeed | None:
        """Return an indexed seed as it is used, else ``None``; raise as ``_resolve``, but encode nothing."""
        _expect_no_choice(seed, negative=negative)
        snapshot, aspect, unit = self._snapshot, seed.aspect, self._snapshot.manifest.encoder.unit
        if seed.paper_id is not None:
            position = self._names.position(seed.paper_id)
            paper = snapshot.paper(position)
            n_vectors = int(snapshot.offsets[position + 1] - snapshot.offsets[position])
            selection = select_sentences(aspect, paper, n_vectors=n_vectors, unit=unit)
            return UsedSeed(number, negative, paper, selection.like, selection.unlike)
        chooses = aspect.chooses or aspect.unlike is not None
        # The facets of a pasted paper are not known.
        if chooses and (unit is Unit.DOCUMENT or not aspect.names_facets):
            paper = text_paper(seed.text or "") if seed.paper is None else read_pasted(seed.paper)[0]
            select_sentences(aspect, paper, n_vectors=len(paper.sentences), unit=unit)
        return None

    def _resolve(self, seed: Seed, number: int, *, negative: bool) -> ResolvedSeed:
        # The facets of a text select the sentences to compare it with; the text itself has none.
        aspect = seed.aspect if seed.text is None else replace(seed.aspect, facets=())
        _expect_no_choice(seed, negative=negative)
        read = self.read(seed)
        n_vectors, unit = len(read.vectors), self._snapshot.manifest.encoder.unit
        # A collection without sentences has no facets to compare a text with.
        chosen = aspect if unit is Unit.SENTENCE else seed.aspect
        selection = select_sentences(chosen, read.paper, n_vectors=n_vectors, unit=unit)
        used = UsedSeed(
            number, negative, read.paper, selection.like, selection.unlike, read.dropped_sentences
        )
        present = frozenset(sentence.facet for sentence in read.paper.sentences[:n_vectors])
        warnings = (
            *read.warnings,
            *facet_warnings(aspect, selection, present),
            *limit_warnings(aspect, n_vectors),
        )
        if not selection.like:
            missing = facets_missing(aspect, read.paper, n_vectors=n_vectors)
            return ResolvedSeed(used, (), read.position, warnings, missing)
        parts = query_parts(
            aspect,
            selection,
            read.paper,
            read.vectors,
            unit=unit,
            weight=seed.weight,
            seed=number,
            negative=negative,
        )
        if seed.text is not None:
            parts = [replace(part, beside=tuple(sorted(set(seed.aspect.facets)))) for part in parts]
        return ResolvedSeed(used, tuple(parts), read.position, warnings)

    def read(self, seed: Seed) -> EncodedSeed:
        """Return the paper of a seed with its vectors; a pasted paper or text is encoded.

        Raises PaperNotFoundError, SentenceSelectionError, EncoderMismatchError and DeadlineError.
        """
        snapshot = self._snapshot
        if seed.paper_id is not None:
            position = self._names.position(seed.paper_id)
            paper, vectors = snapshot.paper(position), snapshot.vectors(position)
            return EncodedSeed(paper, vectors, position, snapshot.dropped_sentences(position))
        if seed.text is not None:
            paper = text_paper(seed.text)
            with stage("encode"):
                (encoded,) = self._annotator().encoder.encode([paper])
            return EncodedSeed(paper, encoded.sentences, warnings=text_warnings(paper.abstract))
        if seed.paper is None:
            raise SentenceSelectionError("The query is empty; give an id, a title and abstract, or a text.")
        paper, warnings = read_pasted(seed.paper)
        annotator, built_with = self._annotator(), snapshot.manifest.tagger
        # One paper at a time: as fast as a batch on a CPU, and the deadline is checked between papers.
        with stage("encode"):
            (annotated,) = annotator.annotate([paper])
        if seed.aspect.names_facets and annotator.tagger.spec.fingerprint != built_with.fingerprint:
            warnings += (warning(WarningCode.INDEXED_WITH_OTHER_TAGGER, built_with.name),)
        encoded = annotated.encoded
        return EncodedSeed(annotated.paper, encoded.sentences, None, encoded.dropped_sentences, warnings)

    def _unresolved(
        self, number: int, negative: bool, seed: Seed, error: Exception, *, among: list[UnresolvedSeed]
    ) -> UnresolvedSeed:
        if isinstance(error, SentenceSelectionError):
            position = None if seed.paper_id is None else self._names.position(seed.paper_id)
            reason = SeedReason.SELECTION_IMPOSSIBLE
            return UnresolvedSeed(number, negative, reason, str(error), position=position)
        n_strangers = sum(other.reason is SeedReason.NOT_INDEXED for other in among)
        near = tuple(self._suggestions(seed.paper_id or "")) if n_strangers < _MAX_SUGGESTED_FOR else ()
        detail = NOT_HERE + ("; did_you_mean lists what comes near." if near else ".")
        return UnresolvedSeed(number, negative, SeedReason.NOT_INDEXED, detail, near)

    def _suggestions(self, given: str) -> Iterator[Suggestion]:
        for paper in map(self._snapshot.paper, self._names.near(given, limit=_MAX_SUGGESTIONS)):
            yield Suggestion(paper.id, paper.title)


def _expect_no_choice(seed: Seed, *, negative: bool) -> None:
    """Raise SentenceSelectionError if parts of a text are chosen."""
    chosen = seed.aspect if negative else replace(seed.aspect, facets=())
    if seed.text is not None and chosen != Aspect():
        raise SentenceSelectionError(_NOTHING_TO_CHOOSE)


def _numbered(query: SearchQuery) -> Iterator[tuple[int, bool, Seed]]:
    """Yield number, whether it is a negative, and seed, for the seeds and then the negatives of a query."""
    for negative, seeds in ((False, query.seeds), (True, query.negatives)):
        for number, seed in enumerate(seeds):
            yield number, negative, seed


def own_weights(parts: Sequence[Part], n_papers: int) -> Float64[np.ndarray, "n_parts n_papers"]:
    """Return how much the parts of a single seed count: 1 for the first, minus its weight for a contrast."""
    given = np.array([-part.weight if part.away else part.weight for part in parts]) / parts[0].weight
    return np.repeat(given[:, None], n_papers, axis=1)


def seed_weights(
    scores: Float64[np.ndarray, "n_parts k"],
    usual: Float64[np.ndarray, " n_parts"],
    parts: Sequence[Part],
    *,
    strategy: Strategy,
    negative_weight: float,
) -> Float64[np.ndarray, "n_parts k"]:
    """Return the weight of each part of several seeds in the score of each paper (the sum of weight x score).

    Each part's distances are divided by its ``usual`` one, so that a seed near to everything does not decide
    alone. Over the parts to be like, weights sum to about 1; nearer ones weigh more, except with
    ``Strategy.ALL``. Over contrasts they sum to about minus their share of the given weights, over negatives
    to about minus ``negative_weight``, and the nearest always weigh most.
    """
    like, negative = np.array([(not part.away, part.negative) for part in parts]).T
    given = np.array([part.weight for part in parts])
    weights = np.zeros_like(scores)
    # Back to distances, in units of the usual distance of the seeds.
    unit = float(np.average(usual[like], weights=given[like]))
    contrast = ~(like | negative)
    for side, factor, combined in (
        (like, 1.0, strategy),
        (contrast, -given[contrast].sum() / given[like].sum(), Strategy.ANY),
        (negative, -negative_weight, Strategy.ANY),
    ):
        if side.any():
            shares = _shares(scores[side] / usual[side, None], given[side], combined)
            weights[side] = unit * factor * shares / usual[side, None]
    return weights


def _shares(
    relative: Float64[np.ndarray, "n_parts k"], given: Float64[np.ndarray, " n_parts"], strategy: Strategy
) -> Float64[np.ndarray, "n_parts k"]:
    """Return the share of each part in each paper's score; the shares of a paper sum to 1."""
    if strategy is Strategy.ALL:
        weighed = np.repeat(given[:, None], relative.shape[1], axis=1)
    else:
        nearness = np.exp((relative - relative.max(axis=0)) / _TEMPERATURE)
        weighed = given[:, None] * nearness * _nearest(relative)
    weighed /= weighed.sum(axis=0)
    return weighed


def _nearest(relative: Float64[np.ndarray, "n_parts k"]) -> Bool[np.ndarray, "n_parts k"]:
    """Return which parts are among the nearest to each paper; if parts are equally near, the first count."""
    nearest = np.zeros(relative.shape, dtype=bool)
    order = np.argsort(-relative, axis=0, kind="stable")[:_NEAREST_SEEDS]
    np.put_along_axis(nearest, order, True, axis=0)
    return nearest
