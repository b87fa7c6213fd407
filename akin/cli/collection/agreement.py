"""Comparison of the answers and the speed of two generations of a collection."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from models.errors import EncoderError, InputError, SnapshotError
from models.types import ProgressFn
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed

DEPTH: Final = 20
_PASTED: Final = 10  # how many papers are pasted too: a pasted paper takes a hundred times as long as an id


@dataclass(frozen=True, slots=True)
class Cost:
    """Median wall times of a search: by an indexed paper, and by a pasted one, which is encoded first.

    ``None`` if no search was run, or if the encoder can no longer be loaded.
    """

    by_id_ms: float | None
    pasted_ms: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two generations agree in the answers to ``n_papers`` papers that both contain.

    ``first_10`` and ``first_20`` are the mean shares of their first results that they have in common; ``tau``
    is Kendall's rank correlation of the common results, averaged over the questions with two or more.
    ``None`` if there was nothing to ask.
    """

    n_papers: int
    first_10: float | None
    first_20: float | None
    tau: float | None
    one: Cost
    other: Cost


def compare(
    one: SearchEngine, other: SearchEngine, *, n_questions: int, on_progress: ProgressFn
) -> Agreement:
    """Search both engines with the same reproducible sample of papers that both contain."""
    ids = _sample(one, other, n_questions)
    firsts: list[tuple[list[str], list[str]]] = []
    times: tuple[list[float], list[float]] = ([], [])
    for engine in (one, other):
        for paper_id in ids[:1]:
            _ask(engine, SearchQuery((Seed(paper_id),)))  # opens the index
    for done, paper_id in enumerate(ids):
        on_progress("Comparing", done, len(ids))
        found = []
        for engine, own_times in zip((one, other), times, strict=True):
            results, took_ms = _ask(engine, SearchQuery((Seed(paper_id),), limit=DEPTH))
            found.append(results)
            own_times.append(took_ms)
        firsts.append((found[0], found[1]))
    on_progress("Comparing", len(ids), len(ids))
    pasted = [_pasted_ms(engine, ids[:_PASTED]) for engine in (one, other)]
    taus = [tau for tau in (rank_correlation(*both) for both in firsts) if tau is not None]
    return Agreement(
        n_papers=len(ids),
        first_10=_mean(overlap(*both, depth=10) for both in firsts),
        first_20=_mean(overlap(*both, depth=DEPTH) for both in firsts),
        tau=_mean(taus),
        one=Cost(_median(times[0]), pasted[0]),
        other=Cost(_median(times[1]), pasted[1]),
    )


def overlap(one: Sequence[str], other: Sequence[str], *, depth: int) -> float:
    """Return the share of the first ``depth`` papers that two rankings have in common.

    If both rankings are shorter, the share is of the longer one; 1 for two empty rankings.
    """
    first, second = set(one[:depth]), set(other[:depth])
    longest = max(len(first), len(second))
    return len(first & second) / longest if longest else 1.0


def rank_correlation(one: Sequence[str], other: Sequence[str]) -> float | None:
    """Return Kendall's tau over the papers in both rankings, in [-1, 1]; ``None`` for fewer than two."""
    places = {paper_id: place for place, paper_id in enumerate(other)}
    common = [places[paper_id] for paper_id in one if paper_id in places]
    if len(common) < 2:
        return None
    from scipy.stats import kendalltau  # half of what this module takes to load

    return float(kendalltau(range(len(common)), common).statistic)


def _sample(one: SearchEngine, other: SearchEngine, n_questions: int) -> list[str]:
    """Draw papers that both collections contain with identical content."""
    ids: list[str] = []
    for position in np.random.default_rng(0).permutation(one.snapshot.positions):
        if len(ids) == n_questions:
            break
        paper_id = one.snapshot.paper(int(position)).id
        if one.snapshot.content_hash(paper_id) == other.snapshot.content_hash(paper_id):
            ids.append(paper_id)
    return ids


def _ask(engine: SearchEngine, query: SearchQuery) -> tuple[list[str], float]:
    started = time.perf_counter()
    answer = engine.search(query)
    took_ms = (time.perf_counter() - started) * 1000
    return [result.paper.id for result in answer.results], took_ms


def _pasted_ms(engine: SearchEngine, ids: Sequence[str]) -> float | None:
    papers = [engine.snapshot.paper(engine.snapshot.position(paper_id)) for paper_id in ids]
    # The weights of an old collection's encoder may be gone.
    with suppress(EncoderError, InputError, SnapshotError):
        _ = engine.annotator
        return _median([_ask(engine, SearchQuery((Seed(paper=paper),), limit=DEPTH))[1] for paper in papers])
    return None


def _mean(numbers: Iterable[float]) -> float | None:
    known = list(numbers)
    return float(np.mean(known)) if known else None


def _median(numbers: Sequence[float]) -> float | None:
    return float(np.median(numbers)) if numbers else None
