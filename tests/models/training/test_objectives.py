"""The objectives against the definitions of their papers, computed directly."""

import math
import sys
from itertools import product

import pytest
import torch

from models.errors import MissingPackageError, UnknownNameError
from models.training.rhetoric.objectives import OBJECTIVES, SoftmaxLoss, build_loss

N, DIM, LABELS = 12, 5, [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3]
ROWS = range(N)


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random vectors, the same at unit norm, and labels of four functions."""
    vectors = torch.randn(N, DIM, generator=torch.Generator().manual_seed(seed))
    return vectors, torch.nn.functional.normalize(vectors), torch.tensor(LABELS)


def value(objective: str) -> float:
    """Return the loss of the batch."""
    vectors, _, labels = batch()
    return build_loss(objective, n_functions=4, dim=DIM)(vectors, labels).item()


def test_triplet_is_the_mean_of_all_triplets_that_are_not_yet_zero() -> None:
    """The loss is the mean of all positive triplets of the batch: margin 0.05, L2 distance, unit vectors."""
    _, unit, _ = batch()
    distance = torch.cdist(unit, unit)
    losses = [
        float(distance[a, p] - distance[a, n]) + 0.05
        for a, p, n in product(ROWS, repeat=3)
        if a != p and LABELS[a] == LABELS[p] != LABELS[n]
    ]
    positive = [loss for loss in losses if loss > 0]
    assert 0 < len(positive) < len(losses)
    assert sum(positive) / len(positive) == pytest.approx(value("triplet"), abs=1e-5)


def test_multi_similarity_weighs_pairs_as_its_equation_does() -> None:
    """The loss is equation 15 of Wang et al. (CVPR 2019), alpha 2, beta 40, lambda 0.75, over all pairs."""
    _, unit, _ = batch()
    cosine = (unit @ unit.T).tolist()
    total = 0.0
    for i in ROWS:
        alike = sum(math.exp(-2 * (cosine[i][k] - 0.75)) for k in ROWS if k != i and LABELS[k] == LABELS[i])
        unlike = sum(math.exp(40 * (cosine[i][k] - 0.75)) for k in ROWS if LABELS[k] != LABELS[i])
        total += math.log(1 + alike) / 2 + math.log(1 + unlike) / 40
    assert total / N == pytest.approx(value("multi-similarity"), rel=1e-5)


def test_nt_xent_sets_each_positive_against_all_negatives() -> None:
    """The loss is equation 1 of Chen et al. (ICML 2020), temperature 0.1, labels for pairs, pairs' mean."""
    _, unit, _ = batch()
    similar = torch.exp(unit @ unit.T / 0.1).tolist()
    losses = []
    for i in ROWS:
        against = sum(similar[i][k] for k in ROWS if LABELS[k] != LABELS[i])
        losses += [
            -math.log(similar[i][j] / (similar[i][j] + against))
            for j in ROWS
            if j != i and LABELS[j] == LABELS[i]
        ]
    assert sum(losses) / len(losses) == pytest.approx(value("nt-xent"), rel=1e-5)


def test_arcface_adds_its_margin_to_the_angle_of_the_right_function() -> None:
    """The loss is equation 3 of Deng et al. (CVPR 2019), with m = 0.5 radians and s = 16."""
    torch.manual_seed(0)
    vectors, unit, labels = batch()
    loss = build_loss("arcface", n_functions=4, dim=DIM)
    centres = torch.nn.functional.normalize(loss.W.detach().T)  # type: ignore[union-attr, operator] # untyped there
    angles = torch.arccos(unit @ centres.T)
    assert float(angles[ROWS, LABELS].max()) < math.pi - 0.5  # past it the library keeps the loss rising
    right = torch.nn.functional.one_hot(labels, 4)
    logits = 16 * torch.cos(angles + 0.5 * right)
    expected = torch.nn.functional.cross_entropy(logits, labels)
    assert float(expected) == pytest.approx(loss(vectors, labels).item(), rel=1e-4)


def test_softmax_is_the_cross_entropy_of_a_linear_classifier() -> None:
    """The loss is -log of the probability of the right function, mean over the batch."""
    vectors, _, labels = batch()
    loss = SoftmaxLoss(num_classes=4, embedding_size=DIM)
    weight, bias = (parameter.detach() for parameter in loss.parameters())
    probability = torch.softmax(vectors @ weight.T + bias, dim=1)[ROWS, LABELS]
    assert float(-probability.log().mean()) == pytest.approx(loss(vectors, labels).item(), rel=1e-5)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_prefers_functions_that_stand_apart(objective: str) -> None:
    """Following its gradient, every loss falls, and each vector's nearest one has its function."""
    torch.manual_seed(0)
    vectors, _, labels = batch()
    vectors.requires_grad_()
    loss = build_loss(objective, n_functions=4, dim=DIM)
    optimiser = torch.optim.Adam([vectors, *loss.parameters()], lr=0.1)
    before = loss(vectors, labels).item()
    for _ in range(150):
        optimiser.zero_grad()
        loss(vectors, labels).backward()
        optimiser.step()
    assert loss(vectors, labels).item() < before / 2
    unit = torch.nn.functional.normalize(vectors.detach())
    nearest = (unit @ unit.T - 2 * torch.eye(N)).argmax(dim=1)
    assert torch.equal(labels, labels[nearest])


def test_an_unknown_objective_is_refused() -> None:
    """The message about an unknown objective lists the known ones."""
    with pytest.raises(UnknownNameError, match="known: softmax, triplet"):
        build_loss("hinge", n_functions=4, dim=DIM)


def test_without_the_library_of_losses_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library of losses, softmax works and the other losses name what to install."""
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning", None)
    monkeypatch.delitem(sys.modules, "pytorch_metric_learning.losses", raising=False)
    build_loss("softmax", n_functions=4, dim=DIM)
    with pytest.raises(MissingPackageError, match=r'pip install "akin\[train\]=='):
        build_loss("triplet", n_functions=4, dim=DIM)
