"""The input of an objective: the vectors of a batch of examples, and the texts that belong together."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float32, Int64


@dataclass(frozen=True, slots=True)
class Vectors:
    """The padded sentence vectors (``mask`` is True at sentences) and document vectors of ``n`` texts."""

    sentences: Float32[torch.Tensor, "n n_sentence dim"]
    mask: Bool[torch.Tensor, "n n_sentence"]
    documents: Float32[torch.Tensor, "n dim"]

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, chosen: Int64[torch.Tensor, " m"] | slice) -> "Vectors":
        return Vectors(self.sentences[chosen], self.mask[chosen], self.documents[chosen])


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch of ``n`` examples: positive ``i`` belongs to query ``i``, negative ``j`` to query ``owner[j]``.

    ``same[i, j]`` is True if positive ``j`` must not count as a negative for query ``i`` (nor query ``i`` for
    positive ``j``), because examples ``i`` and ``j`` share a query or a positive, or because the query of one
    belongs to the positive of the other in some example. The diagonal is True.
    ``known[i, j]`` is True if negative ``j``, of any example, must not count as one for query ``i``, because
    it is this query or belongs to it in some example.
    ``aligned[i]`` holds the numbers of the aligned sentences of query and positive, -1 if there are none.
    """

    query: Vectors
    positive: Vectors
    negative: Vectors
    owner: Int64[torch.Tensor, " n_negative"]
    same: Bool[torch.Tensor, "n n"]
    known: Bool[torch.Tensor, "n n_negative"]
    aligned: Int64[torch.Tensor, "n 2"]


@runtime_checkable
class RetrievalObjective(Protocol):
    """A training objective of retrieval."""

    @property
    def served_tau(self) -> float | None:
        """The temperature that a search should use too, in units of distance; None without a temperature."""
        ...

    @property
    def reads_sentences(self) -> bool:
        """Whether it trains sentence vectors, not document vectors alone."""
        ...

    def __call__(self, batch: EncodedBatch) -> torch.Tensor:
        """Return the loss of a batch, a scalar to minimise; may draw random numbers from torch."""
        ...
