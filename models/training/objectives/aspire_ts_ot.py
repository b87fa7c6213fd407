"""ASPIRE's TS + OT: the weighted sum of the two losses (ASPIRE, section 3.2.3; semantics 3.10)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float

from models.errors import InputError
from models.training.objectives.aspire_ot import TransportTriplet
from models.training.objectives.aspire_ts import TextualSupervision
from models.training.objectives.batch import EncodedBatch
from models.training.objectives.distances import require_positive
from models.training.objectives.negatives import draw_triples


@dataclass(frozen=True, slots=True)
class SupervisedTransport:
    """``sentences`` x L_TS + ``transport`` x L_OT, 1 and 1 in the paper, on the same triples."""

    margin: float = 1.0
    tau: float = 0.5
    sentences: float = 1.0
    transport: float = 1.0
    reads_sentences: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(tau=self.tau)
        require_positive(margin=self.margin, sentences=self.sentences, transport=self.transport, or_zero=True)
        if self.sentences == self.transport == 0:
            raise InputError("The objective's sentences and transport are both 0; give one a weight above 0.")

    @property
    def served_tau(self) -> float:
        """``tau``."""
        return self.tau

    def __call__(self, batch: EncodedBatch) -> Float[torch.Tensor, ""]:
        """Return the loss; raises the errors of both losses."""
        triples = draw_triples(batch)
        supervised = TextualSupervision(self.margin)(batch, triples)
        transported = TransportTriplet(self.margin, self.tau)(batch, triples)
        return self.sentences * supervised + self.transport * transported
