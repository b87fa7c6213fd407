"""Measures of a ranking, in percent: those of ir-measures, and CSFCube's own.

Papers call two measures NDCG. That of CSFCube and ASPIRE does not discount rank 2, and only that one can have
a depth in percent: ``NDCG%20``, and for other depths ``CSFCube-NDCG@20`` and ``CSFCube-NDCG``. ``nDCG@10``
and ``nDCG`` are those of trec_eval, which discounts rank 2.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import ir_measures
from ir_measures import AP, RR, P, R, Rprec, nDCG
from ir_measures.measures import Measure as PublishedMeasure

from evaluation.collection import Collection, EvalQuery
from evaluation.run import Run
from models.errors import UnknownNameError

# ``P@20``, ``NDCG%20``: a measure and its depth.
_AT_DEPTH = re.compile(r"(.*[@%])([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class _Judged:
    """The judged ranking of one query: grades in ranked order, grades in the ideal order, pool size.

    A paper of the pool that the run left out ranks below all others: it is in ``ideal``, not in ``ranked``.
    """

    ranked: Sequence[int]
    ideal: Sequence[int]
    n_pool: int
    relevant_from: int

    @property
    def n_relevant(self) -> int:
        return self.n_relevant_in(self.ideal)

    def n_relevant_in(self, grades: Sequence[int]) -> int:
        return sum(grade >= self.relevant_from for grade in grades)


def _dcg(grades: Sequence[int]) -> float:
    """Sum grade 1 undiscounted and grade i over log2(i): ranks 1 and 2 count alike (semantics 3.7)."""
    return math.fsum(grade / math.log2(max(rank, 2)) for rank, grade in enumerate(grades, start=1) if grade)


def _ndcg(judged: _Judged, depth: int) -> float:
    ideal = _dcg(judged.ideal[:depth])
    return _dcg(judged.ranked[:depth]) / ideal if ideal else 0.0


def _ndcg_percent(judged: _Judged, percent: int) -> float:
    # In a pool of fewer than 100 / percent papers the depth would be 0.
    return _ndcg(judged, max(1, judged.n_pool * percent // 100))


def _map_at_r(judged: _Judged, _: int) -> float:
    """Compute MAP@R (Musgrave, Belongie and Lim, A Metric Learning Reality Check, ECCV 2020)."""
    n_relevant = judged.n_relevant
    found, total = 0, 0.0
    for rank, grade in enumerate(judged.ranked[:n_relevant], start=1):
        if grade >= judged.relevant_from:
            found += 1
            total += found / rank
    return total / n_relevant if n_relevant else 0.0


def _f1(judged: _Judged, k: int) -> float:
    """Compute 2PR / (P + R), which is twice their common numerator over the sum of their denominators."""
    return 2 * judged.n_relevant_in(judged.ranked[:k]) / (k + judged.n_relevant)


def _precision_at_last_relevant(judged: _Judged, _: int) -> float:
    """Return 0 if the run left out a relevant paper, as the rank of the last one is then undefined."""
    found = [rank for rank, grade in enumerate(judged.ranked, start=1) if grade >= judged.relevant_from]
    return len(found) / found[-1] if found and len(found) == judged.n_relevant else 0.0


@dataclass(frozen=True)
class _JudgedRun:
    """A run by query id: the ranked papers, the grades of the judged ones, and both together."""

    rankings: Mapping[str, Sequence[str]]
    grades: Mapping[str, Mapping[str, int]]
    judged: Mapping[str, _Judged]
    relevant_from: int

    @cached_property
    def answered(self) -> Sequence[str]:
        """The queries that are answered and judged."""
        return [query_id for query_id, ranking in self.rankings.items() if ranking and self.grades[query_id]]

    @cached_property
    def for_trec(self) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
        """Grades and scores of the answered queries by their number there, as trec_eval takes them."""
        # Ranks instead of scores: trec_eval breaks ties by descending id, and a ranking has one order here.
        # Numbers instead of query ids: the library cuts an id at a NUL.
        numbered = {str(number): query_id for number, query_id in enumerate(self.answered)}
        grades = {number: dict(self.grades[query_id]) for number, query_id in numbered.items()}
        ranks = {
            number: {paper_id: float(-rank) for rank, paper_id in enumerate(self.rankings[query_id])}
            for number, query_id in numbered.items()
        }
        return grades, ranks


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a ranking, with its meaning in words.

    ``values`` returns percent by query id for a run and the number in the name (0: none); a query that it
    leaves out counts 0.
    """

    meaning: str
    values: Callable[[_JudgedRun, int], Mapping[str, float]]


def _own(meaning: str, of: Callable[[_Judged, int], float]) -> Measure:
    """Return a measure computed here: ``of`` maps one query and the number in the name to 0 to 1."""
    return Measure(
        meaning,
        lambda run, number: {query_id: 100.0 * of(one, number) for query_id, one in run.judged.items()},
    )


