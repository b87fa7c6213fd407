"""Transport with torch against transport on the CPU, and its gradients against finite differences."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from models.errors import InputError
from models.transport import Scorer, TransportSettings, score_papers
from models.transport.sinkhorn_torch import solve
from models.transport.tensor import TensorPlans, plans_of, score_batch
from tests.support.examples.models.vectors import clustered_vectors

N_PAPERS = 24
SCORERS = [scorer for scorer in Scorer if scorer is not Scorer.EXACT_OT]  # which runs only on the CPU


def padded(norm: float, n_query: int = 8) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a repeated query, candidates padded with zeros, and their masks, as for ``score_batch``."""
    query, rows, offsets = clustered_vectors(21, n_papers=N_PAPERS, n_query=n_query, norm=norm)
    longest = int(np.diff(offsets).max())
    candidate = torch.zeros(N_PAPERS, longest, query.shape[1])
    mask = torch.zeros(N_PAPERS, longest, dtype=torch.bool)
    for i, piece in enumerate(np.split(rows, offsets[1:-1])):
        candidate[i, : len(piece)] = torch.from_numpy(piece)
        mask[i, : len(piece)] = True
    queries = torch.from_numpy(query).expand(N_PAPERS, -1, -1)
    return queries, torch.ones(N_PAPERS, n_query, dtype=torch.bool), candidate, mask


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("n_query", [8, 20])
@pytest.mark.parametrize("norm", [1.0, 12.0])
def test_agrees_with_the_cpu_kernels(norm: float, n_query: int, scorer: Scorer) -> None:
    """Scores, masses and costs equal those of ``score_papers``, normalised vectors or not."""
    tensors = score_batch(*padded(norm, n_query), scorer=scorer)
    query, rows, offsets = clustered_vectors(21, n_papers=N_PAPERS, n_query=n_query, norm=norm)
    plans = score_papers(query, rows, offsets, scorer=scorer)
    assert tensors.converged.all()
    assert tensors.marginal_error.max() < 1e-6
    np.testing.assert_allclose(tensors.score.numpy(), plans.scores, atol=1e-5, rtol=0)
    for i, plan in enumerate(plans):
        width = plan.mass.shape[1]
        np.testing.assert_allclose(tensors.mass[i, :, :width].numpy(), plan.mass, atol=1e-4)
        np.testing.assert_allclose(tensors.cost[i, :, :width].numpy(), plan.cost, atol=1e-5)
        assert not tensors.mass[i, :, width:].any()


@pytest.mark.parametrize("scorer", SCORERS)
def test_what_pads_a_batch_does_not_matter(scorer: Scorer) -> None:
    """A pair has the same plan alone and in a batch with wider padding of any content."""
    query, query_mask, candidate, mask = padded(12.0)
    plans = score_batch(query, query_mask, candidate, mask, scorer=scorer)
    wider = torch.cat([candidate, torch.full_like(candidate, torch.nan)], dim=1)
    wider_mask = torch.cat([mask, torch.zeros_like(mask)], dim=1)
    longer = torch.cat([torch.full_like(query[:, :3], 7.0), query], dim=1)
    longer_mask = torch.cat([torch.zeros_like(query_mask[:, :3]), query_mask], dim=1)
    in_padding = score_batch(longer, longer_mask, wider, wider_mask, scorer=scorer)
    torch.testing.assert_close(in_padding.score, plans.score, atol=1e-7, rtol=0)
    torch.testing.assert_close(in_padding.distance, plans.distance, atol=1e-7, rtol=0)
    for i in range(0, N_PAPERS, 8):
        n = int(mask[i].sum())
        pair = slice(i, i + 1)
        own = score_batch(query[pair], query_mask[pair], candidate[pair, :n], mask[pair, :n], scorer=scorer)
        torch.testing.assert_close(own.mass[0], plans.mass[i, :, :n], atol=1e-9, rtol=0)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("norm", [1.0, 12.0])
def test_gradients_equal_finite_differences(norm: float, scorer: Scorer) -> None:
    """The gradient of the distance accounts for the plan, cost-dependent marginals and masks."""
    generator = torch.Generator().manual_seed(4)
    query = torch.randn(2, 3, 2, dtype=torch.float64, generator=generator)
    candidate = torch.randn(2, 4, 2, dtype=torch.float64, generator=generator)
    query, candidate = (norm * torch.nn.functional.normalize(x, dim=2) for x in (query, candidate))
    query_mask, mask = torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)
    query_mask[0, 2], mask[1, 3:] = False, False
    exacting = TransportSettings(tolerance=1e-11)

    def distance(query: Tensor, candidate: Tensor) -> Tensor:
        return score_batch(query, query_mask, candidate, mask, scorer=scorer, settings=exacting).distance

    assert torch.autograd.gradcheck(distance, (query.requires_grad_(), candidate.requires_grad_()))


