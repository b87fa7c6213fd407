"""Entropic transport of padded batches with torch: over-relaxed Sinkhorn on any device, all pairs at once.

The method is that of ``sinkhorn``. Pairs that are unsuitable for it, or do not converge, are solved by
``newton``, always on the CPU.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from models.transport.newton import newton
from models.transport.plan import TransportSettings
from models.transport.problem import EASY_SPREAD, Outcome, Problem
from models.transport.sinkhorn import CHECK_EVERY, PLAIN_SWEEPS, TINY


class Solution(NamedTuple):
    """The plans of ``b`` pairs; no mass in padding."""

    mass: Float64[Tensor, "b n m"]
    converged: Bool[Tensor, " b"]
    n_iterations: Int64[Tensor, " b"]


@torch.no_grad()
def solve(
    cost: Float64[Tensor, "b n m"],
    rows: Float64[Tensor, "b n"],
    columns: Float64[Tensor, "b m"],
    *,
    settings: TransportSettings,
) -> Solution:
    """Return the entropic plans between row and column weights; padding has weight 0 and finite cost."""
    real = (rows > 0.0)[:, :, None] & (columns > 0.0)[:, None, :]
    smallest = cost.masked_fill(~real, torch.inf).amin(dim=(1, 2), keepdim=True)
    cost = torch.where(real, cost, smallest)
    spread = (cost - smallest).amax(dim=(1, 2))
    solution = _sweep(cost, real, rows, columns, spread <= EASY_SPREAD * settings.epsilon, settings)
    left = (~solution.converged).nonzero()[:, 0]
    if len(left):
        found = _by_newton(cost[left], rows[left], columns[left], settings)
        solution.mass[left] = torch.from_numpy(found.mass).to(cost.device).reshape(len(left), *cost.shape[1:])
        solution.converged[left] = torch.from_numpy(found.converged).to(cost.device)
        solution.n_iterations[left] += torch.from_numpy(found.n_iterations).to(cost.device)
    return solution


def _sweep(
    cost: Float64[Tensor, "b n m"],
    real: Bool[Tensor, "b n m"],
    rows: Float64[Tensor, "b n"],
    columns: Float64[Tensor, "b m"],
    live: Bool[Tensor, " b"],
    settings: TransportSettings,
) -> Solution:
    """Scale the kernels of ``live`` pairs until all have converged or sweeps run out; see ``sinkhorn``."""
    shielded = cost.masked_fill(~real, torch.inf)
    f = shielded.amin(dim=2, keepdim=True)
    f = torch.where(f.isfinite(), f, 0.0)
    g = (shielded - f).amin(dim=1, keepdim=True)
    kernel = ((f + g - shielded) / settings.epsilon).exp()
    kernel = torch.where(real, kernel, 0.0)
    u, v = torch.ones_like(rows), torch.ones_like(columns)
    converged = torch.zeros_like(live)
    n_iterations = torch.zeros_like(live, dtype=torch.int64)
    for sweep in range(1, settings.max_sweeps + 1):
        if sweep % CHECK_EVERY == 1 and not live.any():
            break
        relax = sweep > PLAIN_SWEEPS
        new_u, row_error = _half_sweep(kernel, u, v, rows, relax=relax)
        u = torch.where(live[:, None], new_u, u)
        new_v, column_error = _half_sweep(kernel.mT, v, u, columns, relax=relax)
        v = torch.where(live[:, None], new_v, v)
        n_iterations += live
        if sweep % CHECK_EVERY == 0:
            done = live & (row_error + column_error < settings.tolerance)
            converged, live = converged | done, live & ~done
    u, _ = _half_sweep(kernel, u, v, rows, relax=False)
    v, _ = _half_sweep(kernel.mT, v, u, columns, relax=False)
    return Solution(u[:, :, None] * kernel * v[:, None, :], converged, n_iterations)


def _half_sweep(
    kernel: Float64[Tensor, "b n m"],
    scaling: Float64[Tensor, "b n"],
    other: Float64[Tensor, "b m"],
    weights: Float64[Tensor, "b n"],
    *,
    relax: bool,
) -> tuple[Float64[Tensor, "b n"], Float64[Tensor, " b"]]:
    """Return the new scaling of one side, and its L1 error before the update."""
    held = scaling * (kernel @ other[:, :, None])[:, :, 0]
    ratio = weights / (held + TINY)
    return scaling * (ratio * ratio.sqrt() if relax else ratio), (weights - held).abs().sum(dim=1)


def _by_newton(
    cost: Float64[Tensor, "b n m"],
    rows: Float64[Tensor, "b n"],
    columns: Float64[Tensor, "b m"],
    settings: TransportSettings,
) -> Outcome:
    """Solve pairs by ``newton``, each as wide as the padded batch."""
    b, _, m = cost.shape
    flat, n_rows, n_columns = (part.cpu().numpy().ravel() for part in (cost, rows, columns))
    problem = Problem(flat, m * np.arange(b + 1), n_rows.reshape(b, -1), n_columns)
    outcome = Outcome(np.zeros_like(flat), np.zeros(b, np.bool_), np.zeros(b, np.int64))
    newton(problem, settings.epsilon, settings.tolerance, settings.max_newton_steps, outcome)
    return outcome
