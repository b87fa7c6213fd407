"""Re-rank: candidates compared with the parts of a query by transport on full-precision vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from indexer.snapshot.snapshot import Snapshot
from models.transport import SERVING, Plan, Plans, Scorer, TransportSettings, best_papers, score_papers
from models.transport.problem import distances
from models.types import EncoderSpec, MatchedWords, Paper, rows_of
from service.context import check_deadline
from service.search.aspect import NO_ROWS, Part, Rows, of_one_seed
from service.search.query import Strategy
from service.search.seeds import own_weights, seed_weights
from service.search.words import WITHOUT_WORDS, QueryVectors

# The marginals' temperature, in units of distance: unit vectors lie closer together than raw ones. Measured:
# docs/decisions/models/temperature.md.
_TAU_OF_UNIT_VECTORS = 0.15
_TAU_OF_TEXTS = 0.1
# Cells of one block, a cell being one query sentence beside one of a paper: a block takes 0.5 ms with usual
# abstracts, some 20 ms with those that transport finds hardest. A pair of papers is never split.
BLOCK_CELLS = 4_096
# Papers whose vectors are read at once.
_BATCH = 256
# Plans are kept for the explanation while there are so few parts; else they are made again for what is shown.
_MAX_KEPT = 2
# What is usual for a seed, and how specific its sentences are, is measured on so many papers.
SAMPLE_PAPERS = 100
# A sentence is as specific as the nearest of them are far, one paper in so many.
_NEAREST_OF = 20
# What specificity weighs, per unit of distance between unit vectors. Measured:
# docs/decisions/retrieval/specificity.md.
_SPECIFICITY = 8.0
MAX_SPECIFICITY = 100.0
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


def default_specificity(spec: EncoderSpec) -> float:
    """How much the specificity of sentences weighs; not measured, and so 0, for raw vectors."""
    return _SPECIFICITY if spec.normalised else 0.0


def specificity_weights(
    vectors: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    specificity: float,
) -> Float64[np.ndarray, " n_query"] | None:
    """How much each query sentence counts, as logarithms, by how far it is from the ``k`` sampled papers.

    ``specificity`` times the mean distance (L2) to the nearest of them, one in 20: what papers say that have
    nothing else in common, such as that code is available, is near in many. ``None``, for all alike, of one
    sentence, beside too few papers, and for a ``specificity`` of 0.
    """
    n_nearest = round((len(offsets) - 1) / _NEAREST_OF)
    if specificity == 0 or n_nearest == 0 or len(vectors) < 2:
        return None
    near = nearest_distances(vectors, rows, offsets)
    weights: Float64[np.ndarray, " n_query"] = specificity * np.sort(near, axis=1)[:, :n_nearest].mean(axis=1)
    return weights


def nearest_distances(
    vectors: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
) -> Float64[np.ndarray, "n_query k"]:
    """How far (L2) each query sentence is from the nearest sentence of each paper."""
    cost = distances(np.ascontiguousarray(vectors), rows, offsets)
    # Those of a paper stand together, one query sentence after the other.
    starts = len(vectors) * offsets[:-1, None] + np.arange(len(vectors)) * np.diff(offsets)[:, None]
    near: Float64[np.ndarray, "n_query k"] = np.minimum.reduceat(cost, starts.ravel()).reshape(starts.shape).T
    return near


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
        self._plan = partial(compare, scorer=scorer, settings=settings)
        self._words = words
        self._specificity = specificity
        self._apart_from = apart_from

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
        compared = list(self._compare(positions)) if len(self._parts) <= _MAX_KEPT else []
        scores = (
            np.hstack([np.array([plans.scores for plans in batch]) for batch in compared])
            if compared
            else self._scores(positions)
        )
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
            *self._gather(positions, part),
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
                rows, offsets = self._gather(ranked.positions[first:last][counting], part)
                compared = self._plan(part.vectors, rows, offsets, log_weights=self._log_weights[number])
                for i, paper in enumerate(counting.tolist()):
                    plans[paper].append((number, compared[i]))
        return plans

    def compared(self, position: int) -> list[Int64[np.ndarray, "..."] | None]:
        """For each part the numbers of the sentences of a paper that are compared; ``None`` for all."""
        own = slice(*self._snapshot.offsets[position : position + 2])
        masks = (self._among[part.beside] for part in self._parts)
        return [None if mask is None else np.flatnonzero(mask[own]) for mask in masks]

    def _gather(self, positions: Int64[np.ndarray, " k"], part: Part) -> _Vectors:
        """The vectors of papers that are compared with ``part``, end to end, with their offsets."""
        return self._kept(*self._snapshot.gather(positions), positions, self._among[part.beside])

    def _gather_all(
        self, positions: Int64[np.ndarray, " k"], gathered: _Vectors | None = None
    ) -> list[_Vectors]:
        """The same for each part; the vectors are read once, unless they were ``gathered``."""
        gathered = gathered or self._snapshot.gather(positions)
        kept = {facets: self._kept(*gathered, positions, mask) for facets, mask in self._among.items()}
        return [kept[part.beside] for part in self._parts]

    def _kept(
        self,
        rows: Float32[np.ndarray, "n_read dim"],
        offsets: Int64[np.ndarray, " k_plus_1"],
        positions: Int64[np.ndarray, " k"],
        among: Bool[np.ndarray, " n_all_rows"] | None,
    ) -> _Vectors:
        if among is None:
            return rows, offsets
        kept = among[rows_of(self._snapshot.offsets, positions)[0]]
        return rows[kept], np.concatenate([[0], np.cumsum(kept)])[offsets]

    def _compare(self, positions: Int64[np.ndarray, " k"]) -> Iterator[tuple[Plans, ...]]:
        for batch in np.split(positions, range(_BATCH, len(positions), _BATCH)):
            yield tuple(
                self._plan(part.vectors, *vectors, log_weights=weights)
                for part, vectors, weights in zip(
                    self._parts, self._gather_all(batch), self._log_weights, strict=True
                )
            )

    def _scores(
        self, positions: Int64[np.ndarray, " k"], gathered: _Vectors | None = None
    ) -> Float64[np.ndarray, "n_parts k"]:
        scores = np.empty((len(self._parts), len(positions)))
        for own, part, vectors, weights in zip(
            scores, self._parts, self._gather_all(positions, gathered), self._log_weights, strict=True
        ):
            own[:] = self._plan(part.vectors, *vectors, log_weights=weights).scores
        return scores

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

    @cached_property
    def _log_weights(self) -> list[Float64[np.ndarray, " n_query"] | None]:
        """What the sentences of each part weigh; those that were picked by number count alike."""
        others = ~np.isin(self._snapshot.sample(SAMPLE_PAPERS), list(self._apart_from))
        rows, offsets = self._snapshot.sample_vectors(SAMPLE_PAPERS)
        if not others.all():
            lengths = np.diff(offsets)
            rows = rows[np.repeat(others, lengths)]
            offsets = np.concatenate([[0], np.cumsum(lengths[others])])
        return [
            None
            if part.picked or part.away
            else specificity_weights(part.vectors, rows, offsets, specificity=self._specificity)
            for part in self._parts
        ]

    @cached_property
    def _usual_reach(self) -> Float64[np.ndarray, " n_parts"]:
        """The mean distance of each part from a few papers of the collection, by sentences and words."""
        sample, gathered = self._sample(_REACH_PAPERS)
        usual = -self._scores(sample, gathered).mean(axis=1)
        if self._words.weight:
            usual += self._words.weight * self._words.distances(sample).mean(axis=1)
        distances: Float64[np.ndarray, " n_parts"] = np.maximum(usual, _MIN_DISTANCE)
        return distances

    @cached_property
    def _usual(self) -> Float64[np.ndarray, " n_parts"]:
        """The mean distance of each part from the papers of the collection, on a sample."""
        distances = -self._scores(*self._sample(SAMPLE_PAPERS)).mean(axis=1)
        usual: Float64[np.ndarray, " n_parts"] = np.where(distances > _MIN_DISTANCE, distances, 1.0)
        return usual


def compare(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
    log_weights: Float64[np.ndarray, " n_query"] | None = None,
    block_cells: int = BLOCK_CELLS,
) -> Plans:
    """What ``score_papers`` gives, to the bit, in blocks short enough for a deadline to be kept.

    A block has at most ``block_cells`` cells, or one paper. Raises DeadlineError, at most one block late.
    """
    blocks = []
    for first, last in _blocks(offsets, max(block_cells // max(len(query), 1), 1)):
        check_deadline()
        own = rows[offsets[first] : offsets[last]]
        bounds = offsets[first : last + 1] - offsets[first]
        blocks.append(
            score_papers(query, own, bounds, scorer=scorer, settings=settings, log_weights=log_weights)
        )
    if len(blocks) == 1:
        return blocks[0]
    return Plans(
        mass=np.concatenate([block.mass for block in blocks]),
        cost=np.concatenate([block.cost for block in blocks]),
        offsets=np.array(offsets),
        n_query=len(query),
        scores=np.concatenate([block.scores for block in blocks]),
        marginal_errors=np.concatenate([block.marginal_errors for block in blocks]),
        gaps=np.concatenate([block.gaps for block in blocks]),
        converged=np.concatenate([block.converged for block in blocks]),
        n_iterations=np.concatenate([block.n_iterations for block in blocks]),
    )


def _blocks(offsets: Int64[np.ndarray, " k_plus_1"], most: int) -> Iterator[tuple[int, int]]:
    """The first paper of each block of ``most`` rows and the one past its last; an empty one for no paper."""
    first, n_papers = 0, len(offsets) - 1
    while True:
        last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        last = min(max(last, first + 1), n_papers)
        yield first, last
        if last == n_papers:
            return
        first = last
