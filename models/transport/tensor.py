"""Scores of pairs of papers with torch: padded batches, any device, gradients for training.

The plans equal those of ``models.transport.kernels`` to 1e-5. Transport is solved in float64 whatever the
dtype of the vectors: float32 potentials are too coarse for un-normalised vectors at epsilon = 0.05.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from models.errors import InputError
from models.transport.plan import SERVING, Scorer, TransportSettings
from models.transport.problem import WEIGHT_FLOOR
from models.transport.sinkhorn_torch import Solution, solve

_MAX_GAP = 1e-3  # between the dual value and that of the plan, as a share; usual ones are 1e-8


@dataclass(frozen=True, slots=True)
class TensorPlans:
    """Plans of ``b`` pairs, padded; cells of padding have no mass.

    ``distance`` is the value to train on: the dual value <a, f> + <b, g> for transport (semantics 3.4),
    sum(mass * cost) for the other scorers. Only ``distance`` has gradients. ``score`` is
    ``-sum(mass * cost)``, as for all scorers.
    """

    mass: Float64[Tensor, "b n_query n_sentence"]
    cost: Float64[Tensor, "b n_query n_sentence"]
    score: Float64[Tensor, " b"]
    distance: Float64[Tensor, " b"]
    marginal_error: Float64[Tensor, " b"]
    converged: Bool[Tensor, " b"]
    n_iterations: Int64[Tensor, " b"]


def score_batch(
    query: Float[Tensor, "b n_query dim"],
    query_mask: Bool[Tensor, "b n_query"],
    candidate: Float[Tensor, "b n_sentence dim"],
    candidate_mask: Bool[Tensor, "b n_sentence"],
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
) -> TensorPlans:
    """Compare ``b`` queries with one candidate each; the masks are True at sentences, False at padding.

    Raises InputError for vectors that are not finite, a paper without sentences, and EXACT_OT, which
    ``score_papers`` solves.
    """
    real = query_mask[:, :, None] & candidate_mask[:, None, :]
    if not (query_mask.any(dim=1).all() and candidate_mask.any(dim=1).all()):
        raise InputError(
            "A paper of the batch has no sentence: its mask is False everywhere. "
            "Leave papers without sentences out of the batch."
        )
    return plans_of(costs_of(query, candidate, real), real, scorer=scorer, settings=settings)


def costs_of(
    a: Float[Tensor, "*#b n dim"], b: Float[Tensor, "*#b m dim"], real: Bool[Tensor, "*#b n m"]
) -> Float64[Tensor, "*b n m"]:
    """Return L2 distances with gradients, 0 in padding (``real`` is False); InputError if not finite."""
    # By differences: with norms and dot products, close vectors would lose digits.
    differences = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(a.double(), b.double(), compute_mode=differences)
    if not distances.detach()[real].isfinite().all():
        raise InputError(
            "A distance between two sentences is not finite: the vectors hold NaN, infinity or values too "
            "large to square. Check the encoder that made them."
        )
    return torch.where(real, distances, 0.0)


def plans_of(
    cost: Float64[Tensor, "b n_query n_sentence"],
    real: Bool[Tensor, "b n_query n_sentence"],
    *,
    scorer: Scorer,
    settings: TransportSettings,
) -> TensorPlans:
    """Return the plans for distances that are 0 in padding (``real`` is False); InputError for EXACT_OT."""
    if scorer is Scorer.EXACT_OT:
        raise InputError("exact_ot is only solved on the CPU, by score_papers; use ot.")
    if scorer is Scorer.OT:
        return _transport_plans(cost, real, settings)
    mass = _closed_form(cost, real, scorer, settings.tau)
    distance = (mass * cost).sum(dim=(1, 2))
    return TensorPlans(
        mass=mass.detach(),
        cost=cost.detach(),
        score=-distance.detach(),
        distance=distance,
        marginal_error=torch.zeros_like(distance.detach()),
        converged=torch.ones_like(distance, dtype=torch.bool),
        n_iterations=torch.zeros_like(distance, dtype=torch.int64),
    )


def _transport_plans(
    cost: Float64[Tensor, "b n_query n_sentence"],
    real: Bool[Tensor, "b n_query n_sentence"],
    settings: TransportSettings,
) -> TensorPlans:
    """Solve transport between the marginals of semantics 3.4.

    The gradient of the dual value follows from the envelope theorem: the derivative by the cost is the plan,
    that by the marginals are the potentials; the marginals are functions of the cost, too.
    """
    shielded = torch.where(real, cost, torch.inf)
    a = _softmin(shielded.amin(dim=2), settings.tau)
    b = _softmin(shielded.amin(dim=1), settings.tau)
    fixed = cost.detach()
    found = solve(fixed, a.detach(), b.detach(), settings=settings)
    f, g = _potentials(found.mass, fixed, a.detach(), b.detach(), settings.epsilon)
    distance = (a * f).sum(dim=1) + (b * g).sum(dim=1)
    if cost.requires_grad:  # scores and masses do not depend on the potentials
        _expect_exact(distance.detach(), found, fixed, a.detach(), b.detach(), settings.epsilon)
    distance = distance + (found.mass * (cost - fixed)).sum(dim=(1, 2))
    row_error = (found.mass.sum(dim=2) - a.detach()).abs().sum(dim=1)
    return TensorPlans(
        mass=found.mass,
        cost=fixed,
        score=-(found.mass * fixed).sum(dim=(1, 2)),
        distance=distance,
        marginal_error=row_error + (found.mass.sum(dim=1) - b.detach()).abs().sum(dim=1),
        converged=found.converged,
        n_iterations=found.n_iterations,
    )


def _potentials(
    mass: Float64[Tensor, "b n m"],
    cost: Float64[Tensor, "b n m"],
    a: Float64[Tensor, "b n"],
    b: Float64[Tensor, "b m"],
    epsilon: float,
) -> tuple[Float64[Tensor, "b n"], Float64[Tensor, "b m"]]:
    """Return f and g of P_ij = a_i b_j exp((f_i + g_j - cost_ij) / epsilon), also finite for weights of 0.

    g is computed from the row whose smallest mass is the largest; then follows a soft c-transform of each
    side (geomloss's convention: <a, f> + <b, g> is the dual value). This is exact to rounding if that row's
    distances are within 600 epsilon; far beyond, where its masses underflow, ``_expect_exact`` refuses it.
    """
    logs = mass.log() - a.log()[:, :, None] - b.log()[:, None, :]
    smallest = torch.where((b > 0.0)[:, None, :], logs, torch.inf).amin(dim=2).nan_to_num(nan=-torch.inf)
    best = smallest.argmax(dim=1)[:, None, None].expand(-1, 1, cost.shape[2])
    g = (cost.gather(1, best) + epsilon * logs.gather(1, best)).nan_to_num(nan=0.0)  # (b, 1, m)
    f = -epsilon * (b.log()[:, None, :] + (g - cost) / epsilon).logsumexp(dim=2, keepdim=True)
    g = -epsilon * (a.log()[:, :, None] + (f - cost) / epsilon).logsumexp(dim=1)
    return f[:, :, 0], g


def _expect_exact(
    dual: Float64[Tensor, " b"],
    found: Solution,
    cost: Float64[Tensor, "b n m"],
    a: Float64[Tensor, "b n"],
    b: Float64[Tensor, "b m"],
    epsilon: float,
) -> None:
    """Raise InputError if a dual value is not that of its plan: then neither are the potentials."""
    product = a[:, :, None] * b[:, None, :]
    information = torch.where(found.mass > 0, found.mass * (found.mass / product).log(), 0.0)
    primal = (found.mass * cost + epsilon * information).sum(dim=(1, 2))
    if ((dual - primal).abs() > _MAX_GAP * (1 + primal.abs()))[found.converged].any():
        raise InputError(
            f"Sentences are up to {float(cost.max()):.3g} apart, which is too far for gradients of transport "
            f"at epsilon {epsilon:g}: they are exact up to distances of about {1_000 * epsilon:g}. Normalise "
            "the vectors, or scale them down."
        )


def _softmin(distances: Float64[Tensor, "b n"], tau: float) -> Float64[Tensor, "b n"]:
    """Return softmax(-distances / tau), exactly 0 for infinite distances and weights below the floor."""
    # The nearest first subtracted: divided by a small tau, every distance may be infinite.
    nearest = distances.detach().amin(dim=1, keepdim=True)
    weights = ((nearest - distances) / tau).softmax(dim=1)
    weights = torch.where(weights > WEIGHT_FLOOR * weights.amax(dim=1, keepdim=True), weights, 0.0)
    return weights / weights.sum(dim=1, keepdim=True)


def _closed_form(
    cost: Float64[Tensor, "b n_query n_sentence"],
    real: Bool[Tensor, "b n_query n_sentence"],
    scorer: Scorer,
    tau: float,
) -> Float64[Tensor, "b n_query n_sentence"]:
    """Return the masses of the scorers that need no solver."""
    shielded = torch.where(real, cost, torch.inf)
    if scorer is Scorer.ATTENTION:
        return _softmin(shielded.flatten(1), tau).reshape(cost.shape)
    if scorer is Scorer.SINGLE:
        nearest = shielded.flatten(1).argmin(dim=1, keepdim=True)
        return torch.zeros_like(cost).flatten(1).scatter(1, nearest, 1.0).reshape(cost.shape)
    present = real.any(dim=2, keepdim=True).to(cost.dtype)
    nearest = shielded.argmin(dim=2, keepdim=True)
    return torch.zeros_like(cost).scatter(2, nearest, present / present.sum(dim=1, keepdim=True))
