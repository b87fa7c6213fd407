"""Explanations: the cells of transport plans that make up a paper's score, and the sentences that match."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from models.transport import Plan
from models.types import (
    NO_WORDS,
    Alignment,
    Highlight,
    MatchedWords,
    Omitted,
    Paper,
    RankedPaper,
    Strength,
    Unit,
)
from service.context import check_deadline
from service.search.aspect import Part
from service.search.query import MAX_ALIGNMENTS, Detail

# Lighter cells are left out of an explanation; 10,000 of them change a score by 1e-5 at distance 10.
_MIN_WEIGHT = 1e-10

# The details that are computed from cells of plans.
_OF_CELLS = frozenset({Detail.ALIGNMENTS, Detail.HIGHLIGHTS})
# The most highlights of one result.
MAX_HIGHLIGHTS = 32
# The heaviest sentences that make up this share of the match are marked.
_MARKED_SHARE = 0.8
# The most seeds of one result whose omitted cells are summed up apart.
MAX_OMITTED_SEEDS = 16


class _Cells(NamedTuple):
    """Cells of plans, end to end: their parts, rows, columns, signed weights and distances."""

    parts: Int64[np.ndarray, " n_cells"]
    rows: Int64[np.ndarray, " n_cells"]
    columns: Int64[np.ndarray, " n_cells"]
    weights: Float64[np.ndarray, " n_cells"]
    distances: Float64[np.ndarray, " n_cells"]

    def at(self, chosen: Int64[np.ndarray, " n"]) -> "_Cells":
        return _Cells(*(each[chosen] for each in self))


def explain(
    paper: Paper,
    parts: Sequence[Part],
    plans: Sequence[tuple[int, Plan]],
    weights: Float64[np.ndarray, " n_parts"],
    *,
    unit: Unit,
    include: Collection[Detail] = frozenset(Detail),
    max_alignments: int = MAX_ALIGNMENTS,
    words: MatchedWords = NO_WORDS,
    strength: Strength | None = None,
    compared: Sequence[Int64[np.ndarray, "..."] | None] = (),
) -> RankedPaper:
    """Return a paper with its score, and the cells of ``plans`` and the ``words`` that make up the score.

    ``plans`` are pairs of a part's number and its plan, for the parts that count. ``weights`` are how much
    each part counts, below 0 for parts to be unlike. Cells of parts to be like come first, then those of
    parts to be unlike, with weights below 0; on each side the heaviest first. The two sides share
    ``max_alignments`` equally; the lightest cells beyond it are summed up for each side and seed.
    Highlights are the sentences that match the parts to be like; at most MAX_HIGHLIGHTS, the heaviest. If
    ``include`` has neither, no cell is read.

    Row ``i`` of a plan belongs to query sentence ``i`` of its part, column ``j`` to the paper's sentence
    ``j``, or the ``j``-th of those ``compared`` with the part. With one vector per paper, the only cell
    belongs to the two whole abstracts. Raises DeadlineError.
    """
    check_deadline()
    alignments: tuple[Alignment, ...] = ()
    omitted: tuple[Omitted, ...] = ()
    highlights: tuple[Highlight, ...] = ()
    if not _OF_CELLS.isdisjoint(include):
        cells = _cells(plans, weights, compared)
        sides = _sides(cells)
        if Detail.ALIGNMENTS in include:
            alignments, omitted = _heaviest(cells, sides, max_alignments, parts, unit=unit)
        if Detail.HIGHLIGHTS in include:
            highlights = _highlights(paper, cells.at(sides[0]), unit=unit)
    return RankedPaper(
        _with_details(paper, include),
        score=_score(plans, weights, words),
        alignments=alignments,
        highlights=highlights,
        converged=all(plan.converged for _, plan in plans),
        gap=sum(abs(float(weights[number])) * plan.gap for number, plan in plans),
        omitted=omitted,
        words=words,
        strength=strength,
    )


def _sides(cells: _Cells) -> tuple[Int64[np.ndarray, "..."], Int64[np.ndarray, "..."]]:
    """Return the cells of the parts to be like and of the parts to be unlike, each with the heaviest first.

    Cells of equal weight come in the order of parts, rows and columns.
    """
    away = cells.weights < 0
    order = np.argsort(-np.abs(cells.weights), kind="stable")
    return (order, order[:0]) if not away.any() else (order[~away[order]], order[away[order]])


def _heaviest(
    cells: _Cells,
    sides: Sequence[Int64[np.ndarray, "..."]],
    max_alignments: int,
    parts: Sequence[Part],
    *,
    unit: Unit,
) -> tuple[tuple[Alignment, ...], tuple[Omitted, ...]]:
    """Return at most ``max_alignments`` cells of the ``sides`` as alignments, and the sums of the others."""
    n_unlike = max_alignments // 2 if len(sides[1]) else 0
    most = (max_alignments - n_unlike, n_unlike)
    alignments: list[Alignment] = []
    omitted: list[Omitted] = []
    for side, n_listed in zip(sides, most, strict=True):
        alignments += _alignments(cells.at(side[:n_listed]), parts, unit=unit)
        omitted += _omitted(cells.at(side[n_listed:]), parts)
    return tuple(alignments), tuple(omitted)


def _score(
    plans: Sequence[tuple[int, Plan]], weights: Float64[np.ndarray, " n_parts"], words: MatchedWords
) -> float:
    score = sum(float(weights[number]) * plan.score for number, plan in plans)
    return score - words.weight * words.distance if words.weight else score


def _with_details(paper: Paper, include: Collection[Detail]) -> Paper:
    """Return the paper with only the requested fields."""
    if Detail.ABSTRACT in include and Detail.SENTENCES in include:
        return paper
    return replace(
        paper,
        abstract=paper.abstract if Detail.ABSTRACT in include else "",
        sentences=paper.sentences if Detail.SENTENCES in include else (),
    )


def _cells(
    plans: Sequence[tuple[int, Plan]],
    weights: Float64[np.ndarray, " n_parts"],
    compared: Sequence[Int64[np.ndarray, "..."] | None],
) -> _Cells:
    """Return the cells with mass of all parts that count, part by part and row by row."""
    of_parts = [
        _of_part(number, plan, weights[number], compared[number] if compared else None)
        for number, plan in plans
        if weights[number]
    ]
    return of_parts[0] if len(of_parts) == 1 else _Cells(*map(np.concatenate, zip(*of_parts, strict=True)))


def _of_part(
    number: int, plan: Plan, weight: float, compared: Int64[np.ndarray, " n_compared"] | None
) -> _Cells:
    held = np.nonzero(plan.mass > _MIN_WEIGHT)
    rows, columns = held
    if compared is not None:
        columns = compared[columns]
    return _Cells(np.full(len(rows), number), rows, columns, weight * plan.mass[held], plan.cost[held])


def _alignments(cells: _Cells, parts: Sequence[Part], *, unit: Unit) -> list[Alignment]:
    numbers, rows, columns, weights, distances = (each.tolist() for each in cells)
    by_sentence = unit is Unit.SENTENCE
    of_query = [
        parts[number].sentences[row] if by_sentence else None
        for number, row in zip(numbers, rows, strict=True)
    ]
    of_paper = columns if by_sentence else [None] * len(columns)
    seeds, negatives = [parts[n].seed for n in numbers], [parts[n].negative for n in numbers]
    return list(map(Alignment, of_query, of_paper, weights, distances, seeds, negatives))


def _omitted(cells: _Cells, parts: Sequence[Part]) -> Iterator[Omitted]:
    """Yield the sums of one side's cells: one for each of the heaviest seeds, and one for the others.

    The others are two if some are negatives and some contrasts.
    """
    if not len(cells.weights):
        return
    numbers = np.array([2 * part.seed + part.negative for part in parts])
    seeds, own = np.unique(numbers[cells.parts], return_inverse=True)
    heaviest = np.argsort(-np.abs(np.bincount(own, cells.weights)), kind="stable")
    for place in heaviest[:MAX_OMITTED_SEEDS].tolist():
        seed, negative = divmod(int(seeds[place]), 2)
        yield _summed(cells.at(np.flatnonzero(own == place)), seed, negative=bool(negative))
    rest = heaviest[MAX_OMITTED_SEEDS:]
    for negative in (False, True):
        if len(others := rest[seeds[rest] % 2 == negative]):
            yield _summed(cells.at(np.flatnonzero(np.isin(own, others))), None, negative=negative)


def _summed(cells: _Cells, seed: int | None, *, negative: bool) -> Omitted:
    weight = float(cells.weights.sum())
    # Cells can be so light that products of weights round to 0.
    mean = float(cells.weights @ cells.distances) / weight if weight else float(cells.distances.mean())
    return Omitted(len(cells.weights), weight, mean, seed, negative)


def _highlights(paper: Paper, akin: _Cells, *, unit: Unit) -> tuple[Highlight, ...]:
    """Return the sentences in the cells of the parts to be like, with their shares of these cells' weight.

    Marked are the fewest that make up _MARKED_SHARE, except those with less than an even share: weights
    differ little, and five or six of seven sentences are needed for this share.
    """
    if unit is Unit.DOCUMENT:
        return (Highlight(None, 0, len(paper.abstract), 1.0, marked=True),)
    shares = np.bincount(akin.columns, weights=akin.weights) / akin.weights.sum()
    heaviest = np.argsort(-shares, kind="stable")[:MAX_HIGHLIGHTS]
    shares = shares[heaviest]
    needed = np.cumsum(shares) - shares < _MARKED_SHARE - 1e-9
    marked = needed & (shares * len(paper.sentences) >= 1 - 1e-9)
    return tuple(
        Highlight(j, paper.sentences[j].start, paper.sentences[j].end, share, mark)
        for j, share, mark in zip(heaviest.tolist(), shares.tolist(), marked.tolist(), strict=True)
        if share > _MIN_WEIGHT
    )
