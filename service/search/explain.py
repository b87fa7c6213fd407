"""Explain: the cells of transport plans that make up a paper's score, and the sentences that match."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from models.transport import Plan
from models.types import Alignment, Highlight, Omitted, Paper, RankedPaper, Unit
from service.context import check_deadline
from service.search.aspect import Part
from service.search.query import MAX_ALIGNMENTS, Detail

# Cells lighter than this are left out of an explanation; 10,000 of them move a score by 1e-5 at distance 10.
_LIGHTEST = 1e-10

# The most highlights of one result.
MAX_HIGHLIGHTS = 32


class _Cells(NamedTuple):
    """Cells of plans, end to end: of which part, in which row and column, and what they weigh."""

    parts: Int64[np.ndarray, " n_cells"]
    rows: Int64[np.ndarray, " n_cells"]
    columns: Int64[np.ndarray, " n_cells"]
    weights: Float64[np.ndarray, " n_cells"]
    distances: Float64[np.ndarray, " n_cells"]

    def at(self, chosen: Int64[np.ndarray, " n"] | Bool[np.ndarray, " n_cells"] | slice) -> "_Cells":
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
) -> RankedPaper:
    """A paper with its score and the cells of ``plans`` that make it up.

    ``plans`` are those of the parts that count, each after its part's number; ``weights`` are how much each
    part counts, under 0 for what the paper should be unlike. The cells of what it should be like come first,
    then those of what it should be unlike, whose weights are under 0; of each side the heaviest first. Past
    ``max_alignments``, shared equally by the sides, a side's lightest cells are summed up. Highlights are the
    sentences that match what the paper should be like; the lightest past MAX_HIGHLIGHTS are left out.

    Row ``i`` of a plan belongs to its part's query sentence ``i``, column ``j`` to sentence ``j``; with one
    vector a paper, the only cell belongs to the two whole abstracts. Raises DeadlineError.
    """
    check_deadline()
    cells = _cells(plans, weights)
    order = np.argsort(-np.abs(cells.weights), kind="stable")
    sides = [cells.at(order[held[order]]) for held in (cells.weights > 0, cells.weights < 0) if held.any()]
    most = max_alignments // len(sides)
    heaviest = (side.at(slice(most)) for side in sides) if Detail.ALIGNMENTS in include else ()
    return RankedPaper(
        _shown(paper, include),
        score=sum(float(weights[number]) * plan.score for number, plan in plans),
        alignments=tuple(cell for side in heaviest for cell in _alignments(side, parts, unit=unit)),
        highlights=_highlights(paper, cells, unit=unit) if Detail.HIGHLIGHTS in include else (),
        converged=all(plan.converged for _, plan in plans),
        omitted=tuple(_summed(side.at(slice(most, None))) for side in sides if len(side.weights) > most)
        if Detail.ALIGNMENTS in include
        else (),
    )


def _shown(paper: Paper, include: Collection[Detail]) -> Paper:
    """As much of a paper as is to be told."""
    if Detail.ABSTRACT in include and Detail.SENTENCES in include:
        return paper
    return replace(
        paper,
        abstract=paper.abstract if Detail.ABSTRACT in include else "",
        sentences=paper.sentences if Detail.SENTENCES in include else (),
    )


def _cells(plans: Sequence[tuple[int, Plan]], weights: Float64[np.ndarray, " n_parts"]) -> _Cells:
    """Every cell with some mass, part by part, row by row."""
    held = [(number, plan, np.nonzero(plan.mass > _LIGHTEST)) for number, plan in plans]
    return _Cells(
        parts=np.concatenate([np.full(len(rows), number) for number, _, (rows, _) in held]),
        rows=np.concatenate([rows for _, _, (rows, _) in held]),
        columns=np.concatenate([columns for _, _, (_, columns) in held]),
        weights=np.concatenate([weights[number] * plan.mass[at] for number, plan, at in held]),
        distances=np.concatenate([plan.cost[at] for _, plan, at in held]),
    )


def _alignments(cells: _Cells, parts: Sequence[Part], *, unit: Unit) -> Iterator[Alignment]:
    by_sentence = unit is Unit.SENTENCE
    for number, row, column, weight, distance in zip(*(each.tolist() for each in cells), strict=True):
        part = parts[number]
        yield Alignment(
            query_sentence=part.sentences[row] if by_sentence else None,
            sentence=column if by_sentence else None,
            weight=weight,
            distance=distance,
            seed=part.seed,
            negative=part.negative,
        )


def _summed(cells: _Cells) -> Omitted:
    weight = float(cells.weights.sum())
    return Omitted(len(cells.weights), weight, float(cells.weights @ cells.distances) / weight)


def _highlights(paper: Paper, cells: _Cells, *, unit: Unit) -> tuple[Highlight, ...]:
    """The sentences that match, heaviest first, with their shares of the match."""
    if unit is Unit.DOCUMENT:
        return (Highlight(None, 0, len(paper.abstract), 1.0),)
    akin = cells.at(cells.weights > 0)
    shares = np.bincount(akin.columns, weights=akin.weights) / akin.weights.sum()
    heaviest = np.argsort(-shares, kind="stable")[:MAX_HIGHLIGHTS].tolist()
    return tuple(
        Highlight(j, paper.sentences[j].start, paper.sentences[j].end, float(shares[j]))
        for j in heaviest
        if shares[j] > _LIGHTEST
    )
