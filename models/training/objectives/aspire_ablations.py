"""ASPIRE's ablations that compare sentences otherwise: MaxAspire and AttAspire (semantics 3.10, 5).

AbsAspire compares documents: ``abs``, in ``specter``.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float

from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import paired_distances
from models.training.objectives.negatives import margin_loss


@dataclass(frozen=True, slots=True)
class MaxTriplet:
    """Summed triplet margin on the L2 distance of the closest pair of sentences, without supervision."""

    margin: float = 1.0

    served_tau: ClassVar[float | None] = None

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """The loss; raises InputError for a batch without a negative."""
        distance = partial(paired_distances, "single", tau=1.0)
        return margin_loss(batch, distance, margin=self.margin, mean=False)


@dataclass(frozen=True, slots=True)
class AttentionTriplet:
    """Summed triplet margin on sum_ij w_ij d_ij with w = softmax(-d / tau) over all pairs of sentences.

    The gradient flows through the weights, too.
    """

    margin: float = 1.0
    tau: float = 0.5

    @property
    def served_tau(self) -> float:
        """``tau``."""
        return self.tau

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """The loss; raises InputError for a batch without a negative."""
        distance = partial(paired_distances, "attention", tau=self.tau, dual=True)
        return margin_loss(batch, distance, margin=self.margin, mean=False)
