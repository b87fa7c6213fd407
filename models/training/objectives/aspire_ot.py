"""ASPIRE's L_OT: triplet margin on the transport distance (ASPIRE, section 3.2.2; semantics 3.4, 3.10)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float

from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import paired_distances, require_positive
from models.training.objectives.negatives import Triples, margin_loss


@dataclass(frozen=True, slots=True)
class TransportTriplet:
    """max(0, d(q, p) - d(q, n) + margin), summed over a batch; d is the dual of transport, with its gradient.

    ``margin`` and ``tau``, the temperature of the marginals, are in units of distance.
    """

    margin: float = 1.0
    tau: float = 0.5
    reads_sentences: ClassVar[bool] = True
    distance: ClassVar[str] = "ot"

    def __post_init__(self) -> None:
        require_positive(margin=self.margin, or_zero=True)
        require_positive(tau=self.tau)

    @property
    def served_tau(self) -> float:
        """``tau``."""
        return self.tau

    def __call__(self, batch: EncodedBatch, triples: Triples | None = None) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for a batch without a negative. The ``triples`` are drawn if not given."""
        distance = partial(paired_distances, self.distance, tau=self.tau, dual=True)
        return margin_loss(batch, distance, margin=self.margin, mean=False, triples=triples)
