"""Triples of a batch: negatives drawn in it, never the query's own positive, and the margin loss on them.

ASPIRE permutes the positives of a batch, so that in a batch of three every third triple has its positive for
its negative (semantics 3.10); here a negative is another example's positive, one that does not belong to the
query.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64

from models.training.objectives.batch import EncodedBatch, Vectors


@dataclass(frozen=True, slots=True)
class Triples:
    """Triple ``t``: query and positive of example ``example[t]``, and a negative.

    ``origin[t]`` is the example whose positive the negative is, -1 for one of the query's own negatives.
    """

    example: Int64[torch.Tensor, " t"]
    negative: Vectors
    origin: Int64[torch.Tensor, " t"]


def draw_triples(batch: EncodedBatch) -> Triples:
    """One triple for each explicit negative, and one for each example without, drawn by torch's numbers.

    An explicit negative that belongs to its query in another example is none, so there may be no triple:
    then the batch has nothing to learn from (``models.training.fitness`` refuses sets without any such).
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
) -> Float[torch.Tensor, ""]:
    """max(0, d(query, positive) - d(query, negative) + margin): the sum over triples, or their mean."""
    triples = draw_triples(batch)
    if not len(triples.example):
        return nothing(batch)
    queries, positives = batch.query[triples.example], batch.positive[triples.example]
    return hinge(distance(queries, positives), distance(queries, triples.negative), margin=margin, mean=mean)


def nothing(batch: EncodedBatch) -> Float[torch.Tensor, ""]:
    """A loss of 0 with gradients of 0, for a batch from which nothing can be learnt."""
    return 0 * (batch.query.sentences.sum() + batch.query.documents.sum())


def hinge(
    near: Float[torch.Tensor, " t"], far: Float[torch.Tensor, " t"], *, margin: float, mean: bool
) -> Float[torch.Tensor, ""]:
    """max(0, near - far + margin): the sum, or the mean."""
    losses = (near - far + margin).clamp(min=0)
    return losses.mean() if mean and len(losses) else losses.sum()


def _stacked(a: Vectors, b: Vectors) -> Vectors:
    return Vectors(
        torch.cat([a.sentences, b.sentences]),
        torch.cat([a.mask, b.mask]),
        torch.cat([a.documents, b.documents]),
    )
