"""ASPIRE's ablations: AbsAspire, MaxAspire and AttAspire (Mysore et al. 2022; semantics 3.3, 3.10, 5)."""

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float

from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import paired_distances, require_positive
from models.training.objectives.negatives import margin_loss
from models.training.objectives.specter import DocumentTriplet


@dataclass(frozen=True, slots=True)
class AbsTriplet(DocumentTriplet):
    """AbsAspire: the same as ``specter``, but with the sum instead of the mean (semantics 3.10)."""

    mean: bool = field(default=False, init=False)


@dataclass(frozen=True, slots=True)
class MaxTriplet:
    """MaxAspire: summed triplet margin on min_ij |q_i - p_j|, without supervision (semantics 3.3, 3.10).

    ``margin`` is in units of distance.
    """

    margin: float = 1.0
    served_tau: ClassVar[float | None] = None
    reads_sentences: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(margin=self.margin, or_zero=True)

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
