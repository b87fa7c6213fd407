"""Converts a published pickle checkpoint into a safetensors folder: ``akin convert SOURCE TARGET``.

This is the only place that opens a pickle, on explicit request and with ``weights_only``: only tensors and
plain containers are loaded, and no code runs.
"""

import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import is_zipfile

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
from models.encoder import load_encoder
from models.errors import UnknownNameError, WeightsError
from models.new_folder import expect_new, new_folder

COMPANIONS = (CONFIG, *TOKENIZERS, "tokenizer_config.json", SETTINGS)
# The first bytes of the files that torch writes: archives, and pickles before 2020.
_BEGINNINGS = (b"PK\x03\x04", b"\x80")
# The prefix that torch's DataParallel adds, and that of the transformer in ASPIRE's training states;
# transformers requires none (semantics 3.12).
_WRAPPERS = ("module.", "bert_encoder.")


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion: all tensors of the source; ``renamed`` of them lost a prefix."""

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

    The new folder is loaded once. Raises WeightsError if it cannot be, for a source without weights,
    configuration or tokenizer and for a pickle that is damaged or holds more than tensors; UnknownNameError
    for ``like``; StorageError if ``target`` has files or cannot be written: nothing is left behind then.
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
    tensors = {_unwrapped(name): tensor.contiguous().clone() for name, tensor in state.items()}
    if len(tensors) < len(state):
        raise WeightsError(
            f"{found[0]} holds tensors with and without a prefix of {', '.join(_WRAPPERS)}; remove one kind."
        )
    with new_folder(target) as prepared:
        write_weights(prepared, tensors)
        for name in copied:
            shutil.copyfile(source / name, prepared / name)
        if like is not None:
            write_pooling(prepared, CHECKPOINTS[like].pooling)
        elif LAYER_MIX in tensors and SETTINGS not in copied:
            write_pooling(prepared, Pooling(kind="document"))
        _expect_encoder(prepared, target)
    renamed = sum(name not in tensors for name in state)
    return Conversion(target, len(tensors), renamed, copied, file_sha256(target / WEIGHTS))


def write_weights(folder: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the weights of a checkpoint; everybody may read the file who may read other new files."""
    path = folder / WEIGHTS
    path.touch()
    usual = stat.S_IMODE(path.stat().st_mode)
    save_file(dict(tensors), path, metadata={"format": "pt"})  # only for the current user
    path.chmod(usual)


def _unwrapped(name: str) -> str:
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def _expect_encoder(prepared: Path, target: Path) -> None:
    """Raise WeightsError if the encoder in ``prepared``, which is to become ``target``, cannot be loaded."""
    try:
        load_encoder(str(prepared), device="cpu")
    except WeightsError as error:
        reason = str(error).replace(str(prepared), str(target))
        raise WeightsError(f"The converted folder cannot be loaded; nothing was written: {reason}") from error


def _read_pickle(path: Path) -> dict[str, torch.Tensor]:
    _expect_whole(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise an error of any class
        raise WeightsError(
            f"{path} contains more than tensors, or is damaged, and is not loaded. Save the weights alone "
            "(torch.save(model.state_dict(), PATH)), or download the file again."
        ) from error
    if not isinstance(state, dict) or not all(_is_plain(*item) for item in state.items()):
        raise WeightsError(
            f"{path} must hold a flat mapping of names to tensors (a state dict), each of them dense, not "
            "quantised and with its numbers."
        )
    return state


def _expect_whole(path: Path) -> None:
    """Raise WeightsError for a file that does not begin, or as an archive does not end, as torch's do."""
    try:
        with path.open("rb") as stream:
            beginning = stream.read(len(_BEGINNINGS[0]))
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error}.") from error
    if not beginning.startswith(_BEGINNINGS) or (beginning == _BEGINNINGS[0] and not is_zipfile(path)):
        raise WeightsError(
            f"{path} is not a whole file of torch: it is damaged, or a pointer of Git LFS. Download it again "
            "(git lfs pull, in a clone)."
        )


def _is_plain(name: object, value: object) -> bool:
    """Return whether safetensors can store ``value`` as the tensor ``name``."""
    return (
        isinstance(name, str)
        and isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not (value.is_quantized or value.is_meta)
    )
