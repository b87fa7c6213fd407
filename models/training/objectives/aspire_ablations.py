"""ASPIRE's ablations: AbsAspire, MaxAspire and AttAspire (Mysore et al. 2022; semantics 3.3, 3.10, 5)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float

from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import DOCUMENT, paired_distances
from models.training.objectives.negatives import margin_loss


@dataclass(frozen=True, slots=True)
class AbsTriplet:
    """AbsAspire: max(0, |q - p| - |q - n| + margin) on document vectors, summed (semantics 3.10).

    ``margin`` is in units of distance. The same as ``specter``, but with the sum instead of the mean.
    """

    margin: float = 1.0
    served_tau: ClassVar[float | None] = None

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for a batch without a negative."""
        distance = partial(paired_distances, DOCUMENT, tau=1.0)
        return margin_loss(batch, distance, margin=self.margin, mean=False)


@dataclass(frozen=True, slots=True)
class MaxTriplet:
    """MaxAspire: summed triplet margin on min_ij |q_i - p_j|, without supervision (semantics 3.3, 3.10).

    ``margin`` is in units of distance.
    """

    margin: float = 1.0
    served_tau: ClassVar[float | None] = None

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for a batch without a negative."""
        distance = partial(paired_distances, "single", tau=1.0)
        return margin_loss(batch, distance, margin=self.margin, mean=False)


@dataclass(frozen=True, slots=True)
class AttentionTriplet:
    """AttAspire: summed triplet margin on sum_ij w_ij d_ij, w = softmax_ij(-d_ij / tau) (semantics 5).

    The gradient also flows through the weights. ``margin`` and ``tau`` are in units of distance.
    """

    margin: float = 1.0
    tau: float = 0.5

    @property
    def served_tau(self) -> float:
        """``tau``."""
        return self.tau

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for a batch without a negative."""
        distance = partial(paired_distances, "attention", tau=self.tau, dual=True)
        return margin_loss(batch, distance, margin=self.margin, mean=False)
