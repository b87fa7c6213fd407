"""Low-rank changes of a checkpoint's weights: W + up @ down, added when the checkpoint is loaded.

A file of changes has a few megabytes instead of a hundred for the changed weights: safetensors with
``NAME:up`` (n_out, rank) and ``NAME:down`` (rank, n_in) for each changed weight, in float16.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from transformers import PreTrainedModel

from models.errors import WeightsError
from models.taggers.files import content_of

Changes = Mapping[str, tuple[torch.Tensor, torch.Tensor]]
_UP, _DOWN = ":up", ":down"


def changes_content(changes: Changes, *, share: float, metadata: Mapping[str, str]) -> bytes:
    """Return the content of a file of ``changes`` scaled by ``share``, which holds ``metadata``."""
    tensors = {}
    for name, (up, down) in changes.items():
        tensors[name + _UP] = (share * up).to(torch.float16)
        tensors[name + _DOWN] = down.to(torch.float16)
    content: bytes = save(tensors, metadata=dict(metadata))
    return content


@torch.no_grad()
def apply_changes(model: PreTrainedModel, path: Path) -> None:
    """Add the changes in ``path``, which may be gzipped, to the weights of ``model``, in float32.

    Raises WeightsError if the file cannot be read, or if a change does not fit a weight of ``model``.
    """
    try:
        tensors = load(content_of(path))
    except (OSError, EOFError, SafetensorError) as error:
        raise WeightsError(f"{path} cannot be read as low-rank changes: {error}.") from error
    weights = dict(model.named_parameters())
    names = {name.rpartition(":")[0] for name in tensors}
    for name in sorted(names):
        up, down = tensors.get(name + _UP), tensors.get(name + _DOWN)
        weight = weights.get(name)
        if up is None or down is None or weight is None:
            raise WeightsError(f"{path} has a change of {name!r} that no weight of this model can take.")
        fits = up.ndim == 2 and down.ndim == 2 and up.shape[1] == down.shape[0]
        if not fits or (up.shape[0], down.shape[1]) != tuple(weight.shape):
            raise WeightsError(
                f"{path}: the change of {name!r} is {tuple(up.shape)} by {tuple(down.shape)}, which does not "
                f"fit a weight of shape {tuple(weight.shape)}."
            )
        weight.add_(up.float() @ down.float())
