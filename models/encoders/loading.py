"""Loads a checkpoint's transformer and tokenizer, and refuses incomplete or unsupported ones."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float32
from safetensors import safe_open
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    BertConfig,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

from models.checkpoints.checkpoints import CONFIG, LAYER_MIX, WEIGHTS, LocalCheckpoint, read_json
from models.counts import counted
from models.encoders.changes import apply_changes
from models.encoders.pooling import pad_batch
from models.encoders.wordpieces import WordPieces
from models.errors import WeightsError

# The ends of the names of buffers that older releases of transformers saved within layers.
_BUFFERS = ("position_ids", "inv_freq")
# The probe of a model: its number of tokens, and how far its states may differ, relative to the largest.
_N_PROBED = 5
_MAX_DIFFERENCE = 1e-3
# The types of weights, in the words of safetensors.
_TYPES = ("F64", "F32", "F16", "BF16")
_LOADING = threading.Lock()


def load_checkpoint(checkpoint: LocalCheckpoint) -> PreTrainedModel:
    """Load the transformer of a checkpoint, with its low-rank changes, if any; raises WeightsError.

    It is in float32 on the CPU; its weights must have been verified before. Unless they have a pinned digest,
    the model is probed: it is refused if it gives a text other vectors in a batch, or has weights that are
    integers, in 8 bits or not finite.
    """
    model = load_transformer(checkpoint.folder)
    if checkpoint.sha256 is None:
        _expect_numbers(checkpoint.folder, model)
        _probe(model, checkpoint.folder)
    if checkpoint.changes is not None:
        apply_changes(model, checkpoint.changes)
    return model


def load_transformer(folder: Path) -> PreTrainedModel:
    """Load the transformer in ``folder``, in float32 on the CPU; its weights must have been verified before.

    It must be bidirectional, which transformers calls a masked language model: BERT, RoBERTa, MPNet,
    DistilBERT, ModernBERT and similar. Raises WeightsError for another model, for a configuration that cannot
    be right, for incomplete weights and for weights that its layers do not read.
    """
    settings = read_json(folder / CONFIG)
    stated = settings.get("model_type", BertConfig.model_type)
    try:
        with quiet_transformers():
            # Without a type, AutoConfig guesses by the name of the folder.
            kind = AutoConfig if "model_type" in settings else BertConfig
            config = kind.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
            model, report = _from_pretrained(folder, config) if _is_bidirectional(config) else (None, {})
    except Exception as error:  # a wrong value in the configuration can raise an error of any class
        reason = f"{type(error).__name__}: {error}"
        raise WeightsError(
            f"{folder} cannot be loaded as a transformer of type {stated!r} ({reason})."
        ) from error
    if model is None:
        raise WeightsError(
            f"{folder} holds a model of type {stated!r}; expected a bidirectional encoder, such as bert, "
            "roberta, mpnet, distilbert or modernbert."
        )
    layers = layers_of(model)
    # transformers fills missing weights with random numbers; only the pooler, unused here, may be missing.
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise WeightsError(f"{folder}/{WEIGHTS} lacks {len(missing)} tensors, such as {missing[0]}.")
    for key in report["missing_keys"]:  # exported with the others, whose digest would differ each time
        torch.nn.init.zeros_(model.get_parameter(key))
    if wrong := sorted(name for name, *_ in report["mismatched_keys"]):
        raise WeightsError(
            f"{folder}/{WEIGHTS} and {CONFIG} disagree on the shapes of {counted(len(wrong), 'tensor')}, "
            f"such as {wrong[0]}: they belong to different checkpoints."
        )
    _expect_all_read(folder, model, layers, report["unexpected_keys"])
    return model


def _expect_numbers(folder: Path, model: PreTrainedModel) -> None:
    """Raise WeightsError if weights are stored as integers or in 8 bits, or are not finite."""
    weights = dict(model.named_parameters())
    prefix = f"{model.base_model_prefix}."
    with safe_open(folder / WEIGHTS, framework="pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118 - not a mapping
            stored = tensors.get_slice(name).get_dtype()
            if name.removeprefix(prefix) in weights and stored not in _TYPES:
                raise WeightsError(
                    f"{folder}/{WEIGHTS} holds {name} as {stored}; expected one of {', '.join(_TYPES)}. "
                    "Quantised weights mean nothing without their scales: give those that were quantised."
                )
    for name, weight in weights.items():
        if not torch.isfinite(weight.sum()):  # takes half the time of asking each number
            raise WeightsError(
                f"{folder}/{WEIGHTS} holds numbers in {name} that are not finite; download it again, or "
                "train it again."
            )


def _expect_all_read(
    folder: Path, model: PreTrainedModel, layers: torch.nn.ModuleList, unexpected: Iterable[str]
) -> None:
    """Raise WeightsError if weights of layers are ``unexpected``; other ones may be of a head."""
    within = next(name for name, module in model.named_modules() if module is layers) + "."
    prefix = f"{model.base_model_prefix}."
    unread = sorted(
        key
        for key in unexpected
        if key.removeprefix(prefix).startswith(within) and not key.endswith(_BUFFERS)
    )
    if unread:
        raise WeightsError(
            f"{folder}/{WEIGHTS} has {len(unread)} tensors that a model of type {model.config.model_type!r} "
            f"with its {CONFIG} does not read, such as {unread[0]}: check num_hidden_layers, and settings "
            "that transformers no longer supports, such as position_embedding_type."
        )


@torch.inference_mode()
def _probe(model: PreTrainedModel, folder: Path) -> None:
    """Encode a few tokens alone and padded; raise WeightsError if the states differ or are of another width.

    ``model`` is in float32. Some architectures that transformers supports, such as FNet, read the padding.
    """
    kind = model.config.model_type
    # The last tokens of a vocabulary are words; the first may be special.
    tokens = [max(0, int(model.config.vocab_size) - number) for number in range(1, _N_PROBED + 1)]
    batch = pad_batch([tokens, tokens * 2], [[], []])
    try:
        alone, padded = (
            model(input_ids=ids, attention_mask=mask, return_dict=True).last_hidden_state[0, :_N_PROBED]
            for ids, mask in (
                (batch.ids[:1, :_N_PROBED], batch.mask[:1, :_N_PROBED]),
                (batch.ids, batch.mask),
            )
        )
    except Exception as error:  # a model that needs other inputs can raise an error of any class
        raise WeightsError(
            f"{folder} holds a model of type {kind!r}, which cannot encode {_N_PROBED} tokens ({error})."
        ) from error
    width, stated = alone.shape[-1], int(model.config.hidden_size)
    if width != stated:
        raise WeightsError(
            f"{folder} holds a model of type {kind!r} whose states have {width} numbers, but its "
            f"configuration says {stated}; expected the same width."
        )
    scale = max(1.0, float(alone.abs().max()))
    # Not "above": NaN is refused too.
    if not float((alone - padded).abs().max()) <= _MAX_DIFFERENCE * scale:
        raise WeightsError(
            f"{folder} holds a model of type {kind!r}; {kind!r} gives a text other vectors if a longer text "
            "pads it. Choose an encoder whose attention leaves out the padding, such as bert or roberta."
        )


def load_layer_mix(
    checkpoint: LocalCheckpoint, *, n_layers: int
) -> Float32[torch.Tensor, " n_states"] | None:
    """Return the logits of a document checkpoint's learned mix of hidden states, embeddings first.

    Return ``None`` if only the last layer is read. Raises WeightsError for logits that do not fit
    ``n_layers``.
    """
    path = checkpoint.folder / WEIGHTS
    if checkpoint.pooling.kind != "document":
        return None
    with safe_open(path, framework="pt") as tensors:
        if LAYER_MIX not in tensors.keys():  # noqa: SIM118 - not a mapping
            return None
        logits: torch.Tensor = tensors.get_tensor(LAYER_MIX).float()
    if logits.shape != (1, n_layers + 1):
        raise WeightsError(
            f"{path}: {LAYER_MIX} has shape {tuple(logits.shape)}, expected (1, {n_layers + 1})."
        )
    return logits[0]


def layers_of(model: PreTrainedModel) -> torch.nn.ModuleList:
    """Return the transformer's layers, wherever its architecture has them; raises WeightsError if none.

    Architectures that keep the parts of a layer in several lists, such as FlauBERT, are refused.
    """
    n_layers = getattr(model.config, "num_hidden_layers", 0)
    for module in model.modules():
        lists = [own for own in module.children() if isinstance(own, torch.nn.ModuleList)]
        if len(found := [own for own in lists if len(own) == n_layers > 0]) == 1:
            return found[0]
        if found:
            break
    raise WeightsError(
        f"A model of type {model.config.model_type!r} with num_hidden_layers {n_layers} does not have that "
        "many layers in one list; expected 1 or more, each with its own weights."
    )


def load_wordpieces(folder: Path, model: PreTrainedModel, *, max_tokens: int) -> WordPieces:
    """Load the tokenizer in ``folder``, which reads up to ``max_tokens`` or the positions of ``model``.

    Raises WeightsError if the two do not belong together.
    """
    # A folder with few position embeddings reads less of each abstract rather than failing.
    wordpieces = WordPieces(folder, max_tokens=min(max_tokens, _n_positions(model) - 2))
    if wordpieces.vocabulary_size > model.config.vocab_size:
        raise WeightsError(
            f"The tokenizer in {folder} has {wordpieces.vocabulary_size} tokens, but the model "
            f"{model.config.vocab_size}: they belong to different checkpoints."
        )
    return wordpieces


def _n_positions(model: PreTrainedModel) -> int:
    """Return how many tokens the model has positions for; RoBERTa and MPNet use the first for padding."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            unused = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - unused
    return int(model.config.max_position_embeddings)


def _is_bidirectional(config: Any) -> bool:
    one_way = getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False)
    return type(config) in MODEL_FOR_MASKED_LM_MAPPING and type(config) in MODEL_MAPPING and not one_way


def _from_pretrained(folder: Path, config: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Return the model and the loading report, which lists weights that are missing or of other shapes."""
    model, report = AutoModel.from_pretrained(
        str(folder),
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # the caller refuses them; transformers would point to its own report
        output_loading_info=True,
    )
    return model, report


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Disable progress bars and loading reports; the caller checks the report and raises its errors.

    One thread at a time, because these settings are those of the process.
    """
    with _LOADING:
        verbosity = transformers_logging.get_verbosity()
        bars = transformers_logging.is_progress_bar_enabled()
        # transformers is half typed.
        transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            transformers_logging.set_verbosity(verbosity)
            if bars:
                transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
