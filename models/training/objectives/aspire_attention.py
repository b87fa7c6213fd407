"""ASPIRE's AttAspire: triplet margin on a mean of all pairs of sentences (semantics 3.10, 5).

The distance is sum_ij w_ij d_ij with w = softmax_ij(-d_ij / tau) (Mysore et al. 2022). The gradient also
flows through the weights.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float

from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import paired_distances, require_positive
from models.training.objectives.negatives import margin_loss


@dataclass(frozen=True, slots=True)
class AttentionTriplet:
    """Summed over the triples of a batch; ``margin`` and ``tau`` are in units of distance."""

    margin: float = 1.0
    tau: float = 0.5
    reads_sentences: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(margin=self.margin, or_zero=True)
        require_positive(tau=self.tau)

    @property
    def served_tau(self) -> float:
        """``tau``."""
        return self.tau

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for a batch without a negative."""
        distance = partial(paired_distances, "attention", tau=self.tau, dual=True)
        return margin_loss(batch, distance, margin=self.margin, mean=False)
