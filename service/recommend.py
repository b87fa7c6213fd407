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
from service.candidates import CANDIDATES_PER_RESULT, MORE_CANDIDATES
from service.merge import DEFAULT_NEGATIVE_WEIGHT, Kinship, score_seeds, seed_weights, usual_distances
from service.reasons import Reason, health_warnings, none_allowed
from service.recommended import Recommendation, explain_papers
from service.rerank import default_tau
from service.search import SearchEngine
from service.seed_candidates import seed_candidates
from service.seeds import ResolvedSeed, Seed, UnresolvedSeed, resolve_seeds

_DETAILS = {
    Reason.NO_SEED_RESOLVED: "None of the seeds can be used; unresolved says of each why.",
    Reason.FILTERED_OUT: "No paper but the seeds passes the filters; widen them.",
    Reason.NOTHING_ELSE_INDEXED: "The collection holds no paper but the seeds.",
}


@dataclass(frozen=True, slots=True)
class RecommendQuery:
    """Papers to start from, papers to keep away from, and who may answer; ``limit`` counts papers.

    ``negative_weight`` is how much being far from the negatives counts against being near to the seeds.
    """

    seeds: tuple[Seed, ...]
    negatives: tuple[Seed, ...] = ()
    akin_to: Kinship = Kinship.SOME
    negative_weight: float = DEFAULT_NEGATIVE_WEIGHT
    filters: Filters = field(default_factory=Filters)
    limit: int = 10


@dataclass(frozen=True, slots=True)
class RecommendAnswer:
    """Papers, best first, the seeds that were used (negatives last), and those that could not be.

    ``reason``, and ``detail``, which tells a person, are set when there are no results. ``took_ms`` is wall
    time.
    """

    seeds: tuple[ResolvedSeed, ...]
    unresolved: tuple[UnresolvedSeed, ...]
    results: tuple[Recommendation, ...]
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[str, ...]
    took_ms: float


def recommend(engine: SearchEngine, query: RecommendQuery) -> RecommendAnswer:
    """The papers akin to the seeds of ``query`` and not to its negatives; none of either is among them.

    A pasted paper is recognised in the collection by its title or abstract, letter case and spacing aside.
    Raises DeadlineError; EncoderMismatchError where pasted papers cannot be compared with the collection.
    """
    started = time.perf_counter()
    resolved, unresolved = resolve_seeds(engine, query.seeds, query.negatives)
    results: tuple[Recommendation, ...] = ()
    reason: Reason | None = Reason.NO_SEED_RESOLVED
    if not all(seed.negative for seed in resolved):
        results = tuple(_rank(engine, query, resolved))
        reason = None if results else none_allowed(query.filters)
    return RecommendAnswer(
        seeds=tuple(resolved),
        unresolved=tuple(unresolved),
        results=results,
        generation=engine.snapshot.generation,
        reason=reason,
        detail=None if reason is None else _DETAILS[reason],
        warnings=tuple(_warnings(resolved, results)),
        took_ms=(time.perf_counter() - started) * 1000,
    )


def _rank(engine: SearchEngine, query: RecommendQuery, seeds: Sequence[ResolvedSeed]) -> list[Recommendation]:
    snapshot = engine.snapshot
    encoder = snapshot.manifest.encoder
    positions = _candidates(engine, query, seeds)
    if not len(positions):
        return []
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
    best = _unlike_pasted(snapshot, positions, order, seeds, limit=query.limit)
    return explain_papers(
        snapshot,
        [(int(positions[i]), paper) for i, paper in best],
        seeds,
        weights[:, [i for i, _ in best]],
        settings=settings,
        unit=encoder.unit,
    )


def _candidates(
    engine: SearchEngine, query: RecommendQuery, seeds: Sequence[ResolvedSeed]
) -> Int64[np.ndarray, " k"]:
    """The papers to rank: allowed, and none of the seeds."""
    snapshot = engine.snapshot
    allowed = snapshot.allowed_papers(query.filters).copy()
    allowed[[seed.position for seed in seeds if seed.position is not None]] = False
    at_least = query.limit * CANDIDATES_PER_RESULT
    return seed_candidates(
        snapshot,
        [seed for seed in seeds if not seed.negative],
        akin_to=query.akin_to,
        n_papers=max(engine.n_candidates * MORE_CANDIDATES, at_least),
        at_least=at_least,
        allowed=allowed,
    )


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


def _warnings(seeds: Sequence[ResolvedSeed], results: Sequence[Recommendation]) -> Iterator[str]:
    """What a reader of the results should know, each once and as ``kind:what``."""
    yield from sorted({warning for seed in seeds for warning in seed.warnings})
    yield from health_warnings(result.converged for result in results)
