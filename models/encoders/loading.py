"""Loads a checkpoint's transformer and tokenizer, complete and of a kind that is supported, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.utils import logging as transformers_logging

from models.checkpoints.checkpoints import CONFIG, WEIGHTS, LocalCheckpoint, read_json
from models.encoders.changes import apply_changes
from models.encoders.wordpieces import WordPieces
from models.errors import WeightsError

# Those whose layers are where pooling and deadlines look for them (``model.encoder.layer``).
ARCHITECTURES = ("bert", "electra", "roberta")


def load_checkpoint(checkpoint: LocalCheckpoint) -> PreTrainedModel:
    """The transformer of a checkpoint with its low-rank changes, if any; raises WeightsError.

    In float32 on the CPU; its weights must have been verified.
    """
    model = load_transformer(checkpoint.folder)
    if checkpoint.changes is not None:
        apply_changes(model, checkpoint.changes)
    return model


def load_transformer(folder: Path) -> PreTrainedModel:
    """The transformer in ``folder``, in float32 on the CPU; its weights must have been verified.

    Raises WeightsError for an architecture that is not supported, a configuration that cannot be right
    and weights that are incomplete.
    """
    stated = read_json(folder / CONFIG).get("model_type", ARCHITECTURES[0])
    if stated not in ARCHITECTURES:
        raise WeightsError(
            f"{folder} holds a model of type {stated!r}; expected one of {', '.join(ARCHITECTURES)}."
        )
    try:
        with _quiet_transformers():
            model, report = _from_pretrained(folder)
    except Exception as error:  # a wrong value in the configuration ends in an error of any class
        reason = f"{type(error).__name__}: {error}"
        raise WeightsError(f"{folder} cannot be loaded as a transformer ({reason}).") from error
    if model.config.num_hidden_layers < 1:
        raise WeightsError(
            f"{folder}/{CONFIG} has num_hidden_layers {model.config.num_hidden_layers}, expected 1 or more."
        )
    # transformers fills what is missing with random numbers; only the pooler, never used here, may be.
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise WeightsError(f"{folder}/{WEIGHTS} lacks {len(missing)} tensors, such as {missing[0]}.")
    return model


def load_wordpieces(folder: Path, model: PreTrainedModel, *, max_tokens: int) -> WordPieces:
    """The tokenizer in ``folder``, which reads as much as it may and ``model`` has positions for.

    Raises WeightsError where the two do not belong together.
    """
    # A folder with few position embeddings reads less of each abstract rather than failing.
    wordpieces = WordPieces(folder, max_tokens=min(max_tokens, model.config.max_position_embeddings - 2))
    if wordpieces.vocabulary_size > model.config.vocab_size:
        raise WeightsError(
            f"The tokenizer in {folder} has {wordpieces.vocabulary_size} tokens, but the model "
            f"{model.config.vocab_size}: they belong to different checkpoints."
        )
    return wordpieces


def _from_pretrained(folder: Path) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The model and what was missing of it."""
    config = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    model, report = AutoModel.from_pretrained(
        str(folder),
        config=config,
        dtype=torch.float32,
        attn_implementation="sdpa",
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    return model, report


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No progress bar and no loading report: what matters of it is checked and raised by the caller."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call] # transformers is half typed
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call] # the same
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call] # the same
