"""Re-ranking compared with other solvers on identical inputs: goals P1, P2 and P3.

Times are CPU seconds of this process with one thread and include distances and marginals; errors are the
largest |score - reference| over the pairs. The reference has distances and plans in float64: entropic plans
by the torch implementation, run to 1e-12, exact plans by POT's network simplex.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import ot
import torch

from benchmarks.suite.rows import ALL_SOLVED, OURS, WHOLE, Row, beside, in_turns, installed, share
from indexer.index.backends.nearest import as_bits
from models.transport import REFERENCE, SERVING, Scorer, best_by_cost, best_papers, score_papers
from models.transport.kernels import plans_of
from models.transport.problem import distances, marginals, set_distances
from models.transport.tensor import score_batch
from models.types import rows_of
from tests.support.examples.models.vectors import clustered_vectors

PAIRS, DIM, BEST = 1_000, 384, 20
_THREADS: Final = 4  # that score the same papers at the same time
_APART: Final = 5  # of this many stored papers, one is a candidate
_ROUGH: Final = 2e-5  # a marginal error that suffices for the goal, which allows as large an error of a score
_SERVED: Final = "as a page of results is ranked: bounds leave most pairs unsolved"
_REFERENCE_ERROR = 1e-10  # L1, of the marginals


@dataclass(frozen=True, slots=True)
class Papers:
    """A query and candidates, packed for our kernels and padded for the batched solvers."""

    query: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray
    padded: torch.Tensor
    mask: torch.Tensor


def made_up_papers(norm: float) -> Papers:
    """Return candidates of 4 to 16 sentences for a query of 8."""
    query, rows, offsets = clustered_vectors(0, n_papers=PAIRS, dim=DIM, norm=norm)
    lengths = np.diff(offsets)
    mask = torch.arange(int(lengths.max()))[None] < torch.from_numpy(lengths)[:, None]
    padded = torch.zeros(*mask.shape, DIM)
    padded[mask] = torch.from_numpy(rows)
    return Papers(query, rows, offsets, padded, mask)


def problems(papers: Papers) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield marginals and cost of every pair, for the solvers that take one pair at a time."""
    for i in range(len(papers.offsets) - 1):
        own = papers.rows[papers.offsets[i] : papers.offsets[i + 1]]
        cost = ot.dist(papers.query, own, metric="euclidean").astype(np.float64)
        a, b = (np.exp((cost.min() - cost.min(axis=axis)) / SERVING.tau) for axis in (1, 0))
        yield a / a.sum(), b / b.sum(), cost


def batched(papers: Papers) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return marginals and cost of all pairs, padded, in float32."""
    cost = torch.cdist(torch.from_numpy(papers.query)[None], papers.padded)
    shielded = cost.masked_fill(~papers.mask[:, None], torch.inf)
    a = (-shielded.amin(dim=2) / SERVING.tau).softmax(dim=1)
    b = (-shielded.amin(dim=1) / SERVING.tau).softmax(dim=1)
    return a, b, cost


def ours(papers: Papers) -> np.ndarray:
    """Score by entropic transport as Akin serves it."""
    return score_papers(papers.query, papers.rows, papers.offsets).scores


def ours_exact(papers: Papers) -> np.ndarray:
    """Score by exact transport as Akin serves it."""
    return score_papers(papers.query, papers.rows, papers.offsets, scorer=Scorer.EXACT_OT).scores


def ours_best(papers: Papers) -> np.ndarray:
    """Rank the first ``BEST`` papers by entropic transport, as Akin serves a page."""
    return best_papers(papers.query, papers.rows, papers.offsets, BEST).order


@dataclass(frozen=True, slots=True)
class Stored:
    """The candidates as a segment stores them: float16 rows, among those of other papers."""

    rows: np.ndarray
    numbers: np.ndarray


def stored(papers: Papers) -> Stored:
    """Return the candidates' rows as float16, each paper followed by ``_APART`` - 1 papers as long as it."""
    lengths = np.repeat(np.diff(papers.offsets), _APART)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    numbers, _ = rows_of(offsets, np.arange(0, len(lengths), _APART))
    rows = np.random.default_rng(0).standard_normal((offsets[-1], DIM), dtype=np.float32).astype(np.float16)
    rows[numbers] = papers.rows
    return Stored(rows, numbers)


def ours_stored(papers: Papers, kept: Stored) -> np.ndarray:
    """Rank the first ``BEST`` papers from stored rows, as Akin serves a page."""
    return best_by_cost(stored_distances(papers, kept), len(papers.query), papers.offsets, BEST).order


