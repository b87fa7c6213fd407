"""Our transport beside other solvers, on identical inputs in one run: python -m benchmarks.transport

Times are CPU seconds of this process with one thread, medians over repeats, and include distances and
marginals; errors are the largest |score - reference| over the pairs, the reference being distances and
plans in float64 by the torch implementation, run to 1e-12. Ratios matter, times are this machine's.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch load their thread pools

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import ot
import torch
from rich.console import Console
from rich.table import Table

from models.transport import REFERENCE, SERVING, Scorer, score_papers
from models.transport.tensor import score_batch
from tests.support.examples.vectors import clustered_vectors


@dataclass(frozen=True, slots=True)
class Papers:
    """A query and candidates, packed for our kernels and padded for the batched solvers."""

    query: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray
    padded: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class Contender:
    """A solver in words, the problem it solves, and how often it is timed."""

    name: str
    score: Callable[[Papers], np.ndarray]
    problem: Scorer
    repeats: int


def made_up_papers(args: argparse.Namespace, norm: float) -> Papers:
    """Candidates of 4 to 16 sentences for a query of 8."""
    query, rows, offsets = clustered_vectors(args.seed, n_papers=args.pairs, dim=args.dim, norm=norm)
    lengths = np.diff(offsets)
    mask = torch.arange(int(lengths.max()))[None] < torch.from_numpy(lengths)[:, None]
    padded = torch.zeros(*mask.shape, args.dim)
    padded[mask] = torch.from_numpy(rows)
    return Papers(query, rows, offsets, padded, mask)


def problems(papers: Papers) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Cost and marginals of every pair, for the solvers that take one pair at a time."""
    for i in range(len(papers.offsets) - 1):
        own = papers.rows[papers.offsets[i] : papers.offsets[i + 1]]
        cost = ot.dist(papers.query, own, metric="euclidean").astype(np.float64)
        a, b = (np.exp((cost.min() - cost.min(axis=axis)) / SERVING.tau) for axis in (1, 0))
        yield a / a.sum(), b / b.sum(), cost


def batched(papers: Papers) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cost and marginals of all pairs, padded, in float32."""
    cost = torch.cdist(torch.from_numpy(papers.query)[None], papers.padded)
    shielded = cost.masked_fill(~papers.mask[:, None], torch.inf)
    a = (-shielded.amin(dim=2) / SERVING.tau).softmax(dim=1)
    b = (-shielded.amin(dim=1) / SERVING.tau).softmax(dim=1)
    return a, b, cost


def ours(papers: Papers) -> np.ndarray:
    """Entropic transport as Akin serves it."""
    return score_papers(papers.query, papers.rows, papers.offsets).scores


def ours_exact(papers: Papers) -> np.ndarray:
    """Exact transport as Akin serves it."""
    return score_papers(papers.query, papers.rows, papers.offsets, scorer=Scorer.EXACT_OT).scores


def pot_emd(papers: Papers) -> np.ndarray:
    """POT's exact network simplex, pair by pair."""
    return np.array([-ot.emd2(a, b, cost) for a, b, cost in problems(papers)])


def pot_sinkhorn(papers: Papers) -> np.ndarray:
    """POT's Sinkhorn with its defaults, pair by pair."""
    return np.array(
        [-(ot.sinkhorn(a, b, cost, SERVING.epsilon) * cost).sum() for a, b, cost in problems(papers)]
    )


def pot_batch(papers: Papers) -> np.ndarray:
    """POT's batched log-domain Sinkhorn on padded torch tensors, with its defaults."""
    a, b, cost = batched(papers)
    found = ot.solve_batch(cost, reg=SERVING.epsilon, a=a, b=b, grad="detach")
    return -(found.plan * cost).sum(dim=(1, 2)).double().numpy()


def torch_100(papers: Papers) -> np.ndarray:
    """What one writes first: 100 log-domain sweeps in torch."""
    a, b, cost = batched(papers)
    log_a, log_b, kernel = a.log()[:, :, None], b.log()[:, None], -cost / SERVING.epsilon
    g = torch.zeros_like(log_b)
    for _ in range(100):
        f = log_a - torch.logsumexp(kernel + g, dim=2, keepdim=True)
        g = log_b - torch.logsumexp(kernel + f, dim=1, keepdim=True)
    plan = (kernel + f + g).exp()
    return -(plan * cost).sum(dim=(1, 2)).double().numpy()


CONTENDERS = (
    Contender("ours, ot", ours, Scorer.OT, 15),
    Contender("ours, exact_ot", ours_exact, Scorer.EXACT_OT, 15),
    Contender("POT emd2 loop", pot_emd, Scorer.EXACT_OT, 3),
    Contender("POT sinkhorn loop", pot_sinkhorn, Scorer.OT, 1),
    Contender("POT solve_batch, torch", pot_batch, Scorer.OT, 3),
    Contender("torch, 100 log sweeps", torch_100, Scorer.OT, 3),
)


def float64_scores(papers: Papers, scorer: Scorer) -> np.ndarray:
    """The scores all others are measured against."""
    queries = torch.from_numpy(papers.query).expand(len(papers.mask), -1, -1)
    return score_batch(
        queries,
        torch.ones(queries.shape[:2], dtype=torch.bool),
        papers.padded,
        papers.mask,
        scorer=scorer,
        settings=REFERENCE,
    ).score.numpy()


def measure(contender: Contender, papers: Papers) -> tuple[float, np.ndarray]:
    """Median CPU milliseconds and the scores; a first call compiles and warms up."""
    if contender.repeats > 1:
        contender.score(papers)
    times = []
    for _ in range(contender.repeats):
        start = time.process_time()
        scores = contender.score(papers)
        times.append(1000 * (time.process_time() - start))
    return statistics.median(times), scores


def main() -> None:
    """Print one table per regime."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # POT warns of every pair it leaves unconverged; the error column tells
    for regime, norm in (("unit", 1.0), ("raw, norm 12", 12.0)):
        papers = made_up_papers(args, norm)
        table = Table(title=f"{args.pairs} pairs, d={args.dim}, {regime}")
        for column in ("solver", "problem", "ms", "x ours, same problem", "x ours, ot", "max error"):
            table.add_column(column, justify="left" if column in ("solver", "problem") else "right")
        references = {scorer: float64_scores(papers, scorer) for scorer in (Scorer.OT, Scorer.EXACT_OT)}
        fastest: dict[Scorer, float] = {}
        for contender in CONTENDERS:
            milliseconds, scores = measure(contender, papers)
            fastest.setdefault(contender.problem, milliseconds)
            table.add_row(
                contender.name,
                contender.problem,
                f"{milliseconds:.2f}",
                f"{milliseconds / fastest[contender.problem]:.1f}",
                f"{milliseconds / fastest[Scorer.OT]:.1f}",
                f"{np.abs(scores - references[contender.problem]).max():.1e}",
            )
        Console(width=110).print(table)


if __name__ == "__main__":
    main()
