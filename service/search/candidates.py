"""Candidates: papers that hold the sentences nearest to the query's (single match, semantics 3.3)."""

import numpy as np
from jaxtyping import Bool, Float32

from indexer.snapshot import Snapshot
from models.types import Candidate
from service.context import check_deadline, stage

# Single match hands the re-ranking at least this many papers for each result asked for.
CANDIDATES_PER_RESULT = 5
# So many times as many where papers are ranked by more than what found them, as with contrast: on 20,000 real
# abstracts 99.9 % of the first 20 papers are then those of re-ranking all (95.9 % without), at 6 ms more.
MORE_CANDIDATES = 5

# Where to start and how to widen. On 20,000 real abstracts 1.15 searches a query suffice, and a query takes
# three quarters of the time that 3 hits a paper take, with the same results.
_HITS_PER_PAPER = 1.5
_WIDEN = 2
# So few papers not allowed, as the query itself, are dropped from a longer list of hits: telling the index
# which of millions of rows it may return takes longer.
_FEW_PAPERS = 32
# How many times as many papers each further search of a long list asks for.
_DEEPER = 2


def depth_for(limit: int, *, least: int, contrast: bool) -> int:
    """How many papers are re-ranked together for ``limit`` results; ``least`` without contrast."""
    n_papers = max(least, limit * CANDIDATES_PER_RESULT)
    return n_papers * MORE_CANDIDATES if contrast else n_papers


def find_candidates(
    snapshot: Snapshot,
    query: Float32[np.ndarray, "n_query dim"],
    *,
    n_papers: int,
    allowed: Bool[np.ndarray, " n_papers"],
) -> list[Candidate]:
    """The ``n_papers`` allowed papers nearest by single match, best first; fewer only when fewer are allowed.

    A paper's score is -min over (query sentence, its sentence) of L2. The search widens until the list is
    what an unlimited one would give: a paper absent from every sentence's hits is farther than the nearest
    of the hit lists' ends. Ties are broken by position. Raises DeadlineError.
    """
    n_allowed = int(np.count_nonzero(allowed))
    wanted = min(n_papers, n_allowed)
    if wanted == 0:
        return []
    n_dropped = len(allowed) - n_allowed
    few = n_dropped <= _FEW_PAPERS
    allowed_rows = None if few else allowed[snapshot.paper_of_row]
    n_rows = snapshot.n_rows if allowed_rows is None else int(np.count_nonzero(allowed_rows))
    n_hits = min(int((wanted + (n_dropped if few else 0)) * _HITS_PER_PAPER), n_rows)
    while True:
        check_deadline()
        hits = snapshot.index.search(query, n_hits, allowed=allowed_rows)
        found = hits.rows >= 0
        papers, scores = _best_by_paper(snapshot.paper_of_row[hits.rows[found]], hits.scores[found])
        papers, scores = papers[allowed[papers]], scores[allowed[papers]]
        # Where a list is full, its end bounds what it left out; an exhausted list left nothing out.
        unseen = float(np.max(np.where(found[:, -1], hits.scores[:, -1], -np.inf)))
        if n_hits == n_rows or (len(papers) >= wanted and scores[wanted - 1] >= unseen):
            return [
                Candidate(int(paper), float(score))
                for paper, score in zip(papers[:wanted], scores[:wanted], strict=True)
            ]
        n_hits = min(n_hits * _WIDEN, n_rows)


@stage("candidates")
def list_candidates(
    snapshot: Snapshot,
    query: Float32[np.ndarray, "n_query dim"],
    *,
    n_papers: int,
    first: int,
    allowed: Bool[np.ndarray, " n_papers"],
) -> list[Candidate]:
    """The first ``n_papers`` of a list that is the same however far it is read; fewer if fewer are allowed.

    ``first`` papers come from one search, the rest from wider ones, in order, but for what was found before:
    an approximate index may find other papers when it is asked for more. The list depends on ``first``.
    """
    listed: dict[int, Candidate] = {}
    n_searched = first
    while True:
        for candidate in find_candidates(snapshot, query, n_papers=n_searched, allowed=allowed):
            listed.setdefault(candidate.position, candidate)
        # Fewer than asked for: there are no more.
        if n_searched >= n_papers or len(listed) < n_searched:
            return list(listed.values())[:n_papers]
        n_searched *= _DEEPER


def _best_by_paper(papers: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((-scores, papers))
    papers, scores = papers[order], scores[order]
    first = np.ones(len(papers), dtype=bool)
    first[1:] = papers[1:] != papers[:-1]
    papers, scores = papers[first], scores[first]
    best = np.lexsort((papers, -scores))
    return papers[best], scores[best]
