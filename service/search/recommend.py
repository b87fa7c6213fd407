"""Recommendations: many seeds in; papers akin to some of them, or to all, and to no negative one, out."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Int64

from indexer.snapshot import Snapshot
from models.sentences import wording
from models.transport import SERVING
from models.types import Filters, Paper
from service.search.candidates import CANDIDATES_PER_RESULT, MORE_CANDIDATES
from service.search.combine import (
    DEFAULT_NEGATIVE_WEIGHT,
    Kinship,
    score_seeds,
    seed_weights,
    usual_distances,
)
from service.search.engine import SearchEngine
from service.search.paging import FIRST_PAGE, Page
from service.search.reasons import Reason, health_warnings, none_allowed
from service.search.recommended import Recommendation, explain_papers
from service.search.rerank import default_tau
from service.search.seed_candidates import seed_candidates
from service.search.seeds import ResolvedSeed, Seed, UnresolvedSeed, resolve_seeds

_DETAILS = {
    Reason.NO_SEED_RESOLVED: "None of the seeds can be used; unresolved says of each why.",
    Reason.FILTERED_OUT: "No paper but the seeds passes the filters; widen them.",
    Reason.NOTHING_ELSE_INDEXED: "The collection holds no paper but the seeds.",
}


@dataclass(frozen=True, slots=True)
class RecommendQuery:
    """Papers to start from, papers to keep away from, and who may answer.

    ``limit`` counts papers, those after ``page.offset`` of the ranked list.
    ``negative_weight`` is how much being far from the negatives counts against being near to the seeds.
    """

    seeds: tuple[Seed, ...]
    negatives: tuple[Seed, ...] = ()
    akin_to: Kinship = Kinship.SOME
    negative_weight: float = DEFAULT_NEGATIVE_WEIGHT
    filters: Filters = field(default_factory=Filters)
    limit: int = 10
    page: Page = FIRST_PAGE


@dataclass(frozen=True, slots=True)
class RecommendAnswer:
    """Papers, best first, the seeds that were used (negatives last), and those that could not be.

    ``reason``, and ``detail``, which tells a person, are set when there are no results. ``next_page`` is
    ``None`` at the end of the list. ``took_ms`` is wall time.
    """

    seeds: tuple[ResolvedSeed, ...]
    unresolved: tuple[UnresolvedSeed, ...]
    results: tuple[Recommendation, ...]
    next_page: Page | None
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[str, ...]
    took_ms: float


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The papers of one page and where the next one begins.

    ``cut_at`` is set on the last page where more papers would follow than were compared.
    """

    results: tuple[Recommendation, ...] = ()
    next_page: Page | None = None
    cut_at: int | None = None


def recommend(engine: SearchEngine, query: RecommendQuery) -> RecommendAnswer:
    """The papers akin to the seeds of ``query`` and not to its negatives; none of either is among them.

    A pasted paper is recognised in the collection by its title or abstract, letter case and spacing aside.
    Raises DeadlineError; EncoderMismatchError where pasted papers cannot be compared with the collection.
    """
    started = time.perf_counter()
    resolved, unresolved = resolve_seeds(engine, query.seeds, query.negatives)
    ranked = _Ranked()
    reason: Reason | None = Reason.NO_SEED_RESOLVED
    if not all(seed.negative for seed in resolved):
        ranked = _rank(engine, query, resolved)
        reason = None if ranked.results else none_allowed(query.filters)
    return RecommendAnswer(
        seeds=tuple(resolved),
        unresolved=tuple(unresolved),
        results=ranked.results,
        next_page=ranked.next_page,
        generation=engine.snapshot.generation,
        reason=reason,
        detail=None if reason is None else _DETAILS[reason],
        warnings=tuple(_warnings(resolved, ranked)),
        took_ms=(time.perf_counter() - started) * 1000,
    )


def _rank(engine: SearchEngine, query: RecommendQuery, seeds: Sequence[ResolvedSeed]) -> _Ranked:
    """One page of the list, which is as long as there are candidates: all are compared for every page."""
    snapshot = engine.snapshot
    encoder = snapshot.manifest.encoder
    depth = query.page.depth or query.limit * CANDIDATES_PER_RESULT
    positions, n_allowed = _candidates(engine, query, seeds, depth=depth)
    if not len(positions):
        return _Ranked()
    settings = replace(SERVING, tau=default_tau(encoder))
    scores = score_seeds(snapshot, seeds, positions, settings=settings)
    weights = seed_weights(
        scores,
        usual_distances(snapshot, seeds, settings=settings),
        seeds,
        akin_to=query.akin_to,
        negative_weight=query.negative_weight,
    )
    order = np.lexsort((positions, -(weights * scores).sum(axis=0)))
    stop = query.page.offset + query.limit
    # One more than are shown tells whether the list goes on.
    best = _unlike_pasted(snapshot, positions, order, seeds, limit=stop + 1)
    shown = best[query.page.offset : stop]
    results = explain_papers(
        snapshot,
        [(int(positions[i]), paper) for i, paper in shown],
        seeds,
        weights[:, [i for i, _ in shown]],
        settings=settings,
        unit=encoder.unit,
    )
    if len(best) > stop:
        return _Ranked(tuple(results), Page(stop, depth))
    return _Ranked(tuple(results), cut_at=len(best) if len(positions) < n_allowed else None)


def _candidates(
    engine: SearchEngine, query: RecommendQuery, seeds: Sequence[ResolvedSeed], *, depth: int
) -> tuple[Int64[np.ndarray, " k"], int]:
    """The papers to rank: allowed, and none of the seeds; and how many of that kind there are.

    At least ``depth`` of them, and the same for every page of a list.
    """
    snapshot = engine.snapshot
    allowed = snapshot.allowed_papers(query.filters).copy()
    allowed[[seed.position for seed in seeds if seed.position is not None]] = False
    found = seed_candidates(
        snapshot,
        [seed for seed in seeds if not seed.negative],
        akin_to=query.akin_to,
        n_papers=max(engine.n_candidates * MORE_CANDIDATES, depth),
        at_least=depth,
        allowed=allowed,
    )
    return found, int(np.count_nonzero(allowed))


def _unlike_pasted(
    snapshot: Snapshot,
    positions: Int64[np.ndarray, " k"],
    order: Int64[np.ndarray, " k"],
    seeds: Sequence[ResolvedSeed],
    *,
    limit: int,
) -> list[tuple[int, Paper]]:
    """The first ``limit`` of ``order`` that are no pasted seed, each with its paper."""
    pasted = [seed.paper for seed in seeds if seed.position is None]
    wordings = {wording(text) for paper in pasted for text in (paper.title, paper.abstract)} - {""}
    best: list[tuple[int, Paper]] = []
    for i in order.tolist():
        paper = snapshot.paper(int(positions[i]))
        if not wordings & {wording(paper.title), wording(paper.abstract)}:
            best.append((i, paper))
        if len(best) == limit:
            break
    return best


def _warnings(seeds: Sequence[ResolvedSeed], ranked: _Ranked) -> Iterator[str]:
    """What a reader of the results should know, each once and as ``kind:what``."""
    yield from sorted({warning for seed in seeds for warning in seed.warnings})
    yield from health_warnings(result.converged for result in ranked.results)
    if ranked.cut_at is not None:
        yield f"list_ends_at:{ranked.cut_at}"
