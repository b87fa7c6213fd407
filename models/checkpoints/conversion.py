"""Converts a published pickle checkpoint into a safetensors folder: ``akin convert SOURCE TARGET``.

This is the only place that opens a pickle, on explicit request and with ``weights_only``: only tensors and
plain containers are loaded, and no code runs.
"""

import pickle
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from models.checkpoints.checkpoints import (
    CHECKPOINTS,
    CONFIG,
    LAYER_MIX,
    REFUSED_WEIGHTS,
    SETTINGS,
    TOKENIZERS,
    WEIGHTS,
    Pooling,
    file_sha256,
    write_pooling,
)
from models.errors import UnknownNameError, WeightsError
from models.new_folder import expect_new, new_folder

COMPANIONS = (CONFIG, *TOKENIZERS, "tokenizer_config.json", SETTINGS)
# The errors of torch.load for a pickle with calls in it, or for bytes that are not a pickle.
UNREADABLE = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)
# The prefix of the transformer in ASPIRE's training states; transformers requires none (semantics 3.12).
WRAPPER = "bert_encoder."


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion: all tensors of the source; ``renamed`` of them lost the prefix WRAPPER."""

    target: Path
    n_tensors: int
    renamed: int
    copied: tuple[str, ...]
    sha256: str


def convert_checkpoint(source: Path, target: Path, *, like: str | None = None) -> Conversion:
    """Write the pickled weights of ``source`` as safetensors into ``target``, and copy its configuration.

    Reads ``pytorch_model.bin`` or ASPIRE's ``model_cur_best.pt``; keeps every tensor, including the learned
    layer mix of bi-encoders. ``like`` names a checkpoint in CHECKPOINTS whose pooling is written to
    ``akin.json``. Without it, the ``akin.json`` of ``source`` is kept; if there is none, a checkpoint with a
    layer mix becomes a document encoder, and any other has the default.

    Raises WeightsError for a source without weights, configuration or tokenizer and for a pickle that holds
    more than tensors; UnknownNameError for ``like``; StorageError if ``target`` has files or cannot be
    written: nothing is left behind then.
    """
    if like is not None and like not in CHECKPOINTS:
        raise UnknownNameError(f"Unknown checkpoint {like!r}; known: {', '.join(sorted(CHECKPOINTS))}.")
    found = [source / name for name in REFUSED_WEIGHTS if (source / name).is_file()]
    if not found:
        raise WeightsError(f"{source} holds none of {', '.join(REFUSED_WEIGHTS)}: nothing to convert.")
    copied = tuple(name for name in COMPANIONS if (source / name).is_file())
    if CONFIG not in copied or not set(TOKENIZERS) & set(copied):
        raise WeightsError(
            f"{source} needs {CONFIG} and {' or '.join(TOKENIZERS)} beside {found[0].name}; "
            f"copy them from the checkpoint's repository."
        )
    expect_new(target)
    state = _read_pickle(found[0])
    # Cloned, because safetensors refuses tensors that share memory, as tied embeddings do.
    tensors = {name.removeprefix(WRAPPER): tensor.contiguous().clone() for name, tensor in state.items()}
    if len(tensors) < len(state):
        raise WeightsError(
            f"{found[0]} holds tensors with and without the prefix {WRAPPER!r}; remove one kind."
        )
    with new_folder(target) as prepared:
        write_weights(prepared, tensors)
        for name in copied:
            shutil.copyfile(source / name, prepared / name)
        if like is not None:
            write_pooling(prepared, CHECKPOINTS[like].pooling)
        elif LAYER_MIX in tensors and SETTINGS not in copied:
            write_pooling(prepared, Pooling(kind="document"))
    renamed = sum(name.startswith(WRAPPER) for name in state)
    return Conversion(target, len(tensors), renamed, copied, file_sha256(target / WEIGHTS))


def write_weights(folder: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the weights of a checkpoint; everybody may read the file who may read other new files."""
    path = folder / WEIGHTS
    path.touch()
    usual = stat.S_IMODE(path.stat().st_mode)
    save_file(dict(tensors), path, metadata={"format": "pt"})  # only for the current user
    path.chmod(usual)


def _read_pickle(path: Path) -> dict[str, torch.Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        raise WeightsError(f"{path} contains more than tensors and is not loaded: {error}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsError(f"{path} must hold a flat mapping of names to tensors (a state dict).")
    return state
