"""Multiple-negatives ranking with explicit negatives (Zeta Alpha: Parisot and Zavrel 2022; semantics 4.3).

The loss is Henderson et al.'s (2017) with explicit negatives, as in the paper's code, losses.py:90-113.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float

from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import require_positive


@dataclass(frozen=True, slots=True)
class MultipleNegatives:
    """-log softmax_j(scale x cos(q_i, c_j))_i over all positives and all explicit negatives of the batch.

    Cosines are those of document vectors. Positives and negatives that are query i or belong to it in another
    example do not count. Raises InputError for a scale not above 0.
    """

    scale: float = 20.0

    served_tau: ClassVar[float | None] = None
    reads_sentences: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the mean over the batch."""
        candidates = torch.cat([batch.positive.documents, batch.negative.documents])
        unit = torch.nn.functional.normalize
        cosines = unit(batch.query.documents.double(), dim=1) @ unit(candidates.double(), dim=1).mT
        n = len(batch.query)
        own = torch.arange(n, device=batch.same.device)
        shut = torch.cat([batch.same & (own[:, None] != own), batch.known], dim=1)
        return torch.nn.functional.cross_entropy((self.scale * cosines).masked_fill(shut, -torch.inf), own)
