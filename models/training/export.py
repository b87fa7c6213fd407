"""Trained weights, averaged and written as a checkpoint folder that loads like any other."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch

from models.checkpoints.checkpoints import LocalCheckpoint, Pooling, write_pooling
from models.checkpoints.conversion import COMPANIONS, write_weights
from models.encoders.loading import load_checkpoint


def write_encoder(
    prepared: Path, source: Path, tensors: Mapping[str, torch.Tensor], pooling: Pooling
) -> None:
    """Write ``tensors`` to the folder ``prepared``, with the configuration and tokenizer of ``source``."""
    write_weights(prepared, tensors)
    for companion in COMPANIONS:
        if (source / companion).is_file():
            shutil.copyfile(source / companion, prepared / companion)
    write_pooling(prepared, pooling)


def averaged(
    checkpoint: LocalCheckpoint, trained: Mapping[str, torch.Tensor], *, share: float
) -> dict[str, torch.Tensor]:
    """Return weights ``share`` of the way from those of ``checkpoint`` to ``trained`` (WiSE-FT).

    A learned mix of layers is not part of the transformer; it is not trained and stays unchanged.
    """
    before = load_checkpoint(checkpoint).state_dict()
    return {
        name: tensor
        if share == 1 or name not in before or not tensor.is_floating_point()
        else torch.lerp(before[name], tensor, share)
        for name, tensor in trained.items()
    }
