"""Tests of the contract of every training objective, for retrieval and for functions."""

import math
from dataclasses import fields

import pytest
import torch
from torch import Tensor

import models.training.objectives
import models.training.rhetoric.objectives
from models.errors import InputError
from models.registry import resolve
from models.training.objectives.batch import EncodedBatch, RetrievalObjective, Vectors
from models.training.rhetoric.objectives import build_loss

RETRIEVAL = models.training.objectives.OBJECTIVES
FUNCTIONS = models.training.rhetoric.objectives.OBJECTIVES
N, DIM, MAX_SENTENCES = 4, 6, 3
LENGTHS = torch.tensor([3, 2, 3, 1])  # sentences per text; the rest is padding
MASK = torch.arange(MAX_SENTENCES)[None] < LENGTHS[:, None]


def objective(name: str) -> RetrievalObjective:
    """Return the objective with this name and its default settings."""
    built: RetrievalObjective = resolve(RETRIEVAL, name, "objective")()
    return built


def drawn(seed: int, *, scale: float = 1.0) -> Tensor:
    """Return the rows of texts, (N, 1 + MAX_SENTENCES, DIM): the document's, then its sentences'."""
    rows = scale * torch.randn(N, 1 + MAX_SENTENCES, DIM, generator=torch.Generator().manual_seed(seed))
    rows[:, 1:][~MASK] = 0
    return rows


def loss_of(
    name: str,
    queries: Tensor,
    positives: Tensor,
    *,
    order: Tensor | None = None,
    with_tau: float | None = None,
) -> Tensor:
    """Return the loss of a batch with a negative for each query, with its examples in ``order`` if given."""
    order = torch.arange(N) if order is None else order
    query, positive, negative = (
        Vectors(rows[order, 1:], MASK[order], rows[order, 0]) for rows in (queries, positives, drawn(3))
    )
    own = objective(name) if with_tau is None else resolve(RETRIEVAL, name, "objective")(tau=with_tau)
    loss: Tensor = own(
        EncodedBatch(
            query=query,
            positive=positive,
            negative=negative,
            owner=torch.arange(N),
            same=torch.eye(N, dtype=torch.bool),
            known=torch.zeros(N, N, dtype=torch.bool),
            aligned=torch.zeros(N, 2, dtype=torch.long),  # the first sentences are aligned
        )
    )
    return loss


@pytest.mark.parametrize("name", RETRIEVAL)
class TestEveryRetrievalObjective:
    def test_its_gradient_reaches_both_papers(self, name: str) -> None:
        """The loss is one finite number, and the gradients are finite and not all 0."""
        queries, positives = drawn(1).requires_grad_(), drawn(2).requires_grad_()
        loss = loss_of(name, queries, positives)
        assert (0, True) == (loss.ndim, bool(loss.isfinite()))
        loss.backward()
        for rows in (queries, positives):
            assert rows.grad is not None
            assert rows.grad.isfinite().all()
            assert rows.grad.abs().max() > 0

    def test_a_search_reads_the_temperature_that_it_is_trained_at(self, name: str) -> None:
        """``served_tau`` is the setting tau, which changes the loss; without such a setting it is None."""
        kind = resolve(RETRIEVAL, name, "objective")
        if "tau" not in {own.name for own in fields(kind)}:
            assert kind().served_tau is None
            return
        losses = {tau: loss_of(name, drawn(1), drawn(2), with_tau=tau).item() for tau in (0.2, 0.7)}
        assert losses[0.2] != losses[0.7]
        assert [kind(tau=tau).served_tau for tau in losses] == [*losses]

    @pytest.mark.parametrize("value", [-5, "1", math.nan, True])
    def test_a_setting_that_is_no_number_is_refused(self, name: str, value: object) -> None:
        """Each number among the settings is named that is negative, a text, not a number or a truth value."""
        kind = resolve(RETRIEVAL, name, "objective")
        for setting in fields(kind):
            if isinstance(setting.default, float):
                with pytest.raises(InputError, match=f"{setting.name} is {value!r}; expected a number"):
                    kind(**{setting.name: value})

    def test_padding_says_nothing(self, name: str) -> None:
        """Values in padding change neither the loss nor the gradient, which is 0 there."""
        other = drawn(1)
        other[:, 1:][~MASK] = 7.0
        queries = [rows.requires_grad_() for rows in (drawn(1), other)]
        losses = [loss_of(name, rows, drawn(2)) for rows in queries]
        torch.testing.assert_close(*losses)
        gradients = torch.autograd.grad(losses[0], queries[0]) + torch.autograd.grad(losses[1], queries[1])
        torch.testing.assert_close(gradients[0], gradients[1])
        assert 0 == gradients[1][:, 1:][~MASK].abs().max()

    def test_the_order_of_a_batch_does_not_matter(self, name: str) -> None:
        """The same texts in another order have the same loss."""
        order = torch.tensor([2, 0, 3, 1])
        expected = loss_of(name, drawn(1), drawn(2))
        torch.testing.assert_close(loss_of(name, drawn(1), drawn(2), order=order), expected)

    def test_what_is_alike_costs_less(self, name: str) -> None:
        """The loss of queries with themselves as positives is lower than with other texts."""
        queries = drawn(1, scale=3.0)
        assert loss_of(name, queries, queries) < loss_of(name, queries, drawn(2, scale=3.0))


@pytest.mark.parametrize("name", FUNCTIONS)
class TestEveryFunctionObjective:
    LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])

    def test_its_gradient_reaches_the_vectors(self, name: str) -> None:
        """The loss is one finite number, and its gradient is finite and not all 0."""
        torch.manual_seed(0)
        vectors = torch.randn(len(self.LABELS), DIM, requires_grad=True)
        loss = build_loss(name, n_functions=3, dim=DIM)(vectors, self.LABELS)
        assert (0, True) == (loss.ndim, bool(loss.isfinite()))
        (gradient,) = torch.autograd.grad(loss, vectors)
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0

    def test_the_order_of_a_batch_does_not_matter(self, name: str) -> None:
        """The same sentences in another order have the same loss."""
        torch.manual_seed(0)
        loss, vectors = build_loss(name, n_functions=3, dim=DIM), torch.randn(len(self.LABELS), DIM)
        order = torch.randperm(len(vectors))
        torch.testing.assert_close(loss(vectors, self.LABELS), loss(vectors[order], self.LABELS[order]))
