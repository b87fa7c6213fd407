"""Evaluation of the candidate stage: the recall of its candidates."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from evaluation.statistics.bootstrap import interval
from evaluation.statistics.summary import ALL, Figures, Row
from evaluation.tasks.task import TaskOptions
from indexer.index.vector_index import build_index
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.errors import InputError
from models.transport import SERVING, TransportSettings, score_papers
from models.types import Filters, ProgressFn
from service.search.candidates import find_candidates
from service.search.rerank import default_tau

DEPTHS = (10, 20, 50, 100, 200, 500)
# The first papers of the exhaustive re-ranking, which the candidates must contain.
TOP = 20
_BLOCK_PAPERS = 8_192


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One figure in percent over ``n`` queries, with its 95 % interval.

    ``recall``: how many of the ``depth`` nearest papers by exact single match are among the ``depth``
    candidates; there is no such row for the exact index. ``top@20``: how many of the first 20 papers of an
    exhaustive re-ranking by transport are among the candidates.
    """

    backend: str
    depth: int
    measure: str
    value: float
    low: float
    high: float
    n: int


def figure_rows(found: Sequence[CandidateRow]) -> list[Row]:
    """Return the figures as rows, with each backend and depth as a system."""
    return [
        Row("candidates", f"{one.backend}, depth {one.depth}", ALL, ALL, one.measure, *bounds)
        for one in found
        for bounds in [(one.value, one.low, one.high, one.n)]
    ]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The task that measures an indexed collection's candidate stage, with its own index and ``backends``."""

    backends: tuple[str, ...]

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure recall, and what re-ranking would lose, at each depth, with at most 50 queries."""
        found = measure_candidates(
            path,
            backends=self.backends,
            n_queries=min(options.limit_queries or 50, 50),
            device=options.device,
            on_progress=options.on_progress,
        )
        return Figures(len(open_snapshot(path)), found[0].n, tuple(figure_rows(found)))


def measure_candidates(
    data: Path,
    *,
    backends: Sequence[str] = (),
    n_queries: int = 50,
    seed: int = 0,
    tau: float | None = None,
    device: str = "cpu",
    on_progress: ProgressFn,
) -> list[CandidateRow]:
    """Measure the snapshot's own index and ``backends`` built on its vectors, for papers drawn as queries.

    A query is a whole abstract, with its own paper left out, as in the service; exact search scans all
    sentences. Depths beyond the size of the collection are left out. Raises InputError, SnapshotMissingError
    or SnapshotCorruptError.
    """
    snapshot = open_snapshot(data, device=device)
    depths = [depth for depth in DEPTHS if depth < len(snapshot)]
    if not depths:
        raise InputError(f"{data} holds {len(snapshot)} papers; candidates can be measured from 11 on.")
    own = snapshot.manifest.backends
    indexed = {own: snapshot}
    for backend in ("exact", *backends):
        if backend not in indexed:
            indexed[backend] = _with_backend(snapshot, backend, device=device)
    drawn = np.random.default_rng(seed).permutation(snapshot.positions)[:n_queries]
    settings = replace(SERVING, tau=default_tau(snapshot.manifest.encoder) if tau is None else tau)
    values: dict[tuple[str, int, str], dict[str, float]] = {}
    for number, position in enumerate(drawn.tolist()):
        on_progress("queries", number, len(drawn))
        for key, value in _of_query(snapshot, indexed, position, depths, settings).items():
            values.setdefault(key, {})[str(position)] = value
    on_progress("queries", len(drawn), len(drawn))
    rows = []
    for (backend, depth, measure), of_queries in values.items():
        found = interval(of_queries, {query: query for query in of_queries})
        rows.append(CandidateRow(backend, depth, measure, found.value, found.low, found.high, found.n))
    return rows


def _of_query(
    snapshot: Snapshot,
    indexed: Mapping[str, Snapshot],
    position: int,
    depths: Sequence[int],
    settings: TransportSettings,
) -> dict[tuple[str, int, str], float]:
    """Return each figure of one query, by backend, depth and measure."""
    query = snapshot.vectors(position)
    allowed = snapshot.allowed_papers(Filters(exclude_ids=frozenset({snapshot.paper(position).id})))

    def search(backend: str, depth: int) -> list[int]:
        found = find_candidates(indexed[backend], query, n_papers=depth, allowed=allowed)
        return [candidate.position for candidate in found]

    nearest = search("exact", max(depths))
    best = _reranked(snapshot, query, np.flatnonzero(allowed), settings)
    values = {}
    for backend in indexed:
        for depth in depths:
            # The results of exact search at a depth are the first ones at any greater depth.
            found = set(nearest[:depth] if backend == "exact" else search(backend, depth))
            if backend != "exact":
                values[backend, depth, "recall"] = 100 * len(found & set(nearest[:depth])) / depth
            values[backend, depth, f"top@{TOP}"] = 100 * len(found & best) / len(best)
    return values


def _reranked(
    snapshot: Snapshot,
    query: Float32[np.ndarray, "n_query dim"],
    positions: Int64[np.ndarray, " k"],
    settings: TransportSettings,
) -> set[int]:
    """Return the first TOP of ``positions`` when all of them are scored by transport."""
    scores = np.empty(len(positions))
    for start in range(0, len(positions), _BLOCK_PAPERS):
        block = slice(start, start + _BLOCK_PAPERS)
        rows, offsets = snapshot.gather(positions[block])
        scores[block] = score_papers(query, rows, offsets, settings=settings).scores
    return set(positions[np.lexsort((positions, -scores))[:TOP]].tolist())


def _with_backend(snapshot: Snapshot, backend: str, *, device: str) -> Snapshot:
    """Return a copy of the snapshot with the same papers and vectors under another index, built here."""
    other = copy.copy(snapshot)
    # ``index`` is computed once and kept on the instance; set here, it is never loaded from the snapshot.
    rows, _ = snapshot.gather(np.arange(len(snapshot.live)))
    other.index = build_index(rows, backend, device=device)
    return other