def stored_distances(papers: Papers, kept: Stored) -> np.ndarray:
    """Compute the distances to stored rows, which are read in place."""
    cost = np.empty(len(papers.query) * len(kept.numbers))
    pairs = (0, len(papers.offsets) - 1)
    set_distances(papers.query, as_bits(kept.rows), kept.numbers, papers.offsets, pairs, cost)
    return cost


def pot_emd(papers: Papers) -> np.ndarray:
    """Score with POT's exact network simplex, pair by pair."""
    return np.array([-ot.emd2(a, b, cost) for a, b, cost in problems(papers)])


def pot_sinkhorn(papers: Papers) -> np.ndarray:
    """Score with POT's Sinkhorn with its defaults, pair by pair."""
    return np.array(
        [-(ot.sinkhorn(a, b, cost, SERVING.epsilon) * cost).sum() for a, b, cost in problems(papers)]
    )


def pot_batch(papers: Papers) -> np.ndarray:
    """Score with POT's batched log-domain Sinkhorn on padded torch tensors, with its defaults."""
    a, b, cost = batched(papers)
    found = ot.solve_batch(cost, reg=SERVING.epsilon, a=a, b=b, grad="detach")
    return -(found.plan * cost).sum(dim=(1, 2)).double().numpy()


def torch_100(papers: Papers) -> np.ndarray:
    """Score with a straightforward implementation: 100 log-domain sweeps in torch."""
    a, b, cost = batched(papers)
    log_a, log_b, kernel = a.log()[:, :, None], b.log()[:, None], -cost / SERVING.epsilon
    g = torch.zeros_like(log_b)
    for _ in range(100):
        f = log_a - torch.logsumexp(kernel + g, dim=2, keepdim=True)
        g = log_b - torch.logsumexp(kernel + f, dim=1, keepdim=True)
    plan = (kernel + f + g).exp()
    return -(plan * cost).sum(dim=(1, 2)).double().numpy()


def geomloss_as_aspire(papers: Papers) -> np.ndarray:
    """Score with geomloss as ASPIRE's code calls it (semantics 3.4), on the whole padded batch."""
    from geomloss import SamplesLoss  # noqa: PLC0415 - a peer

    a, b, _ = batched(papers)
    solver = SamplesLoss("sinkhorn", p=1, blur=SERVING.epsilon, scaling=0.9, debias=False)
    queries = torch.from_numpy(papers.query).repeat(len(papers.mask), 1, 1)
    return -solver(a, queries, b, papers.padded).double().numpy()


def _rough(papers: Papers) -> np.ndarray:
    """Score as Akin serves it, but stop earlier."""
    return score_papers(
        papers.query, papers.rows, papers.offsets, settings=replace(SERVING, tolerance=_ROUGH)
    ).scores


def compiled_distances(papers: Papers) -> np.ndarray:
    """Compute the minimum: only the distances, by differences, compiled, in float32, like Akin's."""
    return distances(papers.query, papers.rows, papers.offsets)


def products(papers: Papers) -> np.ndarray:
    """Compute one matrix product of all rows, by BLAS in float32, a possible basis of distances."""
    return papers.rows @ papers.query.T


@dataclass(frozen=True, slots=True)
class Peer:
    """A solver, the problem of ours that it is compared with, and how many times slower it should be.

    ``solves`` is the problem that it solves itself; the two bounds are for unit and for raw vectors. ``in_c``
    is the goal, for unit vectors, for a kernel written in C, which Akin's is not: it is judged apart.
    """

    name: str
    score: Callable[[Papers], np.ndarray]
    problem: Scorer = Scorer.OT
    solves: Scorer = Scorer.OT
    unit_least: float | None = None
    raw_least: float | None = None
    in_c: float | None = None
    rounds: int = 5
    warm: bool = True
    package: str = ""


# The goals for kernels not written in C, P1 and P2.
PEERS = (
    Peer(
        "geomloss, as ASPIRE calls it",
        geomloss_as_aspire,
        unit_least=25,
        raw_least=50,
        in_c=100,
        package="geomloss",
    ),
    Peer("POT emd2, pair by pair", pot_emd, Scorer.OT, Scorer.EXACT_OT, 20, 30, 80, rounds=3),
    Peer("POT solve_batch, torch", pot_batch, in_c=290, rounds=3),
    Peer("torch, 100 log-domain sweeps", torch_100, in_c=80, rounds=3),
    Peer("POT sinkhorn, pair by pair", pot_sinkhorn, raw_least=3000, in_c=700, rounds=3, warm=False),
    Peer("POT emd2, against exact_ot", pot_emd, Scorer.EXACT_OT, Scorer.EXACT_OT, rounds=3),
)


