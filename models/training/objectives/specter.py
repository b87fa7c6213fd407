"""Triplet margin on the L2 distance of document vectors (SPECTER, equation 1; semantics 3.10, 4.2)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float

from models.errors import InputError
from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import DOCUMENT, paired_distances, require_positive
from models.training.objectives.negatives import margin_loss


@dataclass(frozen=True, slots=True)
class DocumentTriplet:
    """max(0, |q - p| - |q - n| + margin) on documents: the mean over triples (SPECTER) or the sum (ASPIRE).

    SPECTER trains it on citation triplets, SPECTER-CoCite on co-cited papers, CoSentBert on sentences that
    cite the same papers (semantics 3.10, 3.11). ``margin`` is in units of distance. Raises InputError for a
    ``margin`` below 0, or a ``mean`` that is neither true nor false.
    """

    margin: float = 1.0
    mean: bool = True

    served_tau: ClassVar[float | None] = None
    reads_sentences: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive(margin=self.margin, or_zero=True)
        if not isinstance(self.mean, bool):
            raise InputError(f"The objective's mean is {self.mean!r}; expected true or false.")

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for a batch without a negative."""
        distance = partial(paired_distances, DOCUMENT, tau=1.0)
        return margin_loss(batch, distance, margin=self.margin, mean=self.mean)
