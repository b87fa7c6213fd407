"""The input of an objective: vectors of a batch of examples, and which texts belong together."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float32, Int64


@dataclass(frozen=True, slots=True)
class Vectors:
    """``n`` encoded texts: sentence vectors, padded, ``mask`` True at sentences, and document vectors."""

    sentences: Float32[torch.Tensor, "n n_sentence dim"]
    mask: Bool[torch.Tensor, "n n_sentence"]
    documents: Float32[torch.Tensor, "n dim"]

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, chosen: Int64[torch.Tensor, " m"] | slice) -> "Vectors":
        return Vectors(self.sentences[chosen], self.mask[chosen], self.documents[chosen])


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """``n`` examples: query ``i`` belongs to positive ``i``; ``owner[j]`` is the query of negative ``j``.

    ``same[i, j]`` is True where positive ``j`` must not count as a negative for query ``i`` (nor query ``i``
    for positive ``j``): the two are one paper, or belong together in another example. The diagonal is True.
    ``known[i, j]`` is True where negative ``j``, whosever it is, must not count as one for query ``i``: it is
    that query or belongs to it in some example.
    ``aligned[i]`` are the sentences of query and positive that were found to say the same, -1 where none was.
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
    """One training objective of retrieval."""

    @property
    def served_tau(self) -> float | None:
        """The temperature that a search should compare at too, in units of distance; None without one."""
        ...

    def __call__(self, batch: EncodedBatch) -> torch.Tensor:
        """The loss of a batch, a scalar to be made small; may draw from torch's random numbers."""
        ...
