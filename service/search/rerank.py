"""Re-rank: candidates compared with the parts of a query by transport on full-precision vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float32, Float64, Int64

from indexer.snapshot.snapshot import Snapshot
from models.transport import SERVING, Plan, Plans, Scorer, TransportSettings, best_papers, score_in_blocks
from models.types import EncoderSpec, Facet, MatchedWords, Paper, rows_of
from service.search.aspect import NO_ROWS, Part, Rows, of_one_seed, specificity_weights
from service.search.query import Strategy
from service.search.seeds import own_weights, seed_weights
from service.search.words import WITHOUT_WORDS, QueryVectors

# The marginals' temperature, in units of distance: unit vectors lie closer together than raw ones. Measured:
# docs/decisions/models/temperature.md.
_TAU_OF_UNIT_VECTORS = 0.15
_TAU_OF_TEXTS = 0.1
# Papers whose vectors are read at once.
_BATCH = 256
# Plans are kept for the explanation while there are so few parts; else they are made again for what is shown.
_MAX_KEPT = 2
# What is usual for a seed, and how specific its sentences are, is measured on so many papers.
SAMPLE_PAPERS = 100
# What is usual for a match, on so many: the mean is within 1 % of that of all, at 1 ms a query.
_REACH_PAPERS = 32
# Distances below this are no measure of anything: all papers sampled are the seed over again.
_MIN_DISTANCE = 1e-6
# Sentence vectors of papers, end to end, and where those of each begin and end.
_Vectors = tuple[Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " k_plus_1"]]


def default_tau(spec: EncoderSpec, *, text: bool = False) -> float:
    """The temperature that an encoder was tuned at, or else that suits its vectors.

    ``text``: of a short text beside words that count, which one sentence of a paper may say; how whole
    abstracts were compared in training says nothing of it.
    """
    if text and spec.normalised:
        return _TAU_OF_TEXTS
    if spec.tau is not None:
        return spec.tau
    return _TAU_OF_UNIT_VECTORS if spec.normalised else SERVING.tau


@dataclass(frozen=True, slots=True)
class Ranked:
    """The papers at ``positions``, best first, and how much each part counts in their scores.

    ``plans[b][p]`` are those of part ``p`` with batch ``b`` of the papers as they were compared, where they
    were kept; ``order[i]`` is where paper ``i`` stood then. ``word_distances`` are how far the papers are by
    words, over all parts; ``reaches`` how far they are from what they should be like, by sentences and words,
    as a share of what is usual for a paper of the collection.
    """

    positions: Int64[np.ndarray, " k"]
    weights: Float64[np.ndarray, "n_parts k"]
    order: Int64[np.ndarray, " k"]
    word_distances: Float64[np.ndarray, " k"]
    reaches: Float64[np.ndarray, " k"]
    plans: tuple[tuple[Plans, ...], ...] = ()


class Comparison:
    """Compares papers of a snapshot with the parts of a query, ``scorer`` and ``settings`` saying how.

    ``specificity`` is how much specific sentences count beside others (``specificity_weights``), beside a
    sample of the collection but for the papers ``apart_from``, which are the query's own.
    ``words`` are those of the parts; where they do not count, scores are as transport gives them, to the bit.
    Of papers a part is compared with the sentences ``among`` the rows of its facets, of which each must have
    one.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        parts: Sequence[Part],
        *,
        scorer: Scorer,
        settings: TransportSettings,
        words: QueryVectors = WITHOUT_WORDS,
        among: Rows = NO_ROWS,
        specificity: float = 0.0,
        apart_from: Sequence[int] = (),
    ) -> None:
        self._snapshot = snapshot
        self._parts = parts
        # The rows that parts are compared with, by their facets; ``None`` for all.
        self._among = {part.beside: among.get(part.beside) for part in parts}
        self._scorer, self._settings = scorer, settings
        self._plan = partial(score_in_blocks, scorer=scorer, settings=settings)
        self._words = words
        self._specificity = specificity
        self._apart_from = apart_from
        # Found out when first needed; cached_property would have other requests wait for it (Python 3.11).
        self._kept_log_weights: list[Float64[np.ndarray, " n_query"] | None] | None = None
        self._kept_usual_reach: Float64[np.ndarray, " n_parts"] | None = None
        self._kept_usual: Float64[np.ndarray, " n_parts"] | None = None

    def rank(
        self,
        positions: Int64[np.ndarray, " k"],
        *,
        strategy: Strategy,
        negative_weight: float,
        n_best: int | None = None,
    ) -> Ranked:
        """The papers at ``positions`` by their scores, ties by position; the ``n_best`` of them at least.

        Of one seed each part counts as it was asked; of several as ``seed_weights`` has it. Raises
        DeadlineError.
        """
        if n_best is not None and n_best <= _BATCH and self._is_bounded:
            return self._rank_best(positions, n_best)
        compared: list[tuple[Plans, ...]] = []
        if len(self._parts) <= _MAX_KEPT:
            batches = np.split(positions, range(_BATCH, len(positions), _BATCH))
            compared = [tuple(self._compare(batch)) for batch in batches]
            scores = np.hstack([np.array([plans.scores for plans in batch]) for batch in compared])
        else:
            scores = self._scores(positions)
        if of_one_seed(self._parts):
            weights = own_weights(self._parts, len(positions))
        else:
            weights = seed_weights(
                scores, self._usual, self._parts, strategy=strategy, negative_weight=negative_weight
            )
        by_words = self._words.distances(positions) if self._words.weight else np.zeros_like(scores)
        word_distances = (weights * by_words).sum(axis=0)
        totals = (weights * scores).sum(axis=0) - self._words.weight * word_distances
        reaches = self._reaches(scores, by_words, weights)
        order = np.lexsort((positions, -totals))
        return Ranked(
            positions[order],
            weights[:, order],
            order,
            word_distances[order],
            reaches[order],
            tuple(compared),
        )

    @property
    def _is_bounded(self) -> bool:
        """Whether a paper's score can be bounded before it is computed: one part, compared by transport."""
        by_transport = self._scorer in {Scorer.OT, Scorer.EXACT_OT}
        return by_transport and len(self._parts) == 1 and of_one_seed(self._parts)

    def _rank_best(self, positions: Int64[np.ndarray, " k"], n_best: int) -> Ranked:
        """The first ``n_best`` of what ``rank`` gives, to the bit."""
        part, weights = self._parts[0], own_weights(self._parts, len(positions))
        by_words = self._words.distances(positions) if self._words.weight else np.zeros((1, len(positions)))
        best = best_papers(
            part.vectors,
            *self._gather(positions)[part.beside],
            n_best,
            scorer=self._scorer,
            settings=self._settings,
            log_weights=self._log_weights[0],
            added=-self._words.weight * by_words[0],
            ties=positions,
        )
        order = best.order
        return Ranked(
            positions[order],
            weights[:, order],
            np.arange(len(order)),
            by_words[0, order],
            self._reaches(best.plans.scores[None], by_words[:, order], weights[:, order]),
            ((best.plans,),),
        )

    def words(self, ranked: Ranked, place: int, paper: Paper | None) -> MatchedWords:
        """What words have to do with the score of the ``paper`` at ``place`` of ``ranked``.

        Those that it shares are named where it is given.
        """
        return self._words.matched(
            int(ranked.positions[place]),
            ranked.weights[:, place],
            distance=float(ranked.word_distances[place]),
            paper=paper,
        )

    def plans(self, ranked: Ranked, first: int, last: int) -> list[list[tuple[int, Plan]]]:
        """For the papers ``first`` to ``last`` of ``ranked``, the plans of the parts that count for each.

        Each plan stands after its part's number. Raises DeadlineError.
        """
        if ranked.plans:
            places = [divmod(at, _BATCH) for at in ranked.order[first:last].tolist()]
            return [[(p, part[i]) for p, part in enumerate(ranked.plans[b])] for b, i in places]
        plans: list[list[tuple[int, Plan]]] = [[] for _ in range(first, last)]
        for number, part in enumerate(self._parts):
            counting = np.flatnonzero(ranked.weights[number, first:last])
            if len(counting):
                vectors = self._gather(ranked.positions[first:last][counting])[part.beside]
                compared = self._plan(part.vectors, *vectors, log_weights=self._log_weights[number])
                for i, paper in enumerate(counting.tolist()):
                    plans[paper].append((number, compared[i]))
        return plans

    def compared(self, position: int) -> list[Int64[np.ndarray, "..."] | None]:
        """For each part the numbers of the sentences of a paper that are compared; ``None`` for all."""
        own = slice(*self._snapshot.offsets[position : position + 2])
        masks = (self._among[part.beside] for part in self._parts)
        return [None if mask is None else np.flatnonzero(mask[own]) for mask in masks]

    def _gather(
        self, positions: Int64[np.ndarray, " k"], gathered: _Vectors | None = None
    ) -> dict[tuple[Facet, ...], _Vectors]:
        """The vectors that parts are compared with, by the parts' facets, end to end, with their offsets.

        Those of the papers are read once, unless they were ``gathered``.
        """
        rows, offsets = gathered or self._snapshot.gather(positions)
        vectors: dict[tuple[Facet, ...], _Vectors] = {}
        for facets, among in self._among.items():
            if among is None:
                vectors[facets] = rows, offsets
            else:
                kept = among[rows_of(self._snapshot.offsets, positions)[0]]
                vectors[facets] = rows[kept], np.concatenate([[0], np.cumsum(kept)])[offsets]
        return vectors

    def _compare(
        self, positions: Int64[np.ndarray, " k"], gathered: _Vectors | None = None
    ) -> Iterator[Plans]:
        """For each part its plans with the papers."""
        vectors = self._gather(positions, gathered)
        for part, weights in zip(self._parts, self._log_weights, strict=True):
            yield self._plan(part.vectors, *vectors[part.beside], log_weights=weights)

    def _scores(
        self, positions: Int64[np.ndarray, " k"], gathered: _Vectors | None = None
    ) -> Float64[np.ndarray, "n_parts k"]:
        return np.array([plans.scores for plans in self._compare(positions, gathered)])

    def _sample(self, n_papers: int) -> tuple[Int64[np.ndarray, " k"], _Vectors | None]:
        """Papers of the collection that can be compared with every part; their vectors where kept."""
        having = [facets for facets, rows in self._among.items() if rows is not None]
        if having:
            return self._snapshot.sample(n_papers, *having), None
        return self._snapshot.sample(n_papers), self._snapshot.sample_vectors(n_papers)

    def _reaches(
        self,
        scores: Float64[np.ndarray, "n_parts k"],
        by_words: Float64[np.ndarray, "n_parts k"],
        weights: Float64[np.ndarray, "n_parts k"],
    ) -> Float64[np.ndarray, " k"]:
        """The distances of papers from what they should be like, as shares of the usual ones."""
        like = [number for number, part in enumerate(self._parts) if not part.away]
        distances = weights[like] * (self._words.weight * by_words[like] - scores[like])
        reaches: Float64[np.ndarray, " k"] = distances.sum(axis=0) / (self._usual_reach[like] @ weights[like])
        return reaches

    @property
    def _log_weights(self) -> list[Float64[np.ndarray, " n_query"] | None]:
        """What the sentences of each part weigh; those that were picked by number count alike."""
        if self._kept_log_weights is not None:
            return self._kept_log_weights
        others = ~np.isin(self._snapshot.sample(SAMPLE_PAPERS), list(self._apart_from))
        rows, offsets = self._snapshot.sample_vectors(SAMPLE_PAPERS)
        if not others.all():
            lengths = np.diff(offsets)
            rows = rows[np.repeat(others, lengths)]
            offsets = np.concatenate([[0], np.cumsum(lengths[others])])
        self._kept_log_weights = [
            None
            if part.picked or part.away
            else specificity_weights(part.vectors, rows, offsets, specificity=self._specificity)
            for part in self._parts
        ]
        return self._kept_log_weights

    @property
    def _usual_reach(self) -> Float64[np.ndarray, " n_parts"]:
        """The mean distance of each part from a few papers of the collection, by sentences and words."""
        if self._kept_usual_reach is not None:
            return self._kept_usual_reach
        sample, gathered = self._sample(_REACH_PAPERS)
        usual = -self._scores(sample, gathered).mean(axis=1)
        if self._words.weight:
            usual += self._words.weight * self._words.distances(sample).mean(axis=1)
        distances: Float64[np.ndarray, " n_parts"] = np.maximum(usual, _MIN_DISTANCE)
        self._kept_usual_reach = distances
        return distances

    @property
    def _usual(self) -> Float64[np.ndarray, " n_parts"]:
        """The mean distance of each part from the papers of the collection, on a sample."""
        if self._kept_usual is not None:
            return self._kept_usual
        distances = -self._scores(*self._sample(SAMPLE_PAPERS)).mean(axis=1)
        self._kept_usual = usual = np.where(distances > _MIN_DISTANCE, distances, 1.0)
        return usual
