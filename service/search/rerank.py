"""Re-ranking: compares candidates with the parts of a query by transport on full-precision vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64, Int64

from indexer.snapshot.distances import distances_to
from indexer.snapshot.snapshot import Snapshot
from models.transport import SERVING, Plan, Plans, Scorer, TransportSettings, best_by_cost, score_in_blocks
from models.types import EncoderSpec, Facet, MatchedWords, Paper, rows_of
from service.search.aspect import NO_ROWS, Part, Rows, is_single_seed, specificity_weights
from service.search.query import Strategy
from service.search.seeds import own_weights, seed_weights
from service.search.words import WITHOUT_WORDS, QueryVectors

# The temperature of the marginals, in units of distance: unit vectors are closer together than raw ones.
# Measured: docs/decisions/models/temperature.md.
_TAU_OF_UNIT_VECTORS = 0.15
_TAU_OF_TEXTS = 0.1
# Papers whose vectors are read at once.
_BATCH = 256
# Plans are kept for the explanation with up to this many parts; else they are solved again for shown papers.
_MAX_KEPT = 2
# Sampled papers that measure the usual distance of a seed and the specificity of its sentences.
SAMPLE_PAPERS = 100
# Sampled papers that measure the usual reach: the mean is within 1 % of that of all, at 1 ms a query.
_REACH_PAPERS = 32
# Smaller distances are useless as a unit: all sampled papers are copies of the seed.
_MIN_DISTANCE = 1e-6
# Sentence vectors of papers, or the numbers of their rows, end to end, and the offsets of each paper's.
_Vectors = tuple[np.ndarray, Int64[np.ndarray, " k_plus_1"]]


def default_tau(spec: EncoderSpec, *, text: bool = False) -> float:
    """Return the temperature that an encoder was tuned at, or else the default for its vectors.

    ``text`` is for a short text, with words that count, which a single sentence of a paper may match: the
    temperature of training on whole abstracts does not apply to it.
    """
    if text and spec.normalised:
        return _TAU_OF_TEXTS
    usual = _TAU_OF_UNIT_VECTORS if spec.normalised else SERVING.tau
    return usual if spec.tau is None else spec.tau


@dataclass(frozen=True, slots=True)
class Ranked:
    """The papers at ``positions``, best first, and how much each part counts in their scores.

    ``plans[b][p]`` are the plans of part ``p`` with batch ``b`` of the papers in the order they were compared
    in, if plans were kept; ``order[i]`` is the place of paper ``i`` in that order. ``word_distances`` are the
    weighted distances by words over all parts; ``reaches`` are the distances from each part to be like, by
    sentences and words, as a share of the part's usual distance from the collection's papers. ``shares`` are
    how much each of these counts in a score; those of a paper sum to 1.
    """

    positions: Int64[np.ndarray, " k"]
    weights: Float64[np.ndarray, "n_parts k"]
    order: Int64[np.ndarray, " k"]
    word_distances: Float64[np.ndarray, " k"]
    reaches: Float64[np.ndarray, "n_like k"]
    shares: Float64[np.ndarray, "n_like k"]
    plans: tuple[tuple[Plans, ...], ...] = ()


class Comparison:
    """Compares papers of a snapshot with the parts of a query, by ``scorer`` and ``settings``.

    ``specificity`` is how much more specific sentences count (``specificity_weights``), measured as reaches
    are: on a sample of the collection without the papers ``apart_from``, those of the query. ``words`` are of
    the parts; if words do not count, scores are bit for bit those of transport. A part is compared only with
    the sentences of a paper that are ``among`` the rows of its facets; each paper must have at least one.
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
        # The rows that parts are compared with, by the parts' facets; ``None`` for all rows.
        self._among = {part.beside: among.get(part.beside) for part in parts}
        self._scorer, self._settings = scorer, settings
        self._plan = partial(score_in_blocks, scorer=scorer, settings=settings)
        self._words = words
        self._specificity = specificity
        self._apart_from = apart_from
        # Computed when first needed; cached_property would make other requests wait for it (Python 3.11).
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
        """Rank the papers at ``positions`` by score, ties by position; at least the best ``n_best`` of them.

        With one seed, each part counts with its weight in the query; with several, by ``seed_weights``.
        Raises DeadlineError.
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
        if is_single_seed(self._parts):
            weights = own_weights(self._parts, len(positions))
        else:
            weights = seed_weights(
                scores, self._usual, self._parts, strategy=strategy, negative_weight=negative_weight
            )
        by_words = self._words.distances(positions) if self._words.weight else np.zeros_like(scores)
        word_distances = (weights * by_words).sum(axis=0)
        totals = (weights * scores).sum(axis=0) - self._words.weight * word_distances
        order = np.lexsort((positions, -totals))
        reaches, shares = self._reaches(scores[:, order], by_words[:, order], weights[:, order])
        return Ranked(
            positions[order],
            weights[:, order],
            order,
            word_distances[order],
            reaches,
            shares,
            tuple(compared),
        )

    @property
    def _is_bounded(self) -> bool:
        """Whether scores can be bounded before they are computed: a single part, compared by transport."""
        by_transport = self._scorer in {Scorer.OT, Scorer.EXACT_OT}
        return by_transport and len(self._parts) == 1 and is_single_seed(self._parts)

    def _rank_best(self, positions: Int64[np.ndarray, " k"], n_best: int) -> Ranked:
        """Return the first ``n_best`` papers of the full ranking, equal bit for bit."""
        part, weights = self._parts[0], own_weights(self._parts, len(positions))
        by_words = self._words.distances(positions) if self._words.weight else np.zeros((1, len(positions)))
        rows, offsets = self._gather(positions, rows_of(self._snapshot.offsets, positions))[part.beside]
        best = best_by_cost(
            distances_to(self._snapshot, part.vectors, rows, offsets),
            len(part.vectors),
            offsets,
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
            *self._reaches(best.plans.scores[None], by_words[:, order], weights[:, order]),
            ((best.plans,),),
        )

    def words(self, ranked: Ranked, place: int, paper: Paper | None) -> MatchedWords:
        """Return what words contribute to the score at ``place``; given the ``paper``, name shared words."""
        return self._words.matched(
            int(ranked.positions[place]),
            ranked.weights[:, place],
            distance=float(ranked.word_distances[place]),
            paper=paper,
        )

    def plans(self, ranked: Ranked, first: int, last: int) -> list[list[tuple[int, Plan]]]:
        """Return, for papers ``first`` to ``last`` of ``ranked``, the plans of the parts that count for each.

        Each plan is paired with the number of its part. Raises DeadlineError.
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
        """Return, for each part, the numbers of the paper's sentences that are compared; ``None`` for all."""
        own = slice(*self._snapshot.offsets[position : position + 2])
        masks = (self._among[part.beside] for part in self._parts)
        return [None if mask is None else np.flatnonzero(mask[own]) for mask in masks]

    def _gather(
        self, positions: Int64[np.ndarray, " k"], gathered: _Vectors | None = None
    ) -> dict[tuple[Facet, ...], _Vectors]:
        """Return what parts are compared with, by their facets: vectors, or what is ``gathered`` instead."""
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
        """Yield the plans of each part with the papers."""
        vectors = self._gather(positions, gathered)
        for part, weights in zip(self._parts, self._log_weights, strict=True):
            yield self._plan(part.vectors, *vectors[part.beside], log_weights=weights)

    def _scores(
        self, positions: Int64[np.ndarray, " k"], gathered: _Vectors | None = None
    ) -> Float64[np.ndarray, "n_parts k"]:
        return np.array([plans.scores for plans in self._compare(positions, gathered)])

    def _sample(self, n_papers: int) -> tuple[Int64[np.ndarray, " k"], _Vectors | None]:
        """Return sampled papers that can be compared with every part, and their vectors if these are kept."""
        having = [facets for facets, rows in self._among.items() if rows is not None]
        if having:
            return self._snapshot.sample(n_papers, *having), None
        return self._snapshot.sample(n_papers), self._snapshot.sample_vectors(n_papers)

    def _reaches(
        self,
        scores: Float64[np.ndarray, "n_parts k"],
        by_words: Float64[np.ndarray, "n_parts k"],
        weights: Float64[np.ndarray, "n_parts k"],
    ) -> tuple[Float64[np.ndarray, "n_like k"], Float64[np.ndarray, "n_like k"]]:
        """Return the ``reaches`` and ``shares`` of ``Ranked``."""
        like = [number for number, part in enumerate(self._parts) if not part.away]
        usual = self._usual_reach[like][:, None]
        shares = weights[like] * usual
        return (self._words.weight * by_words[like] - scores[like]) / usual, shares / shares.sum(axis=0)

    @property
    def _log_weights(self) -> list[Float64[np.ndarray, " n_query"] | None]:
        """The log weights of each part's sentences; ``None`` (equal) if picked by number or to be unlike."""
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
        """The mean distance of each part from sampled papers, not the query's own, by sentences and words."""
        if self._kept_usual_reach is not None:
            return self._kept_usual_reach
        sample, gathered = self._sample(_REACH_PAPERS)
        usual = -self._scores(sample, gathered)
        if self._words.weight:
            usual += self._words.weight * self._words.distances(sample)
        others = ~np.isin(sample, self._apart_from)
        mean = (usual[:, others] if others.any() else usual).mean(axis=1)
        self._kept_usual_reach = np.maximum(mean, _MIN_DISTANCE)
        return self._kept_usual_reach

    @property
    def _usual(self) -> Float64[np.ndarray, " n_parts"]:
        """The mean distance of each part from sampled papers, by sentences only; 1 if all are copies."""
        if self._kept_usual is not None:
            return self._kept_usual
        distances = -self._scores(*self._sample(SAMPLE_PAPERS)).mean(axis=1)
        self._kept_usual = usual = np.where(distances > _MIN_DISTANCE, distances, 1.0)
        return usual
