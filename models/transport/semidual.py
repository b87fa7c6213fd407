"""Entropic transport of padded batches with torch: the Newton method of ``newton``, all pairs at once.

Every pair keeps its own epsilon level, trust radius and stop, so a batch runs as long as its hardest pair
and each pair ends where it would alone, but for rounding.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from models.transport.newton import (
    EPSILON_FACTOR,
    FIRST_EPSILON,
    FIRST_RADIUS,
    LEVEL_TOLERANCE,
    SUFFICIENT_RISE,
)
from models.transport.newton_direction import LEAK
from models.transport.plan import TransportSettings


@dataclass(frozen=True, slots=True)
class Solution:
    """Plans and potentials of ``b`` pairs; <a, f> + <b, g> is the dual value (geomloss's convention).

    The potentials are those of P_ij = a_i b_j exp((f_i + g_j - cost_ij) / epsilon), and finite everywhere.
    """

    mass: Float64[Tensor, "b n_query n_sentence"]
    query_potentials: Float64[Tensor, "b n_query"]
    sentence_potentials: Float64[Tensor, "b n_sentence"]
    converged: Bool[Tensor, " b"]
    n_iterations: Int64[Tensor, " b"]


@dataclass(frozen=True, slots=True)
class _State:
    """Where every pair stands: f moved freely, g the best answer to it, one epsilon level per pair."""

    level: Float64[Tensor, " b"]
    f: Float64[Tensor, "b n"]
    g: Float64[Tensor, "b m"]
    plan: Float64[Tensor, "b n m"]
    slope: Float64[Tensor, "b n"]
    value: Float64[Tensor, " b"]
    error: Float64[Tensor, " b"]

    def where(self, chosen: Bool[Tensor, " b"], other: "_State") -> "_State":
        """This state for the chosen pairs, the other state for the rest."""
        return _State(
            level=torch.where(chosen, self.level, other.level),
            f=torch.where(chosen[:, None], self.f, other.f),
            g=torch.where(chosen[:, None], self.g, other.g),
            plan=torch.where(chosen[:, None, None], self.plan, other.plan),
            slope=torch.where(chosen[:, None], self.slope, other.slope),
            value=torch.where(chosen, self.value, other.value),
            error=torch.where(chosen, self.error, other.error),
        )


@torch.no_grad()
def solve(
    cost: Float64[Tensor, "b n_query n_sentence"],
    query_weights: Float64[Tensor, "b n_query"],
    sentence_weights: Float64[Tensor, "b n_sentence"],
    *,
    settings: TransportSettings,
) -> Solution:
    """The entropic plans between the given weights; padding has weight 0 and finite cost."""
    if cost.shape[1] <= cost.shape[2]:
        return _solve_rows(cost, query_weights, sentence_weights, settings)
    turned = _solve_rows(cost.mT.contiguous(), sentence_weights, query_weights, settings)
    return Solution(
        mass=turned.mass.mT,
        query_potentials=turned.sentence_potentials,
        sentence_potentials=turned.query_potentials,
        converged=turned.converged,
        n_iterations=turned.n_iterations,
    )


def _solve_rows(
    cost: Float64[Tensor, "b n m"],
    moved: Float64[Tensor, "b n"],
    exact: Float64[Tensor, "b m"],
    settings: TransportSettings,
) -> Solution:
    """Solve with the potentials of the rows as variables; see ``newton`` for the method."""
    real = (moved > 0.0)[:, :, None] & (exact > 0.0)[:, None, :]
    largest = cost.masked_fill(~real, -torch.inf).amax(dim=(1, 2))
    spread = largest - cost.masked_fill(~real, torch.inf).amin(dim=(1, 2))
    start = torch.zeros_like(moved).masked_fill(moved == 0.0, -torch.inf)
    state = _evaluate(cost, start, moved, exact, (FIRST_EPSILON * spread).clamp(min=settings.epsilon))
    radius = torch.full_like(spread, FIRST_RADIUS)
    balance = torch.zeros_like(spread, dtype=torch.bool)
    n_iterations = torch.zeros_like(spread, dtype=torch.int64)
    for _ in range(settings.max_newton_steps):
        above = state.level > settings.epsilon
        lower = above & (state.error < LEVEL_TOLERANCE)
        active = above | (state.error >= settings.tolerance)
        if not active.any():
            break
        n_iterations += active
        radius = torch.where(lower, FIRST_RADIUS, radius)
        balance = balance | lower
        level = torch.where(lower, EPSILON_FACTOR * state.level, state.level).clamp(min=settings.epsilon)
        direction, longest = _newton_direction(state, moved, exact, radius)
        stepped = state.f + level[:, None] * direction
        f = torch.where(balance[:, None], _balance(cost, state.g, moved, level), stepped)
        trial = _evaluate(cost, f, moved, exact, level)
        rise = level * (state.slope * direction).sum(dim=1)
        gain = trial.value - state.value
        settled = (gain.abs() <= 1e-14 * largest) & (trial.error < state.error)
        taken = balance | settled | (gain > SUFFICIENT_RISE * rise)
        grown = torch.maximum(radius, 2.0 * longest)
        radius = torch.where(balance, radius, torch.where(taken, grown, 0.25 * longest))
        state = trial.where(active & taken, state)
        balance = active & ~taken
    f = _balance(cost, state.g, moved, state.level)
    final = _evaluate(cost, f, moved, exact, state.level)
    return Solution(
        mass=final.plan,
        query_potentials=_soft_minimum(cost.mT, final.g, state.level),
        sentence_potentials=_soft_minimum(cost, final.f, state.level),
        converged=(final.error < settings.tolerance) & (state.level <= settings.epsilon),
        n_iterations=n_iterations,
    )


def _soft_minimum(
    cost: Float64[Tensor, "b n m"],
    potentials: Float64[Tensor, "b n"],
    level: Float64[Tensor, " b"],
) -> Float64[Tensor, "b m"]:
    """-level * log(sum_i exp((potentials_i - cost_ij) / level)): the soft c-transform."""
    return -level[:, None] * ((potentials[:, :, None] - cost) / level[:, None, None]).logsumexp(dim=1)


def _balance(
    cost: Float64[Tensor, "b n m"],
    g: Float64[Tensor, "b m"],
    moved: Float64[Tensor, "b n"],
    level: Float64[Tensor, " b"],
) -> Float64[Tensor, "b n"]:
    """The potentials that make the rows exact for given g: half a Sinkhorn sweep."""
    return level[:, None] * moved.log() + _soft_minimum(cost.mT, g, level)


def _evaluate(
    cost: Float64[Tensor, "b n m"],
    f: Float64[Tensor, "b n"],
    moved: Float64[Tensor, "b n"],
    exact: Float64[Tensor, "b m"],
    level: Float64[Tensor, " b"],
) -> _State:
    """The plan of ``f`` with the columns exact, and the semi-dual's value and slope there."""
    scaled = (f[:, :, None] - cost) / level[:, None, None]
    plan = scaled.softmax(dim=1) * exact[:, None, :]
    g = level[:, None] * (exact.log() - scaled.logsumexp(dim=1))
    slope = moved - plan.sum(dim=2)
    held = torch.where(moved > 0.0, moved * f, 0.0).sum(dim=1)
    value = held + torch.where(exact > 0.0, exact * g, 0.0).sum(dim=1)
    return _State(level, f, g, plan, slope, value, error=slope.abs().sum(dim=1))


def _newton_direction(
    state: _State,
    moved: Float64[Tensor, "b n"],
    exact: Float64[Tensor, "b m"],
    radius: Float64[Tensor, " b"],
) -> tuple[Float64[Tensor, "b n"], Float64[Tensor, " b"]]:
    """The Newton step of every pair, its parts cut at ``radius``, and its longest part; see ``newton``."""
    plan = state.plan
    n = plan.shape[1]
    shares = plan / exact.masked_fill(exact == 0.0, 1.0)[:, None, :]
    edges = shares @ plan.mT  # (b, n, n); only cells left of the diagonal are read
    x = state.slope.clone()
    own = torch.zeros_like(x)
    weights = torch.zeros_like(edges)  # row k: how much k follows each earlier row
    for k in range(n - 1, 0, -1):
        pivot = LEAK * moved[:, k] + edges[:, k, :k].sum(dim=1)
        inverse = torch.where(pivot > 0.0, 1.0 / pivot, 0.0)
        weights[:, k, :k] = edges[:, k, :k] * inverse[:, None]
        own[:, k] = x[:, k] * inverse
        x[:, :k] += weights[:, k, :k] * x[:, k, None]
        edges[:, :k, :k] += weights[:, k, :k, None] * edges[:, k, None, :k]
    own = own.clamp(min=-radius[:, None], max=radius[:, None])
    direction = torch.zeros_like(x)
    for k in range(1, n):
        direction[:, k] = own[:, k] + (weights[:, k, :k] * direction[:, :k]).sum(dim=1)
    return direction, own.abs().amax(dim=1)
