"""The configuration of a run, a TOML file; docs/how-to/training.md lists every key.

encoder = "minilm"

[low_rank]                 # absent: all weights are trained
rank = 16

[[sets]]
path = "data/cocited"
weight = 3
objective = { name = "in-batch", distances = ["ot"] }

[steps]
n_steps = 500
"""

import tomllib
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from indexer.files.durable import storage_errors
from models.checkpoints.checkpoints import CHECKPOINTS, LocalCheckpoint
from models.errors import InputError
from models.training.batches import Mixing
from models.training.objectives.batch import RetrievalObjective
from models.training.objectives.distances import DOCUMENT
from models.training.rhetoric.phrases import MAX_WORDS, MIN_WORDS, PHRASES
from models.types import Precision
from service.validation import faults_of, sentence

LARGEST_SEED = 10**16  # of which a tagger makes several seeds below 2^64, the most that torch takes


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SetConfig(_Strict):
    """One training set, its share of the mixture and its objective (a name and its settings)."""

    path: Path
    weight: float = Field(default=1.0, gt=0)
    objective: dict[str, Any] = {"name": "in-batch"}
    licence: str = "not stated"


class LowRankConfig(_Strict):
    """Low-rank changes instead of all weights; see ``models.training.trainable.LowRank``."""

    rank: int = Field(default=16, ge=1, le=512)
    alpha: float = Field(default=32.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] = ()


class HeldOutConfig(_Strict):
    """A set to measure weights on, and distances; the first one chooses the best checkpoint."""

    path: Path
    distances: tuple[str, ...] = Field(default=("ot", "single", "document"), min_length=1)


class StepsConfig(_Strict):
    """The settings of training steps; see ``models.training.loop.LoopSettings``."""

    n_steps: int = Field(default=500, ge=1)
    batch: int = Field(default=12, ge=1)
    accumulate: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=3e-5, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    warm_up: int = Field(default=20, ge=0)
    last_rate: float = Field(default=0.02, ge=0, le=1)
    largest_gradient: float = Field(default=1.0, gt=0)
    cache_gradients: bool = False
    checkpoint_every: int = Field(default=50, ge=1)
    measure_every: int = Field(default=100, ge=1)
    patience: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)


class FacetsConfig(_Strict):
    """A facet tagger for the trained encoder, as ``akin train facets`` makes it."""

    labelled: tuple[Path, ...] = Field(min_length=1)
    held_out: float = Field(default=0.0, ge=0, le=0.9)
    layers: tuple[int, ...] = (2, 3, 4)
    n_epochs: int = Field(default=8, ge=1)


class FunctionsConfig(_Strict):
    """A function encoder on the trained encoder, as ``akin train functions`` makes it."""

    corpora: tuple[Path, ...] = Field(min_length=1)
    phrases: Path = PHRASES
    exclude: Path | None = None
    objective: str = "softmax"
    per_function: int = Field(default=300, ge=2)
    ngram_words: int = Field(default=MIN_WORDS, ge=MIN_WORDS, le=MAX_WORDS)
    layers: tuple[int, ...] = (1, 2, 3, 4)
    dim: int = Field(default=128, ge=2)
    n_epochs: int = Field(default=5, ge=1)
    seeds: int = Field(default=1, ge=1)


class RunConfig(_Strict):
    """A whole run; ``share`` of the change is kept at the end: 0.5 averages with the original encoder.

    ``tau`` is the temperature that held-out pairs are measured at; None: that of the objectives, or 0.5.
    ``layer_mix`` begins a learned mix of all layers, of documents; one that the encoder has learns without.
    """

    encoder: str = "minilm"
    name: str = "trained"
    max_tokens: int = Field(default=224, ge=16, le=500)
    batch_tokens: int = Field(default=4_096, ge=16)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    precision: Precision = Precision.FLOAT32
    tau: float | None = Field(default=None, gt=0)
    share: float = Field(default=1.0, gt=0, le=1)
    mixing: Mixing = Mixing.ALTERNATING
    layer_mix: bool = False
    sets: tuple[SetConfig, ...] = Field(min_length=1)
    low_rank: LowRankConfig | None = None
    held_out: HeldOutConfig | None = None
    steps: StepsConfig = StepsConfig()
    facets: FacetsConfig | None = None
    functions: FunctionsConfig | None = None


