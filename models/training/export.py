"""Trained weights, averaged and written as a checkpoint folder that loads like any other."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch

from models.checkpoints.checkpoints import LAYER_MIX, LocalCheckpoint, Pooling, write_pooling
from models.checkpoints.conversion import COMPANIONS, write_weights
from models.encoders.loading import load_checkpoint, load_layer_mix


def write_encoder(
    prepared: Path, source: Path, tensors: Mapping[str, torch.Tensor], pooling: Pooling
) -> None:
    """Write ``tensors`` to the folder ``prepared``, with the configuration and tokenizer of ``source``."""
    write_weights(prepared, tensors)
    for companion in COMPANIONS:
        if (source / companion).is_file():
            shutil.copyfile(source / companion, prepared / companion)
    write_pooling(prepared, pooling)


def layer_shares(tensors: Mapping[str, torch.Tensor]) -> list[float]:
    """Return the share of each layer in the learned mix of ``tensors``, embeddings first; empty without."""
    mix = tensors.get(LAYER_MIX)
    return [] if mix is None else torch.softmax(mix[0], dim=0).tolist()


def averaged(
    checkpoint: LocalCheckpoint, trained: Mapping[str, torch.Tensor], *, share: float
) -> dict[str, torch.Tensor]:
    """Return weights ``share`` of the way from those of ``checkpoint`` to ``trained`` (WiSE-FT).

    A mix of layers that ``checkpoint`` lacks began with equal shares.
    """
    before = load_checkpoint(checkpoint).state_dict()
    if (learnt := trained.get(LAYER_MIX)) is not None:
        mix = load_layer_mix(checkpoint, n_layers=learnt.shape[1] - 1)
        before[LAYER_MIX] = torch.zeros_like(learnt) if mix is None else mix[None]
    return {
        name: tensor
        if share == 1 or name not in before or not tensor.is_floating_point()
        else torch.lerp(before[name], tensor, share)
        for name, tensor in trained.items()
    }
