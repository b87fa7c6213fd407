"""Optimal transport between the sentences of two papers; the torch half is in ``models.transport.tensor``."""

from models.transport.kernels import score_papers
from models.transport.plan import CHEAPEST, REFERENCE, SERVING, Plan, Plans, Scorer, TransportSettings

__all__ = [
    "CHEAPEST",
    "REFERENCE",
    "SERVING",
    "Plan",
    "Plans",
    "Scorer",
    "TransportSettings",
    "score_papers",
]
