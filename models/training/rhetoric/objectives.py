"""The training objectives of a function encoder: sentences with one function get similar vectors.

Semantics 4.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Int64

from models.errors import UnknownNameError
from models.registry import resolve


@dataclass(frozen=True, slots=True)
class Objective:
    """A loss, and the number of examples ``per_class`` that a batch has of each function (the paper's M)."""

    loss: str
    per_class: int


# The paper's five objectives, with its constants; all except the first are from pytorch-metric-learning.
OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        "softmax": Objective("models.training.rhetoric.objectives:SoftmaxLoss", 1),
        "triplet": Objective("pytorch_metric_learning.losses:TripletMarginLoss", 8),
        "arcface": Objective("pytorch_metric_learning.losses:ArcFaceLoss", 1),
        "multi-similarity": Objective("pytorch_metric_learning.losses:MultiSimilarityLoss", 8),
        "nt-xent": Objective("pytorch_metric_learning.losses:NTXentLoss", 8),
    }
)


class SoftmaxLoss(torch.nn.Module):
    """The cross-entropy of a linear classifier on unnormalised vectors; discarded after training."""

    def __init__(self, *, num_classes: int, embedding_size: int) -> None:
        super().__init__()
        self.classify = torch.nn.Linear(embedding_size, num_classes)

    def forward(
        self, vectors: Float[torch.Tensor, "n_rows dim"], labels: Int64[torch.Tensor, " n_rows"]
    ) -> Float[torch.Tensor, ""]:
        """Return the mean over the batch."""
        loss: torch.Tensor = torch.nn.functional.cross_entropy(self.classify(vectors), labels)
        return loss


def build_loss(objective: str, *, n_functions: int, dim: int) -> torch.nn.Module:
    """Return the loss of (vectors (n_rows, dim), labels (n_rows,)) under ``objective``, a key of OBJECTIVES.

    All except ``softmax`` normalise the vectors themselves. A loss with its own parameters, such as a vector
    for each function, needs them trained too. Raises UnknownNameError or MissingPackageError.
    """
    if objective not in OBJECTIVES:
        raise UnknownNameError(f"Unknown objective {objective!r}; known: {', '.join(OBJECTIVES)}.")
    loss = resolve({objective: OBJECTIVES[objective].loss}, objective, "objective")
    classes: dict[str, float] = {"num_classes": n_functions, "embedding_size": dim}
    settings: dict[str, dict[str, float]] = {
        "softmax": classes,
        "triplet": {"margin": 0.05},  # all triplets of the batch, mean over those above 0
        "arcface": {**classes, "margin": float(np.rad2deg(0.5)), "scale": 16},
        "multi-similarity": {"alpha": 2, "beta": 40, "base": 0.75},
        "nt-xent": {"temperature": 0.1},
    }
    built: torch.nn.Module = loss(**settings[objective])
    return built
