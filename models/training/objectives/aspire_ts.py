"""ASPIRE's L_TS: triplet margin on the pair of sentences that a citing sentence selects.

ASPIRE, section 3.2.1; semantics 3.10, 3.11. The pair is ``Example.aligned``. AbsAspire, an ablation, is the
same loss on pairs that are aligned without citing sentences.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64

from models.errors import InputError
from models.training.objectives.batch import EncodedBatch, Vectors
from models.training.objectives.distances import l2, paired_distances, require_positive
from models.training.objectives.negatives import Triples, draw_triples, hinge, nothing


@dataclass(frozen=True, slots=True)
class TextualSupervision:
    """max(0, |q_i - p_j| - |q_k - n_l| + margin), summed; (i, j) is the aligned pair of the example.

    (k, l) is the aligned pair of the example that the negative is the positive of; an explicit negative has
    none, so its closest pair is used. Sentences past the token limit are replaced by the last one read.
    ``margin`` is in units of distance.
    """

    margin: float = 1.0

    served_tau: ClassVar[float | None] = None
    reads_sentences: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(margin=self.margin, or_zero=True)

    def __call__(self, batch: EncodedBatch, triples: Triples | None = None) -> Float[torch.Tensor, ""]:
        """Return the loss, 0 without a negative; raises InputError for an example without an aligned pair.

        The ``triples`` are drawn if not given.
        """
        if (batch.aligned < 0).any():
            raise InputError(
                "Textual supervision needs the aligned sentences of every example; make the set with "
                "akin train data cocited --align ENCODER."
            )
        triples = draw_triples(batch) if triples is None else triples
        if not len(triples.example):
            return nothing(batch)
        own = triples.example
        near = _aligned(batch.query[own], batch.positive[own], batch.aligned[own])
        drawn = triples.origin >= 0
        closest = paired_distances("single", batch.query[own], triples.negative, tau=1.0)
        foreign = _aligned(batch.query[own], triples.negative, batch.aligned[triples.origin.clamp(min=0)])
        return hinge(near, torch.where(drawn, foreign, closest), margin=self.margin, mean=False)


@dataclass(frozen=True, slots=True)
class AbstractSupervision(TextualSupervision):
    """AbsAspire: ``TextualSupervision`` on sentences aligned between the abstracts (semantics 3.11, 5).

    The set is made with ``akin train data cocited --align ENCODER --align-by abstracts``.
    """


def _aligned(a: Vectors, b: Vectors, pairs: Int64[torch.Tensor, "t 2"]) -> Float[torch.Tensor, " t"]:
    """Return the L2 distance of sentence ``pairs[t, 0]`` of ``a[t]`` to ``pairs[t, 1]`` of ``b[t]``."""
    rows = torch.arange(len(pairs), device=pairs.device)
    chosen = [
        own.sentences.double()[rows, torch.minimum(pairs[:, side], own.mask.sum(dim=1) - 1)]
        for side, own in enumerate((a, b))
    ]
    return l2(chosen[0], chosen[1])
