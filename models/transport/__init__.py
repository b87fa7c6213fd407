"""Optimal transport between the sentences of two papers; the torch version is ``models.transport.tensor``."""

from models.transport.best import BestPapers, best_by_cost, best_papers, score_in_blocks
from models.transport.kernels import score_papers
from models.transport.plan import CHEAPEST, REFERENCE, SERVING, Plan, Plans, Scorer, TransportSettings

__all__ = [
    "CHEAPEST",
    "REFERENCE",
    "SERVING",
    "BestPapers",
    "Plan",
    "Plans",
    "Scorer",
    "TransportSettings",
    "best_by_cost",
    "best_papers",
    "score_in_blocks",
    "score_papers",
]