def test_distance_is_the_dual_value() -> None:
    """For transport, the distance is <a, f> + <b, g>, which is sum(P cost) + epsilon KL(P
    a b).
    """
    plans = score_batch(*padded(1.0))
    a, b = plans.mass.sum(dim=2, keepdim=True), plans.mass.sum(dim=1, keepdim=True)
    entropy = torch.where(plans.mass > 0, plans.mass * (plans.mass / (a * b)).log(), 0.0)
    expected = (plans.mass * plans.cost + 0.05 * entropy).sum(dim=(1, 2))
    torch.testing.assert_close(plans.distance, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("largest", "refused"), [(50.0, False), (300.0, True)])
def test_a_dual_value_that_cannot_be_computed_is_refused(largest: float, refused: bool) -> None:
    """Beyond about 1,000 epsilon the masses of a plan do not give its potentials; scores need none."""
    cost = torch.rand((40, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64) * largest
    real, settings = torch.ones_like(cost, dtype=torch.bool), TransportSettings(tau=5_000.0)
    assert plans_of(cost, real, scorer=Scorer.OT, settings=settings).converged.all()
    cost.requires_grad_()
    with pytest.raises(InputError, match="too far for gradients") if refused else nullcontext():
        plans_of(cost, real, scorer=Scorer.OT, settings=settings)


def test_equal_sentences_have_finite_gradients() -> None:
    """A distance of 0 has a finite gradient, not NaN."""
    query = torch.eye(4).expand(2, -1, -1).clone().requires_grad_()
    mask = torch.ones(2, 4, dtype=torch.bool)
    for scorer in SCORERS:
        plans = score_batch(query, mask, query.detach(), mask, scorer=scorer)
        (gradient,) = torch.autograd.grad(plans.distance.sum(), query)
        assert gradient.isfinite().all()


def test_gradients_flow_through_the_distance_alone() -> None:
    """Scores and masses are detached: their gradient would ignore that the plan moves too."""
    query, *rest = padded(1.0)
    for scorer in SCORERS:
        plans: TensorPlans = score_batch(query.clone().requires_grad_(), *rest, scorer=scorer)
        assert plans.distance.requires_grad
        for detached in (plans.score, plans.mass, plans.cost):
            assert not detached.requires_grad


def test_papers_without_sentences_are_refused() -> None:
    """A mask that is False for a whole paper raises InputError."""
    query, query_mask, candidate, mask = padded(1.0)
    mask[5] = False
    with pytest.raises(InputError, match="no sentence"):
        score_batch(query, query_mask, candidate, mask)


def test_vectors_that_are_not_finite_are_refused() -> None:
    """NaN in a sentence, as opposed to padding, raises InputError."""
    query, query_mask, candidate, mask = padded(1.0)
    candidate[2, 0, 0] = torch.nan
    with pytest.raises(InputError, match="not finite"):
        score_batch(query, query_mask, candidate, mask)


@pytest.mark.parametrize("scorer", [Scorer.OT, Scorer.ATTENTION])
def test_weights_of_the_smallest_temperature(scorer: Scorer) -> None:
    """Divided by such a tau all distances are infinite; the nearest gets all the mass, as on the CPU."""
    settings = TransportSettings(tau=1e-310)
    tensors = score_batch(*padded(12.0), scorer=scorer, settings=settings)
    query, rows, offsets = clustered_vectors(21, n_papers=N_PAPERS, n_query=8, norm=12.0)
    plans = score_papers(query, rows, offsets, scorer=scorer, settings=settings)
    np.testing.assert_allclose(tensors.score.numpy(), plans.scores, atol=1e-5, rtol=0)


def test_weights_that_are_no_numbers_end_the_solver() -> None:
    """A pair with a weight that is NaN has not converged; the others are solved."""
    cost, weights = torch.rand(2, 3, 3, dtype=torch.float64), torch.full((2, 3), 1 / 3, dtype=torch.float64)
    broken = weights.clone()
    broken[0, 0] = torch.nan
    found = solve(cost, broken, weights, settings=TransportSettings())
    assert [False, True] == found.converged.tolist()


def test_exact_transport_is_refused() -> None:
    """Exact transport is refused, and the message names its solver on the CPU."""
    with pytest.raises(InputError, match="exact_ot is only solved on the CPU, by score_papers"):
        score_batch(*padded(1.0), scorer=Scorer.EXACT_OT)
