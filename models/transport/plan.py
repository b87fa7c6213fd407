"""Scorers, their settings, and the plan that every scorer returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float64, Int64

from models.errors import InputError


class Scorer(StrEnum):
    """How two papers are compared; each is ``score == -sum(mass * cost)`` for a mass that sums to 1."""

    OT = "ot"  # entropic optimal transport (semantics 3.4)
    SINGLE = "single"  # all mass on the closest pair of sentences (semantics 3.3)
    MEAN_MIN = "mean_min"  # each query sentence on its nearest sentence, equally
    ATTENTION = "attention"  # softmax of -cost / tau over all cells: ASPIRE's ablation (semantics 5)
    EXACT_OT = "exact_ot"  # unregularised optimal transport between the marginals of ``ot``


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """The parameters of optimal transport; use a profile: SERVING, REFERENCE or CHEAPEST.

    Costs are L2 distances between sentence vectors, so ``tau`` and ``epsilon`` are in units of distance.
    """

    tau: float = 0.5  # temperature of the marginals, a distance; small: the best-matching sentences dominate
    epsilon: float = 0.05  # weight of the entropy, a distance; 1 / lambda, ASPIRE's lambda is 20
    tolerance: float = 1e-7  # L1 error of the plan's marginals; changes a score by about as much
    max_sweeps: int = 96  # Sinkhorn sweeps before a pair is passed to Newton, which then costs less
    max_newton_steps: int = 2_000  # 15 are usual; a pair that needs more is reported as unconverged

    def __post_init__(self) -> None:
        if not (0 < self.tau < np.inf and 0 < self.epsilon < np.inf and 0 < self.tolerance < 1):
            raise InputError(
                f"Transport settings {self} are out of range: tau and epsilon must be positive and finite, "
                "tolerance between 0 and 1. Start from a profile such as SERVING."
            )


SERVING = TransportSettings()
REFERENCE = TransportSettings(tolerance=1e-12)  # for tests and evaluation: as exact as float64 allows
CHEAPEST = TransportSettings(tolerance=1e-3)  # only for tests


@dataclass(frozen=True, slots=True)
class Plan:
    """The match of a query's sentences (rows) with the sentences of one paper (columns).

    ``score`` is ``-sum(mass * cost)``; higher is better. ``mass`` sums to 1, ``cost`` has L2 distances. For
    the transport scorers, ``marginal_error`` is the L1 distance of the plan's row and column sums from the
    marginals, and ``gap`` is an upper bound of how far the plan's objective is from the optimum (primal -
    dual, in units of distance), a rough one if the plan did not converge. For the other scorers, which have
    closed forms, both are 0.
    """

    mass: Float64[np.ndarray, "n_query n_sentence"]
    cost: Float64[np.ndarray, "n_query n_sentence"]
    score: float
    marginal_error: float
    gap: float
    converged: bool
    n_iterations: int


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of one query against ``k`` papers; ``plans[i]`` is the Plan of paper ``i``.

    ``mass`` and ``cost`` have the cells of all pairs end to end, each pair row by row: paper ``i`` has the
    cells ``n_query * offsets[i]`` to ``n_query * offsets[i + 1]``, where ``offsets`` count sentences.
    """

    mass: Float64[np.ndarray, " n_cells"]
    cost: Float64[np.ndarray, " n_cells"]
    offsets: Int64[np.ndarray, " k_plus_1"]
    n_query: int
    scores: Float64[np.ndarray, " k"]
    marginal_errors: Float64[np.ndarray, " k"]
    gaps: Float64[np.ndarray, " k"]
    converged: Bool[np.ndarray, " k"]
    n_iterations: Int64[np.ndarray, " k"]

    @classmethod
    def joined(cls, plans: Sequence["Plans"]) -> "Plans":
        """Concatenate one or more ``plans`` of one query."""
        lengths = np.concatenate([np.diff(each.offsets) for each in plans])
        return cls(
            mass=np.concatenate([each.mass for each in plans]),
            cost=np.concatenate([each.cost for each in plans]),
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            n_query=plans[0].n_query,
            scores=np.concatenate([each.scores for each in plans]),
            marginal_errors=np.concatenate([each.marginal_errors for each in plans]),
            gaps=np.concatenate([each.gaps for each in plans]),
            converged=np.concatenate([each.converged for each in plans]),
            n_iterations=np.concatenate([each.n_iterations for each in plans]),
        )

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, index: int) -> Plan:
        """Return the plan of one paper, as views; raises IndexError beyond the last, so iteration works."""
        index = range(len(self))[index]
        first, last = self.offsets[index], self.offsets[index + 1]
        cells = slice(self.n_query * first, self.n_query * last)
        return Plan(
            mass=self.mass[cells].reshape(self.n_query, -1),
            cost=self.cost[cells].reshape(self.n_query, -1),
            score=float(self.scores[index]),
            marginal_error=float(self.marginal_errors[index]),
            gap=float(self.gaps[index]),
            converged=bool(self.converged[index]),
            n_iterations=int(self.n_iterations[index]),
        )
