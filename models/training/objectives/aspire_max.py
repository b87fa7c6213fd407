"""ASPIRE's MaxAspire: triplet margin on the nearest pair of sentences (semantics 3.3, 3.10).

The distance is min_ij |q_i - p_j|, without a citing sentence that selects the pair (Mysore et al. 2022).
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
class MaxTriplet:
    """Summed over the triples of a batch; ``margin`` is in units of distance."""

    margin: float = 1.0
    served_tau: ClassVar[float | None] = None
    reads_sentences: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(margin=self.margin, or_zero=True)

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for a batch without a negative."""
        distance = partial(paired_distances, "single", tau=1.0)
        return margin_loss(batch, distance, margin=self.margin, mean=False)
