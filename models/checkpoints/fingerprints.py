"""Fingerprints of checkpoints: a digest of everything that decides their vectors."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from models.checkpoints.checkpoints import (
    CONFIG,
    VOCABULARY,
    LocalCheckpoint,
    file_sha256,
    read_json,
    tokenizer_file,
)
from models.checkpoints.vocabulary import VocabularySettings, vocabulary_settings
from models.taggers.files import content_of

# The keys of config.json that decide the vectors; others (paths, versions) differ between equal copies.
DECISIVE_CONFIG = ("model_type", "hidden_act", "num_attention_heads", "num_hidden_layers", "layer_norm_eps")
# The models that these keys describe fully. For others, all keys count except those no forward pass reads.
_PLAIN_MODELS = ("bert", "electra", "roberta")
_IDLE_CONFIG = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache")
# RoBERTa's positions start after its padding token.
_ROBERTA_PADDING = 1


def fingerprint(checkpoint: LocalCheckpoint, weights_sha256: str, *, max_tokens: int) -> str:
    """Return the SHA-256 (hex) of everything that decides a checkpoint's vectors.

    A learned layer mix is in the weights file and covered by its digest. Device and precision are left out on
    purpose: they change vectors only by rounding, and a snapshot built in bfloat16 on a GPU can be searched
    with float32 queries on a CPU.
    """
    folder, pooling = checkpoint.folder, checkpoint.pooling
    config, tokenizer = read_json(folder / CONFIG), tokenizer_file(folder)
    decisive = {
        "weights": weights_sha256,
        "tokenizer": file_sha256(tokenizer),
        "config": _decisive(config),
        "kind": pooling.kind,
        "normalise": pooling.normalise,
        "document": pooling.document,
        "max_tokens": max_tokens,
    }
    if checkpoint.changes is not None:
        decisive["changes"] = hashlib.sha256(content_of(checkpoint.changes)).hexdigest()
    if tokenizer.name == VOCABULARY:
        # tokenizer.json itself has these settings, and its digest covers them.
        decisive |= _decisive_settings(vocabulary_settings(folder))
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def _decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    kind = config.get("model_type", _PLAIN_MODELS[0])
    if kind not in _PLAIN_MODELS:
        return {key: value for key, value in config.items() if key not in _IDLE_CONFIG}
    decisive = {key: config.get(key) for key in DECISIVE_CONFIG}
    padding = config.get("pad_token_id", _ROBERTA_PADDING)
    if kind == "roberta" and padding != _ROBERTA_PADDING:
        # Only another one than usual, so that the fingerprints of earlier versions stay.
        decisive["pad_token_id"] = padding
    return decisive


def _decisive_settings(settings: VocabularySettings) -> dict[str, Any]:
    """Return what a fingerprint states of ``settings``: an unusual setting only, as in earlier versions."""
    decisive: dict[str, Any] = {"lowercase": settings.lowercase}
    if settings.strip_accents is not None:
        decisive["strip_accents"] = settings.strip_accents
    if not settings.split_chinese:
        decisive["split_chinese"] = False
    if settings.ends is not None:
        decisive["ends"] = settings.ends
    return decisive
