"""Comparing a query with many papers, in blocks short enough for a deadline to be kept."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int64

from models.transport import SERVING, Plans, Scorer, TransportSettings, score_papers
from service.context import check_deadline

# Cells of one block, a cell being one query sentence beside one of a paper: a block takes 0.5 ms with usual
# abstracts, some 20 ms with those that transport finds hardest. A pair of papers is never split.
BLOCK_CELLS = 4_096


def compare(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
    block_cells: int = BLOCK_CELLS,
) -> Plans:
    """What ``score_papers`` gives, to the bit; raises DeadlineError too, at most one block late.

    A block has at most ``block_cells`` cells, or one paper.
    """
    parts = []
    for first, last in _blocks(offsets, max(block_cells // max(len(query), 1), 1)):
        check_deadline()
        own = rows[offsets[first] : offsets[last]]
        bounds = offsets[first : last + 1] - offsets[first]
        parts.append(score_papers(query, own, bounds, scorer=scorer, settings=settings))
    if len(parts) == 1:
        return parts[0]
    return Plans(
        mass=np.concatenate([part.mass for part in parts]),
        cost=np.concatenate([part.cost for part in parts]),
        offsets=np.array(offsets),
        n_query=len(query),
        scores=np.concatenate([part.scores for part in parts]),
        marginal_errors=np.concatenate([part.marginal_errors for part in parts]),
        gaps=np.concatenate([part.gaps for part in parts]),
        converged=np.concatenate([part.converged for part in parts]),
        n_iterations=np.concatenate([part.n_iterations for part in parts]),
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
