"""Akin's own objective: cross-entropy over a batch, in both directions, on the ranking distances.

    loss = mean_i [-log softmax_j(-d(q_i, p_j) / temperature)_i] / 2, plus the same from each p_i to the q_j

with j over the positives of the batch and, for the queries only, the explicit negatives of query i. The
distances are those of semantics 3.3 and 3.4; transport's plan is detached. Each direction is InfoNCE (van den
Oord et al. 2018, equation 4).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float

from models.errors import InputError
from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import (
    DISTANCES,
    DOCUMENT,
    TEMPERED,
    all_distances,
    require_distance,
    require_positive,
)


@dataclass(frozen=True, slots=True)
class InBatch:
    """The loss for one distance, or its mean over several.

    ``temperature`` and ``tau``, the temperature of the marginals, are in units of distance. Raises InputError
    for no list of distances or a temperature not above 0, UnknownNameError for an unknown distance.
    """

    distances: tuple[str, ...] = ("ot",)
    temperature: float = 0.05
    tau: float = 0.5

    def __post_init__(self) -> None:
        if not (isinstance(self.distances, tuple) and self.distances):
            raise InputError(
                f"The objective's distances are {self.distances!r}; expected a list of at least one of "
                f"{', '.join(DISTANCES)}."
            )
        for name in self.distances:
            require_distance(name)
        require_positive(temperature=self.temperature, tau=self.tau)

    @property
    def served_tau(self) -> float | None:
        """``tau`` if one of the distances uses it, otherwise ``None``."""
        return self.tau if TEMPERED.intersection(self.distances) else None

    @property
    def reads_sentences(self) -> bool:
        """Whether one of the distances is not that of document vectors."""
        return set(self.distances) != {DOCUMENT}

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; 0 for one example without negatives, which has nothing to learn from."""
        losses = [self._loss(batch, name) for name in self.distances]
        return torch.stack(losses).mean()

    def _loss(self, batch: EncodedBatch, name: str) -> Float[torch.Tensor, ""]:
        n = len(batch.query)
        own = torch.arange(n, device=batch.same.device)
        # Other positives of the same paper are neither right nor wrong answers.
        shut = batch.same & ~torch.eye(n, dtype=torch.bool, device=batch.same.device)
        logits = -all_distances(name, batch.query, batch.positive, tau=self.tau) / self.temperature
        logits = logits.masked_fill(shut, -torch.inf)
        all_logits = logits
        if len(batch.negative):
            explicit = -all_distances(name, batch.query, batch.negative, tau=self.tau) / self.temperature
            foreign = batch.owner[None, :] != own[:, None]
            all_logits = torch.cat([logits, explicit.masked_fill(foreign | batch.known, -torch.inf)], dim=1)
        there = torch.nn.functional.cross_entropy(all_logits, own)
        back = torch.nn.functional.cross_entropy(logits.mT, own)
        return (there + back) / 2
