"""Re-rank: candidates compared with the parts of a query by transport on full-precision vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Float64, Int64

from indexer.snapshot.snapshot import Snapshot
from models.transport import SERVING, Plan, Plans, Scorer, TransportSettings, score_papers
from models.types import EncoderSpec, MatchedWords, Paper
from service.context import check_deadline, stage
from service.search.aspect import Part, of_one_seed
from service.search.combine import own_weights, seed_weights
from service.search.query import Kinship
from service.search.words import WITHOUT_WORDS, QueryVectors

# The marginals' temperature, in units of distance: unit vectors lie closer together than raw ones. Measured:
# docs/why.md, "A temperature for unit vectors".
_TAU_OF_UNIT_VECTORS = 0.15
_TAU_OF_TEXTS = 0.1
# Cells of one block, a cell being one query sentence beside one of a paper: a block takes 0.5 ms with usual
# abstracts, some 20 ms with those that transport finds hardest. A pair of papers is never split.
BLOCK_CELLS = 4_096
# Papers whose vectors are read at once.
_BATCH = 256
# Plans are kept for the explanation while there are so few parts; else they are made again for what is shown.
_MAX_KEPT = 2
# What is usual for a seed is measured on so many papers, evenly spread through the collection.
_SAMPLE_PAPERS = 100
# Distances below this are no measure of anything: all papers sampled are the seed over again.
_MIN_DISTANCE = 1e-6


def default_tau(spec: EncoderSpec, *, text: bool = False) -> float:
    """The temperature that an encoder was tuned at, or else that suits its vectors.

    ``text``: of a short text beside words that count, which one sentence of a paper may say.
    """
    if spec.tau is not None:
        return spec.tau
    if text and spec.normalised:
        return _TAU_OF_TEXTS
    return _TAU_OF_UNIT_VECTORS if spec.normalised else SERVING.tau


@dataclass(frozen=True, slots=True)
class Ranked:
    """The papers at ``positions``, best first, and how much each part counts in their scores.

    ``plans[b][p]`` are those of part ``p`` with batch ``b`` of the papers as they were compared, where they
    were kept; ``order[i]`` is where paper ``i`` stood then. ``word_distances`` are how far the papers are by
    words, over all parts.
    """

    positions: Int64[np.ndarray, " k"]
    weights: Float64[np.ndarray, "n_parts k"]
    order: Int64[np.ndarray, " k"]
    word_distances: Float64[np.ndarray, " k"]
    plans: tuple[tuple[Plans, ...], ...] = ()


class Comparison:
    """Compares papers of a snapshot with the parts of a query, ``scorer`` and ``settings`` saying how.

    ``words`` are those of the parts; where they do not count, scores are as transport gives them, to the bit.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        parts: Sequence[Part],
        *,
        scorer: Scorer,
        settings: TransportSettings,
        words: QueryVectors = WITHOUT_WORDS,
    ) -> None:
        self._snapshot = snapshot
        self._parts = parts
        self._scorer = scorer
        self._settings = settings
        self._words = words

    def rank(self, positions: Int64[np.ndarray, " k"], *, akin_to: Kinship, negative_weight: float) -> Ranked:
        """The papers at ``positions`` by their scores, ties by position.

        Of one seed each part counts as it was asked; of several as ``combine.seed_weights`` has it. Raises
        DeadlineError.
        """
        with stage("rerank"):
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
                    scores, self._usual, self._parts, akin_to=akin_to, negative_weight=negative_weight
                )
            totals = (weights * scores).sum(axis=0)
            word_distances = np.zeros(len(positions))
            if self._words.weight:
                word_distances = (weights * self._words.distances(positions)).sum(axis=0)
                totals -= self._words.weight * word_distances
        order = np.lexsort((positions, -totals))
        return Ranked(positions[order], weights[:, order], order, word_distances[order], tuple(compared))

    def words(self, ranked: Ranked, place: int, paper: Paper) -> MatchedWords:
        """What words have to do with the score of the ``paper`` at ``place`` of ``ranked``."""
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
                rows, offsets = self._snapshot.gather(ranked.positions[first:last][counting])
                compared = self._plans(part, rows, offsets)
                for i, paper in enumerate(counting.tolist()):
                    plans[paper].append((number, compared[i]))
        return plans

    def _compare(self, positions: Int64[np.ndarray, " k"]) -> Iterator[tuple[Plans, ...]]:
        for batch in np.split(positions, range(_BATCH, len(positions), _BATCH)):
            rows, offsets = self._snapshot.gather(batch)
            yield tuple(self._plans(part, rows, offsets) for part in self._parts)

    def _scores(self, positions: Int64[np.ndarray, " k"]) -> Float64[np.ndarray, "n_parts k"]:
        rows, offsets = self._snapshot.gather(positions)
        scores = np.empty((len(self._parts), len(positions)))
        for own, part in zip(scores, self._parts, strict=True):
            own[:] = self._plans(part, rows, offsets).scores
        return scores

    @cached_property
    def _usual(self) -> Float64[np.ndarray, " n_parts"]:
        """The mean distance of each part from the papers of the collection, on a sample."""
        living = self._snapshot.positions
        n_sampled = min(_SAMPLE_PAPERS, len(living))
        sample = living[np.linspace(0, len(living) - 1, n_sampled).astype(np.int64)]
        distances = -self._scores(sample).mean(axis=1)
        usual: Float64[np.ndarray, " n_parts"] = np.where(distances > _MIN_DISTANCE, distances, 1.0)
        return usual

    def _plans(
        self,
        part: Part,
        rows: Float32[np.ndarray, "n_rows dim"],
        offsets: Int64[np.ndarray, " k_plus_1"],
    ) -> Plans:
        return compare(part.vectors, rows, offsets, scorer=self._scorer, settings=self._settings)


def compare(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
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
        blocks.append(score_papers(query, own, bounds, scorer=scorer, settings=settings))
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