def float64_scores(papers: Papers, scorer: Scorer) -> np.ndarray:
    """Compute the reference scores in float64; raises RuntimeError if they have not converged."""
    if scorer is Scorer.EXACT_OT:
        exact = replace(papers, query=papers.query.astype(np.float64), rows=papers.rows.astype(np.float64))
        return pot_emd(exact)
    queries = torch.from_numpy(papers.query).expand(len(papers.mask), -1, -1)
    plans = score_batch(
        queries,
        torch.ones(queries.shape[:2], dtype=torch.bool),
        papers.padded,
        papers.mask,
        scorer=scorer,
        settings=REFERENCE,
    )
    # A plan of this form with the right marginals is the only optimal one, whichever solver found it.
    if plans.marginal_error.max() > _REFERENCE_ERROR:
        raise RuntimeError(f"The reference of {scorer} has not converged.")
    return plans.score.numpy()


def rows() -> Iterator[Row]:
    """Yield the rows of re-ranking."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # POT warns for every pair that does not converge; the error shows it
    for goal, regime, norm in (("P1", "unit vectors", 1.0), ("P2", "raw vectors, norm 12", 12.0)):
        papers = made_up_papers(norm)
        reference = {scorer: float64_scores(papers, scorer) for scorer in (Scorer.OT, Scorer.EXACT_OT)}
        what = f"re-rank {PAIRS:,} papers, {regime}"
        scores = {Scorer.OT: ours(papers), Scorer.EXACT_OT: ours_exact(papers)}
        errors = {scorer: np.abs(own - reference[scorer]).max() for scorer, own in scores.items()}
        for peer in PEERS:
            if not peer.package or installed(peer.package):
                yield _beside_peer(peer, papers, goal, what, reference, errors)
        yield from _beside_floors(papers, goal, what)
        yield from _stages(papers, what)
        yield from _from_stored(papers, goal, what)
        if goal == "P2":
            yield from _of_the_best(papers, goal, what, reference)
        error = float(errors[Scorer.OT])
        if goal == "P1":
            yield Row(goal, f"largest error of a score, {regime}", "distance", error, most=2e-5)
        yield Row("P3", f"largest error of a score, {regime}", "distance", error, most=1e-4)
        gaps = score_papers(papers.query, papers.rows, papers.offsets).gaps
        yield Row(
            "P3", f"largest bound of an error in an answer, {regime}", "distance", gaps.max(), most=1e-4
        )
        yield Row(
            "P3",
            f"scores that depend on batch, order or threads, {regime}",
            "of 1,000",
            batch_dependent(papers),
            most=0,
        )


def _beside_peer(
    peer: Peer,
    papers: Papers,
    goal: str,
    what: str,
    reference: Mapping[Scorer, np.ndarray],
    errors: Mapping[Scorer, float],
) -> Row:
    """Compare the peer's time with ours, and give the largest errors of both."""
    own = ours if peer.problem is Scorer.OT else ours_exact
    least = peer.unit_least if goal == "P1" else peer.raw_least
    for_best = goal == "P2" and least is not None
    theirs: list[np.ndarray] = []
    actions = {
        OURS: partial(ours_best if for_best else own, papers),
        peer.name: partial(_keep, theirs, peer.score, papers),
    }
    spent = in_turns(actions, rounds=peer.rounds, clock=time.process_time, warm=peer.warm)
    error = np.abs(theirs[-1] - reference[peer.solves])
    how = ", exactly" * (peer.problem is Scorer.EXACT_OT) + f", the first {BEST}" * for_best
    return beside(
        spent,
        peer.name,
        goal=goal,
        what=what + how,
        least=least,
        note=f"largest error {errors[peer.problem]:.0e}, theirs {error.max():.0e}",
        in_c=peer.in_c if goal == "P1" else None,
    )


