"""Coverage: the papers that a query can reach while a machine is unavailable."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from jaxtyping import Bool

from indexer.snapshot.snapshot import Snapshot
from models.errors import ShardAwayError
from service.answer_warnings import WarningCode, coverage_warning
from service.context import check_deadline
from service.search.query import SearchAnswer

# How often a query is tried, with one more part of the collection gone each time.
_MAX_TRIES: Final = 8
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ReachablePapers:
    """The papers that can be found, ``None`` for all, and their share of the collection's papers."""

    papers: Bool[np.ndarray, " n_positions"] | None = None
    coverage: float = 1.0

    def within(self, allowed: Bool[np.ndarray, " n_positions"]) -> Bool[np.ndarray, " n_positions"]:
        """Return which of the ``allowed`` papers can be found."""
        return allowed if self.papers is None else allowed & self.papers


def reachable_papers(snapshot: Snapshot) -> ReachablePapers:
    """Return the papers that can be found now; raises ShardAwayError if all of a collection's are away."""
    away = snapshot.away
    if not away or not len(snapshot):
        return ReachablePapers()
    papers = ~snapshot.papers_of(away)
    n_found = int(np.count_nonzero(papers & snapshot.live))
    if not n_found:
        raise ShardAwayError(
            "No machine that holds a part of the collection responds; try again in a moment."
        )
    return ReachablePapers(papers, n_found / len(snapshot))


def answer_reachable(snapshot: Snapshot, answer: Callable[[ReachablePapers], _T]) -> _T:
    """Return what ``answer`` returns for the papers in reach; retry with fewer if a part goes away meanwhile.

    So the result is always complete for the papers in reach, as if they were selected by a filter. Raises
    ShardAwayError, DeadlineError.
    """
    for _ in range(_MAX_TRIES):
        reach = reachable_papers(snapshot)
        try:
            return answer(reach)
        except ShardAwayError:
            check_deadline()
    raise ShardAwayError(
        "The machines that hold parts of the collection are changing; try again in a moment."
    )


def covering(answer: SearchAnswer, coverage: float) -> SearchAnswer:
    """Return ``answer`` with this ``coverage``, the least of several searches, and its warning."""
    others = (each for each in answer.warnings if each.code is not WarningCode.PARTIAL_COVERAGE)
    return replace(answer, coverage=coverage, warnings=(*others, *coverage_warning(coverage)))
