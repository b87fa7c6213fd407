"""The interface of encoders, from papers to vectors; ``load_encoder`` loads an encoder by name."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float32

from models.checkpoints.checkpoints import locate_checkpoint
from models.errors import EncoderError
from models.registry import resolve
from models.types import EncodedPaper, EncoderSpec, Paper, Precision

# Papers to encode at once: enough to sort by length, few enough for a progress bar that moves.
PAPERS_PER_CALL = 128

# Kinds of encoder. Those with weights are built from a LocalCheckpoint and the keywords of load_encoder.
ENCODERS: Mapping[str, str] = MappingProxyType(
    {
        "contextual": "models.encoders.contextual:ContextualEncoder",
        "document": "models.encoders.document:DocumentEncoder",
        "hashing": "models.encoders.hashing:HashingEncoder",
    }
)
# Kinds without weights, which are loaded by their name.
WEIGHTLESS = frozenset({"hashing"})


@runtime_checkable
class Encoder(Protocol):
    """A map of papers to sentence and document vectors; safe to call from several threads."""

    @property
    def spec(self) -> EncoderSpec:
        """The properties of this encoder that a snapshot stores, to refuse any other encoder."""
        ...

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode papers, in order, from only their titles and the texts of their sentences.

        The vectors of a paper do not depend on the others in the call (within 1e-5 in float32). ``layers``
        requests the sentences of these hidden layers too, from the same pass: 0 is the embeddings, the
        highest number the last layer. Raises EncoderError for layers this encoder does not have.
        """
        ...


@runtime_checkable
class LayeredEncoder(Encoder, Protocol):
    """An encoder that also returns hidden layers for sentences, from 0 (the embeddings) to ``n_layers``."""

    @property
    def n_layers(self) -> int:
        """The number of the last layer."""
        ...


def refuse_layers(spec: EncoderSpec, layers: Sequence[int]) -> None:
    """Raise EncoderError if ``layers`` are requested of an encoder without hidden layers for sentences."""
    if layers:
        raise EncoderError(
            f"Hidden layers {list(layers)} were requested, but {spec.name!r} has none for its sentences; "
            "use a contextual encoder, such as minilm."
        )


def layer_states(
    paper: EncodedPaper, places: Sequence[int]
) -> Float32[np.ndarray, "n_states n_sentence dim"]:
    """Return the input of small models: a paper's sentences in the layers at ``places``, then their openings.

    ``places`` are positions in ``paper.layers``. Raises EncoderError if the encoder returned no layers.
    """
    if paper.layers is None or paper.openings is None:
        raise EncoderError(
            "The encoder returned no hidden layers although they were requested; this is a bug in it."
        )
    chosen = list(places)
    return np.concatenate([paper.layers[chosen], paper.openings[chosen]])


def load_encoder(
    name: str = "minilm",
    *,
    device: str = "auto",
    precision: Precision = Precision.FLOAT32,
    batch_tokens: int | None = None,
) -> Encoder:
    """Load an encoder by checkpoint name, by the path of a checkpoint folder, or ``hashing``.

    ``device`` is ``auto`` (CUDA, else CPU), ``cpu``, ``cuda`` or ``cuda:N``; ``batch_tokens`` bounds the
    tokens of one batch, padding included (None: a default for the device). ``hashing`` ignores ``device``,
    ``precision`` and ``batch_tokens``. Raises UnknownNameError, WeightsError, EncoderError,
    MissingPackageError or DeviceFullError.
    """
    if name in WEIGHTLESS:
        return cast(Encoder, resolve(ENCODERS, name, "encoder")())
    checkpoint = locate_checkpoint(name)
    kind = resolve(ENCODERS, checkpoint.pooling.kind, "kind of encoder")
    return cast(Encoder, kind(checkpoint, device=device, precision=precision, batch_tokens=batch_tokens))
