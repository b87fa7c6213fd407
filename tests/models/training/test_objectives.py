"""The objectives against the definitions of their papers, computed directly."""

import math
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from models.errors import MissingPackageError, UnknownNameError
from models.training.rhetoric.objectives import OBJECTIVES, build_loss

N, DIM, LABELS = 12, 5, [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3]
ROWS = range(N)
Expected = Callable[[np.ndarray, Sequence[np.ndarray]], float]  # of vectors, and of the loss's own parameters


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Return random vectors, and labels of four functions."""
    return torch.randn(N, DIM, generator=torch.Generator().manual_seed(0)), torch.tensor(LABELS)


def cosines(vectors: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """Return the cosine of each vector with each of the others, or with each of the same."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    if others is None:
        return np.asarray(unit @ unit.T)
    return np.asarray(unit @ (others / np.linalg.norm(others, axis=1, keepdims=True)).T)


def alike(i: int) -> list[int]:
    """Return the other rows with the function of row i."""
    return [j for j in ROWS if j != i and LABELS[j] == LABELS[i]]


def unlike(i: int) -> list[int]:
    """Return the rows with another function."""
    return [j for j in ROWS if LABELS[j] != LABELS[i]]


def cross_entropy(logits: np.ndarray) -> float:
    """Return -log of the softmax at the right function, mean over rows."""
    return float(np.mean(np.logaddexp.reduce(logits, axis=1) - logits[ROWS, LABELS]))


def softmax(vectors: np.ndarray, own: Sequence[np.ndarray]) -> float:
    """Cross-entropy of a linear classifier on vectors that are not normalised."""
    weight, bias = own
    return cross_entropy(vectors @ weight.T + bias)


def triplet(vectors: np.ndarray, _: Sequence[np.ndarray]) -> float:
    """Mean of the triplets of the batch that are above zero: margin 0.05, L2 distance, unit vectors."""
    distance = np.sqrt(np.maximum(2 - 2 * cosines(vectors), 0))
    losses = [distance[i, p] - distance[i, n] + 0.05 for i in ROWS for p in alike(i) for n in unlike(i)]
    positive = [loss for loss in losses if loss > 0]
    assert 0 < len(positive) < len(losses)
    return float(np.mean(positive))


def arcface(vectors: np.ndarray, own: Sequence[np.ndarray]) -> float:
    """Equation 3 of Deng et al. (CVPR 2019), with m = 0.5 radians and s = 16."""
    angles = np.arccos(cosines(vectors, own[0].T))
    assert angles[ROWS, LABELS].max() < math.pi - 0.5  # past it the library keeps the loss rising
    return cross_entropy(16 * np.cos(angles + 0.5 * np.eye(4)[LABELS]))


def multi_similarity(vectors: np.ndarray, _: Sequence[np.ndarray]) -> float:
    """Equation 15 of Wang et al. (CVPR 2019), alpha 2, beta 40, lambda 0.75, over all pairs."""
    cosine = cosines(vectors) - 0.75
    near = [math.log(1 + sum(math.exp(-2 * cosine[i, k]) for k in alike(i))) / 2 for i in ROWS]
    far = [math.log(1 + sum(math.exp(40 * cosine[i, k]) for k in unlike(i))) / 40 for i in ROWS]
    return (sum(near) + sum(far)) / N


def nt_xent(vectors: np.ndarray, _: Sequence[np.ndarray]) -> float:
    """Equation 1 of Chen et al. (ICML 2020), temperature 0.1: each positive against all negatives, mean."""
    similar = np.exp(cosines(vectors) / 0.1)
    against = [sum(similar[i, k] for k in unlike(i)) for i in ROWS]
    return float(
        np.mean([-math.log(similar[i, j] / (similar[i, j] + against[i])) for i in ROWS for j in alike(i)])
    )


CASES: dict[str, Expected] = {
    "softmax": softmax,
    "triplet": triplet,
    "arcface": arcface,
    "multi-similarity": multi_similarity,
    "nt-xent": nt_xent,
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_loss_and_gradient_equal_a_plain_computation(objective: str) -> None:
    """Each loss is that of a plain float64 computation, and its gradient that of finite differences."""
    torch.manual_seed(0)
    given, labels = batch()
    loss = build_loss(objective, n_functions=4, dim=DIM)
    own = [parameter.detach().double().numpy().copy() for parameter in loss.parameters()]
    leaf = given.clone().requires_grad_()
    found = loss(leaf, labels)
    found.backward()
    vectors = given.double().numpy().copy()
    assert found.item() == pytest.approx(CASES[objective](vectors, own), rel=1e-4)
    gradients = [leaf.grad, *(parameter.grad for parameter in loss.parameters())]
    for values, gradient in zip([vectors, *own], gradients, strict=True):
        assert gradient is not None
        for place in np.ndindex(values.shape):
            kept, step = values[place], 1e-6
            values[place] = kept + step
            above = CASES[objective](vectors, own)
            values[place] = kept - step
            below = CASES[objective](vectors, own)
            values[place] = kept
            assert gradient[place].item() == pytest.approx((above - below) / 2 / step, rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_prefers_functions_that_stand_apart(objective: str) -> None:
    """Following its gradient, every loss falls, and each vector's nearest one has its function."""
    torch.manual_seed(0)
    vectors, labels = batch()
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
