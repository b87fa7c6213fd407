"""ASPIRE's AttAspire: triplet margin on a mean of all pairs of sentences (semantics 3.10, 5).

The distance is sum_ij w_ij d_ij with w = softmax_ij(-d_ij / tau) (Mysore et al. 2022). The gradient also
flows through the weights.
"""

from dataclasses import dataclass
from typing import ClassVar

from models.training.objectives.aspire_ot import TransportTriplet


@dataclass(frozen=True, slots=True)
class AttentionTriplet(TransportTriplet):
    """``TransportTriplet`` with attention instead of transport; ``tau`` is the temperature of the weights."""

    distance: ClassVar[str] = "attention"
