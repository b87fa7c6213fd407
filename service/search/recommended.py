"""A recommended paper: its score, and the sentences of seeds and paper that make it up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from indexer.snapshot import Snapshot
from models.transport import Plan, TransportSettings
from models.types import Highlight, Omitted, Paper, Unit
from service.context import check_deadline, stage
from service.search.compare import compare
from service.search.rerank import MOST_ALIGNMENTS, highlights, whole_paper
from service.search.seeds import ResolvedSeed


@dataclass(frozen=True, slots=True)
class SeedAlignment:
    """How much a sentence of a seed and one of a result count together; ``distance`` is L2.

    ``seed`` is the seed's number in its list; a negative's weight is negative. Both sentences are ``None``
    where an encoder gives one vector for a whole paper.
    """

    seed: int
    negative: bool
    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One result: ``score == -sum(weight * distance)`` over ``alignments`` and ``omitted`` within 1e-5.

    Higher is better. ``alignments`` are the heaviest, ``omitted`` sums up the others, those of seeds and
    those of negatives. ``converged`` says whether every plan met its tolerance.
    """

    paper: Paper
    score: float
    alignments: tuple[SeedAlignment, ...]
    omitted: tuple[Omitted, ...]
    highlights: tuple[Highlight, ...]
    converged: bool


class _Cells(NamedTuple):
    """Cells of plans, end to end: of which seed, in which row and column, and what they weigh."""

    seeds: Int64[np.ndarray, " n_cells"]
    rows: Int64[np.ndarray, " n_cells"]
    columns: Int64[np.ndarray, " n_cells"]
    weights: Float64[np.ndarray, " n_cells"]
    distances: Float64[np.ndarray, " n_cells"]

    def at(self, chosen: Int64[np.ndarray, " n"] | Bool[np.ndarray, " n"]) -> "_Cells":
        return _Cells(*(each[chosen] for each in self))


@stage("explain")
def explain_papers(
    snapshot: Snapshot,
    papers: Sequence[tuple[int, Paper]],
    seeds: Sequence[ResolvedSeed],
    weights: Float64[np.ndarray, "n_seeds k"],
    *,
    settings: TransportSettings,
    unit: Unit,
) -> list[Recommendation]:
    """Each of ``papers``, given with its position, explained by the plans of the seeds that count for it.

    ``weights[s, i]`` is how much seed ``s`` counts in the score of paper ``i``. Raises DeadlineError.
    """
    positions = np.array([position for position, _ in papers], dtype=np.int64)
    plans: list[list[tuple[int, Plan]]] = [[] for _ in papers]
    for number, seed in enumerate(seeds):
        check_deadline()
        counting = np.flatnonzero(weights[number])
        if len(counting):
            rows, offsets = snapshot.gather(positions[counting])
            compared = compare(seed.vectors, rows, offsets, settings=settings)
            for i, paper in enumerate(counting.tolist()):
                plans[paper].append((number, compared[i]))
    return [
        _explain(paper, seeds, own, weights[:, i], unit=unit)
        for i, ((_, paper), own) in enumerate(zip(papers, plans, strict=True))
    ]


def _explain(
    paper: Paper,
    seeds: Sequence[ResolvedSeed],
    plans: Sequence[tuple[int, Plan]],
    weights: Float64[np.ndarray, " n_seeds"],
    *,
    unit: Unit,
) -> Recommendation:
    check_deadline()
    cells = _cells(plans, weights)
    order = np.argsort(-np.abs(cells.weights), kind="stable")
    rest = cells.at(order[MOST_ALIGNMENTS:])
    return Recommendation(
        paper,
        score=-float(cells.weights @ cells.distances),
        alignments=_alignments(cells.at(order[:MOST_ALIGNMENTS]), seeds, unit=unit),
        omitted=tuple(_summed(rest.at(side)) for side in (rest.weights > 0, rest.weights < 0) if side.any()),
        highlights=_highlights(paper, cells, unit=unit),
        converged=all(plan.converged for _, plan in plans),
    )


def _cells(plans: Sequence[tuple[int, Plan]], weights: Float64[np.ndarray, " n_seeds"]) -> _Cells:
    """Every cell with some mass, seed by seed, row by row."""
    numbered = [(number, plan, np.nonzero(plan.mass)) for number, plan in plans]
    return _Cells(
        seeds=np.concatenate([np.full(len(rows), number) for number, _, (rows, _) in numbered]),
        rows=np.concatenate([rows for _, _, (rows, _) in numbered]),
        columns=np.concatenate([columns for _, _, (_, columns) in numbered]),
        weights=np.concatenate([weights[number] * plan.mass[held] for number, plan, held in numbered]),
        distances=np.concatenate([plan.cost[held] for _, plan, held in numbered]),
    )


def _alignments(cells: _Cells, seeds: Sequence[ResolvedSeed], *, unit: Unit) -> tuple[SeedAlignment, ...]:
    by_sentence = unit is Unit.SENTENCE
    return tuple(
        SeedAlignment(
            seed=seeds[number].number,
            negative=seeds[number].negative,
            query_sentence=seeds[number].selected[row] if by_sentence else None,
            sentence=column if by_sentence else None,
            weight=weight,
            distance=distance,
        )
        for number, row, column, weight, distance in zip(*(each.tolist() for each in cells), strict=True)
    )


def _summed(cells: _Cells) -> Omitted:
    weight = float(cells.weights.sum())
    return Omitted(len(cells.weights), weight, float(cells.weights @ cells.distances) / weight)


def _highlights(paper: Paper, cells: _Cells, *, unit: Unit) -> tuple[Highlight, ...]:
    """The sentences that match the seeds, heaviest first, with their shares of that match."""
    if unit is Unit.DOCUMENT:
        return whole_paper(paper)
    akin = cells.at(cells.weights > 0)
    return highlights(paper, np.bincount(akin.columns, weights=akin.weights) / akin.weights.sum())
