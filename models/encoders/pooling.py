"""Pads sequences of tokens to one batch, and averages their states over windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64

Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Token ids with their attention mask, and ``mean``: the weight of each token in each window."""

    ids: Int64[torch.Tensor, "n_batch longest"]
    mask: Int64[torch.Tensor, "n_batch longest"]
    mean: Float32[torch.Tensor, "n_batch n_window longest"]

    def to(self, device: torch.device) -> "PaddedBatch":
        """Return the same batch on ``device``."""
        return PaddedBatch(self.ids.to(device), self.mask.to(device), self.mean.to(device))


def pad_batch(sequences: Sequence[Sequence[int]], windows: Sequence[Sequence[Window]]) -> PaddedBatch:
    """Pad ``sequences`` of token ids to the longest, with the ``(start, stop)`` windows to pool in each."""
    longest = max(map(len, sequences))
    ids = np.zeros((len(sequences), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    # Averages are matrix products, which are deterministic on a GPU too; scattered additions are not.
    mean = np.zeros((len(sequences), max(map(len, windows)), longest), dtype=np.float32)
    for row, (sequence, own) in enumerate(zip(sequences, windows, strict=True)):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
        for number, (start, stop) in enumerate(own):
            mean[row, number, start:stop] = 1 / (stop - start)
    return PaddedBatch(torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(mean))


def mixed_states(
    states: Sequence[Float[torch.Tensor, "n_batch longest dim"]], logits: Float32[torch.Tensor, " n_states"]
) -> Float32[torch.Tensor, "n_batch longest dim"]:
    """Return the hidden states mixed by the softmax of ``logits``, in float32; both start with embeddings."""
    mixed = torch.zeros_like(states[0], dtype=torch.float32)
    for share, state in zip(torch.softmax(logits, dim=0), states, strict=True):
        mixed = mixed + share * state.float()
    return mixed


def pool_windows(
    batch: PaddedBatch, states: Float[torch.Tensor, "n_batch longest dim"]
) -> Float32[torch.Tensor, "n_batch n_window dim"]:
    """Return the mean state of each window, in float32; zero for a window that only pads the batch."""
    pooled: torch.Tensor = batch.mean @ states.float()
    return pooled
