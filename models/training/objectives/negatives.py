"""Triples with negatives drawn from the batch, and the margin loss on them.

ASPIRE permutes the positives of a batch, so that in a batch of three, one triple in three has its positive as
its negative (semantics 3.10). Here the negative is a positive of another example that does not belong to the
query.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64

from models.training.objectives.batch import EncodedBatch, Vectors


@dataclass(frozen=True, slots=True)
class Triples:
    """Triples of the query and the positive of example ``example[t]``, and a negative.

    ``origin[t]`` is the example that the negative is the positive of, -1 for an explicit negative.
    """

    example: Int64[torch.Tensor, " t"]
    negative: Vectors
    origin: Int64[torch.Tensor, " t"]


def draw_triples(batch: EncodedBatch) -> Triples:
    """Return a triple for each explicit negative, and one drawn with torch for each example without any.

    An explicit negative that belongs to its query in some example does not count. So a batch may have no
    triple and nothing to learn from; ``models.training.set_checks`` refuses sets in which no batch has one.
    """
    places = torch.arange(len(batch.owner), device=batch.owner.device)
    given = (~batch.known[batch.owner, places]).nonzero()[:, 0]
    owner = batch.owner[given]
    explicit = torch.bincount(owner, minlength=len(batch.query)) > 0
    rivals = ~batch.same & ~explicit[:, None]
    drawn = torch.rand(rivals.shape).to(rivals.device).masked_fill(~rivals, -1.0).argmax(dim=1)
    examples = rivals.any(dim=1).nonzero()[:, 0]
    origin = drawn[examples]
    return Triples(
        torch.cat([owner, examples]),
        _stacked(batch.negative[given], batch.positive[origin]),
        torch.cat([torch.full_like(owner, -1), origin]),
    )


def margin_loss(
    batch: EncodedBatch,
    distance: Callable[[Vectors, Vectors], Float[torch.Tensor, " t"]],
    *,
    margin: float,
    mean: bool,
    triples: Triples | None = None,
) -> Float[torch.Tensor, ""]:
    """Return the sum, or mean, over triples of max(0, d(query, positive) - d(query, negative) + margin).

    The triples are drawn, if they are not given.
    """
    triples = draw_triples(batch) if triples is None else triples
    if not len(triples.example):
        return nothing(batch)
    queries, positives = batch.query[triples.example], batch.positive[triples.example]
    return hinge(distance(queries, positives), distance(queries, triples.negative), margin=margin, mean=mean)


def nothing(batch: EncodedBatch) -> Float[torch.Tensor, ""]:
    """Return a loss of 0 with gradients of 0, for a batch without triples."""
    return 0 * (batch.query.sentences.sum() + batch.query.documents.sum())


def hinge(
    near: Float[torch.Tensor, " t"], far: Float[torch.Tensor, " t"], *, margin: float, mean: bool
) -> Float[torch.Tensor, ""]:
    """Return the sum, or the mean, of max(0, near - far + margin)."""
    losses = (near - far + margin).clamp(min=0)
    return losses.mean() if mean and len(losses) else losses.sum()


def _stacked(a: Vectors, b: Vectors) -> Vectors:
    return Vectors(
        torch.cat([a.sentences, b.sentences]),
        torch.cat([a.mask, b.mask]),
        torch.cat([a.documents, b.documents]),
    )