def _beside_floors(papers: Papers, goal: str, what: str) -> Iterator[Row]:
    """Compare ours with the minimum of work."""
    distances_alone, product = "the distances alone, our compiled ones", "one matrix product, BLAS"
    best, rough = f"{what}, the first {BEST}", f"{what}, stopped at a marginal error of {_ROUGH:g}"
    actions = {
        OURS: partial(ours, papers),
        best: partial(ours_best, papers),
        rough: partial(_rough, papers),
        distances_alone: partial(compiled_distances, papers),
        product: partial(products, papers),
    }
    spent = in_turns(actions, rounds=15, clock=time.process_time)
    most, note = (2.5 if goal == "P1" else None), "how many times the time of the distances"
    yield beside(spent, distances_alone, goal=goal, what=what, most=most, inverted=True, note=note)
    served = {**spent, OURS: spent[best]}
    yield beside(served, distances_alone, goal=goal, what=best, inverted=True, note=_SERVED)
    apart = np.abs(_rough(papers) - ours(papers)).max()
    less = {**spent, OURS: spent[rough]}
    note = f"largest difference of a score {apart:.0e}; not what is served"
    yield beside(less, distances_alone, goal=goal, what=rough, inverted=True, note=note)
    yield beside(
        spent,
        product,
        goal=goal,
        what=what,
        inverted=True,
        note="for eight sentences no fast way to distances",
    )


def _stages(papers: Papers, what: str) -> Iterator[Row]:
    """Yield the parts of our re-ranking, each as a share of the whole."""
    weights, offsets = np.zeros(len(papers.query)), papers.offsets
    cost = compiled_distances(papers)
    parts = {
        "distances": partial(compiled_distances, papers),
        "marginals": partial(marginals, cost, offsets, weights, SERVING.tau),
        "marginals, plans, their errors and scores": partial(
            plans_of, cost, offsets, weights, Scorer.OT, SERVING
        ),
    }
    spent = in_turns({WHOLE: partial(ours, papers), **parts}, rounds=15, clock=time.process_time)
    for part in parts:
        yield share(f"{what}: {part}", spent[part], spent[WHOLE])


def _from_stored(papers: Papers, goal: str, what: str) -> Iterator[Row]:
    """Rank the first papers from stored float16 rows, and measure how much of that are distances."""
    kept = stored(papers)
    actions = {
        OURS: partial(stored_distances, papers, kept),
        WHOLE: partial(ours_stored, papers, kept),
    }
    spent = in_turns(actions, rounds=15, clock=time.process_time)
    first = f"{what}, the first {BEST}, from stored float16 rows"
    yield Row(goal, first, "ms", 1000 * float(np.median(spent[WHOLE])), most=4.0 if goal == "P2" else None)
    yield share(f"{first}: distances, rows read in place", spent[OURS], spent[WHOLE])


def _of_the_best(
    papers: Papers, goal: str, what: str, reference: Mapping[Scorer, np.ndarray]
) -> Iterator[Row]:
    """Compare ranking the first papers with solving all, and check their order against the reference."""
    actions = {OURS: partial(ours_best, papers), ALL_SOLVED: partial(ours, papers)}
    spent = in_turns(actions, rounds=15, clock=time.process_time)
    what = f"{what}, the first {BEST}"
    yield beside(spent, ALL_SOLVED, goal=goal, what=what, note="the same order, to the bit")
    yield Row(goal, what, "ms", 1000 * float(np.median(spent[OURS])), most=4.0)
    misplaced = np.argsort(-reference[Scorer.OT], kind="stable")[:BEST] != ours_best(papers)
    found = f"{what}: places that differ from the float64 reference"
    yield Row(goal, found, f"of {BEST}", float(misplaced.sum()), most=0)


def _keep(kept: list[np.ndarray], score: Callable[[Papers], np.ndarray], papers: Papers) -> None:
    """Compute scores and store them in ``kept``, so that errors need no further run."""
    kept[:] = [score(papers)]


def batch_dependent(papers: Papers) -> float:
    """Count papers with a score that differs in any bit from all together.

    They are scored alone, in reverse order, and in several threads at the same time.
    """
    together = ours(papers)
    with ThreadPoolExecutor(_THREADS) as pool:
        at_once = list(pool.map(lambda _: ours(papers), range(_THREADS)))
    bounds = list(zip(papers.offsets[:-1].tolist(), papers.offsets[1:].tolist(), strict=True))
    alone = np.array(
        [score_papers(papers.query, papers.rows[a:b], np.array([0, b - a])).scores[0] for a, b in bounds]
    )
    backwards = np.concatenate([papers.rows[a:b] for a, b in reversed(bounds)])
    ends = np.concatenate([[0], np.cumsum([b - a for a, b in reversed(bounds)])])
    reverse = score_papers(papers.query, backwards, ends).scores[::-1]
    return float(np.count_nonzero(np.any([each != together for each in (alone, reverse, *at_once)], axis=0)))