def _trec(meaning: str, at: Callable[[int, int], PublishedMeasure]) -> Measure:
    """Return trec_eval's measure of ir-measures: ``at`` takes the least relevant grade and the number."""

    def values(run: _JudgedRun, number: int) -> dict[str, float]:
        if not run.answered:
            return {}
        metrics = ir_measures.iter_calc([at(run.relevant_from, number)], *run.for_trec)
        return {run.answered[int(metric.query_id)]: 100.0 * metric.value for metric in metrics}

    return Measure(meaning, values)


# Names as in tables; ``k`` and ``p`` stand for a number.
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "NDCG%p": _own("CSFCube's NDCG of the first p percent of the pool", _ndcg_percent),
        "CSFCube-NDCG@k": _own("CSFCube's NDCG to depth k", _ndcg),
        "CSFCube-NDCG": _own("CSFCube's NDCG over the whole pool", lambda one, _: _ndcg(one, one.n_pool)),
        "nDCG@k": _trec("trec_eval's nDCG to depth k", lambda _, k: nDCG @ k),
        "nDCG": _trec("trec_eval's nDCG over the whole ranking", lambda *_: nDCG),
        "MAP": _trec(
            "mean over the relevant papers of the precision at their ranks", lambda grade, _: AP(rel=grade)
        ),
        "MAP@R": _own(
            "the same over the first R ranks only, where R is the number of relevant papers", _map_at_r
        ),
        "P@k": _trec("the share of the first k papers that is relevant", lambda grade, k: P(rel=grade) @ k),
        "R@k": _trec("the share of the relevant papers among the first k", lambda grade, k: R(rel=grade) @ k),
        "F1@k": _own("the harmonic mean of P@k and R@k of each query", _f1),
        "RR": _trec("one over the rank of the first relevant paper", lambda grade, _: RR(rel=grade)),
        "Rprec": _trec(
            "the share of the first R papers that is relevant, with R as in MAP@R",
            lambda grade, _: Rprec(rel=grade),
        ),
        "precision@last-relevant": _own(
            "R divided by the rank of the last relevant paper; the papers call it R-precision",
            _precision_at_last_relevant,
        ),
    }
)


def per_query(
    collection: Collection, run: Run, measures: Sequence[str] | None = None
) -> dict[str, dict[str, float]]:
    """Return each measure (``None``: the collection's) as measure -> query id -> percent.

    A query that the run does not answer counts as 0, and so does a query without relevant papers. The query
    paper itself is dropped from ranking and judgements, and so are papers outside the query's pool; a paper
    of the pool that the run left out ranks below all others. If the pool is the whole collection, every
    judged paper counts, as in trec_eval. Raises UnknownNameError for a measure that is not in MEASURES.
    """
    names = tuple(dict.fromkeys(collection.measures if measures is None else measures))
    found = {name: _measure(name) for name in names}
    rankings = {query.id: _ranking(query, run) for query in collection.queries}
    grades = {query.id: pool_grades(query, collection) for query in collection.queries}
    judged = {
        query.id: _judged(query, collection, ranking=rankings[query.id], grades=grades[query.id])
        for query in collection.queries
    }
    judged_run = _JudgedRun(rankings, grades, judged, collection.relevant_from)
    values = {name: measure.values(judged_run, number) for name, (measure, number) in found.items()}
    return {name: {query_id: own.get(query_id, 0.0) for query_id in judged} for name, own in values.items()}


def _measure(name: str) -> tuple[Measure, int]:
    """Return ``MEASURES["P@k"]`` and 20 for ``"P@20"``; the number is 0 if the measure takes none."""
    match = _AT_DEPTH.fullmatch(name)
    family = name if match is None else match[1] + ("p" if match[1].endswith("%") else "k")
    if family not in MEASURES or (match is None and family[-2:] in {"@k", "%p"}):
        raise UnknownNameError(
            f"Unknown measure {name!r}; known: {', '.join(MEASURES)}, where k and p are numbers."
        )
    return MEASURES[family], 0 if match is None else int(match[2])


def _ranking(query: EvalQuery, run: Run) -> list[str]:
    allowed = frozenset(query.pool)
    return [
        paper_id
        for paper_id in run.ranking(query.id)
        if query.ranks(paper_id) and (not allowed or paper_id in allowed)
    ]


def pool_grades(query: EvalQuery, collection: Collection) -> dict[str, int]:
    """Return the grades of the judged papers that the query ranks: not its own, nor any outside its pool."""
    allowed = frozenset(query.pool)
    return {
        paper_id: grade
        for paper_id, grade in collection.qrels.get(query.id, {}).items()
        if query.ranks(paper_id) and (not allowed or paper_id in allowed)
    }


def _judged(
    query: EvalQuery, collection: Collection, *, ranking: Sequence[str], grades: Mapping[str, int]
) -> _Judged:
    pool = query.pool or collection.papers
    return _Judged(
        ranked=[grades.get(paper_id, 0) for paper_id in ranking],
        ideal=sorted(grades.values(), reverse=True),
        n_pool=len(pool) - sum(paper_id in pool for paper_id in {query.paper.id, *query.excluded}),
        relevant_from=collection.relevant_from,
    )