def read_config(path: Path) -> RunConfig:
    """Read the file ``path``; paths in it are relative to its folder. Raises InputError or StorageError.

    ``encoder`` is a path if it is no checkpoint's name and its folder is there.
    """
    with storage_errors(path):
        content = path.read_bytes()
    try:
        config = RunConfig.model_validate(tomllib.loads(content.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from error
    except ValidationError as error:
        faults = [sentence(".".join(map(str, one.loc)), one.said) for one in faults_of(error.errors())]
        raise InputError(
            f"{path} cannot be used: {'; '.join(faults)}. docs/how-to/training.md lists every key."
        ) from error
    read: RunConfig = _from_folder(config, path.parent)
    folder = path.parent / read.encoder
    named = read.encoder in CHECKPOINTS or not folder.is_dir()
    return read if named else read.model_copy(update={"encoder": str(folder)})


def settings_of(config: BaseModel, kind: type) -> Any:
    """Return the dataclass ``kind`` with the values of the fields of ``config`` with the same names."""
    return kind(**{own.name: getattr(config, own.name) for own in fields(kind)})


def require_possible(config: RunConfig) -> None:
    """Raise InputError for settings that do not fit together."""
    if config.mixing is Mixing.IN_BATCH and any(
        own.objective != config.sets[0].objective for own in config.sets
    ):
        raise InputError(
            "mixing = in-batch takes one objective for all sets; give each set the same, or alternate."
        )
    if config.steps.patience is not None and config.held_out is None:
        raise InputError("patience needs a figure to watch; add a [held_out] table, or leave patience out.")


def pooled_for(
    checkpoint: LocalCheckpoint, config: RunConfig, objectives: Sequence[RetrievalObjective]
) -> LocalCheckpoint:
    """Return a checkpoint of documents as one of sentences, if an objective trains sentence vectors.

    So ASPIRE's models begin with SPECTER (semantics 3.10). One whose layers are to be mixed becomes one of
    documents instead (3.12). Raises InputError if sentences are trained then, or if an encoder of documents
    is to be measured by its sentences, or to have a tagger or function encoder.
    """
    pooling = checkpoint.pooling
    if pooling.kind != "document" and not config.layer_mix:
        return checkpoint
    if any(own.reads_sentences for own in objectives):
        if config.layer_mix:
            raise InputError(
                "layer_mix gives vectors of documents alone, but an objective trains sentences; leave it "
                "out, or give each set an objective of documents, such as specter."
            )
        return replace(checkpoint, pooling=replace(pooling, kind="contextual"))
    if config.facets is not None or config.functions is not None:
        raise InputError(
            f"{config.encoder!r} is trained as an encoder of documents: no objective trains sentences, which "
            "[facets] and [functions] read; leave these tables out."
        )
    if config.held_out is not None and set(config.held_out.distances) != {DOCUMENT}:
        raise InputError(
            f"{config.encoder!r} is trained as an encoder of documents: no objective trains sentences; add "
            'distances = ["document"] to [held_out].'
        )
    return replace(checkpoint, pooling=replace(pooling, kind="document"))


def _from_folder(value: Any, folder: Path) -> Any:
    """Return ``value`` with every relative path in it, at any depth, joined to ``folder``."""
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, tuple):
        return tuple(_from_folder(each, folder) for each in value)
    if isinstance(value, BaseModel):
        return value.model_copy(update={key: _from_folder(own, folder) for key, own in value})
    return value
