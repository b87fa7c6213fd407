"""Candidates for many seeds, by one search: papers with sentences near to any of theirs, or to their mean."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float32, Int64

from indexer.snapshot import Snapshot
from service.context import check_deadline, stage
from service.search.combine import Kinship
from service.search.seeds import ResolvedSeed

# Measured: docs/why.md, "Several seeds". Sentences that are searched for; of more, each seed keeps those
# nearest to its own mean.
_MOST_SENTENCES = 512
# Hits of all sentences together, for each paper wanted, and of one sentence at least.
_HITS_PER_PAPER = 4
_LEAST_HITS = 20
_WIDEN = 4
# Sentences searched for between two looks at the deadline.
_TOGETHER = 64


@stage("candidates")
def seed_candidates(
    snapshot: Snapshot,
    seeds: Sequence[ResolvedSeed],
    *,
    akin_to: Kinship,
    n_papers: int,
    at_least: int,
    allowed: Bool[np.ndarray, " n_papers"],
) -> Int64[np.ndarray, " k"]:
    """The positions of up to ``n_papers`` allowed papers, nearest first; ties are broken by position.

    Near to any sentence of a seed, for papers akin to some; near to what all have in common, their mean, for
    papers akin to all. Fewer than ``at_least`` only where fewer are allowed. The index is asked once, for
    every query the same number of hits, and again for more only where these are of too few papers. Raises
    DeadlineError.
    """
    n_allowed = int(np.count_nonzero(allowed))
    if n_allowed == 0:
        return np.zeros(0, dtype=np.int64)
    queries = _queries(seeds, akin_to)
    allowed_rows = None if n_allowed == len(allowed) else allowed[snapshot.paper_of_row]
    n_rows = snapshot.n_rows if allowed_rows is None else int(np.count_nonzero(allowed_rows))
    n_hits = min(max(_LEAST_HITS, _HITS_PER_PAPER * n_papers // len(queries)), n_rows)
    while True:
        nearness = np.full(len(allowed), -np.inf, dtype=np.float32)
        for start in range(0, len(queries), _TOGETHER):
            check_deadline()
            hits = snapshot.index.search(queries[start : start + _TOGETHER], n_hits, allowed=allowed_rows)
            found = hits.rows >= 0
            np.maximum.at(nearness, snapshot.paper_of_row[hits.rows[found]], hits.scores[found])
        papers = np.flatnonzero(nearness > -np.inf)
        if len(papers) >= min(at_least, n_allowed) or n_hits == n_rows:
            nearest: Int64[np.ndarray, " k"] = papers[np.argsort(-nearness[papers], kind="stable")][:n_papers]
            return nearest
        n_hits = min(n_hits * _WIDEN, n_rows)


def _queries(seeds: Sequence[ResolvedSeed], akin_to: Kinship) -> Float32[np.ndarray, "n_query dim"]:
    if akin_to is Kinship.ALL and len(seeds) > 1:
        means = [seed.vectors.mean(axis=0) for seed in seeds]
        mean = np.average(means, axis=0, weights=[seed.weight for seed in seeds])
        return mean[None].astype(np.float32)
    per_seed = max(_MOST_SENTENCES // len(seeds), 1)
    return np.concatenate([_central(seed.vectors, per_seed) for seed in seeds])


def _central(vectors: Float32[np.ndarray, "n_query dim"], n: int) -> Float32[np.ndarray, "n_central dim"]:
    """The ``n`` vectors nearest to the mean of all; all where there are no more."""
    if len(vectors) <= n:
        return vectors
    distances = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
    return vectors[np.sort(np.argsort(distances, kind="stable")[:n])]
