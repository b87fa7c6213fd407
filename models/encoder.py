"""The encoder seam: papers in, vectors out; ``load_encoder`` gives one by name."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float32

from models.checkpoints.checkpoints import locate_checkpoint
from models.errors import EncoderError
from models.registry import resolve
from models.types import EncodedPaper, EncoderSpec, Paper, Precision

# Papers to encode at once: enough to be sorted by length, few enough for a lively progress bar.
PAPERS_PER_CALL = 128

# Kinds of encoder. One with weights is built from a LocalCheckpoint and the keywords of load_encoder.
ENCODERS: Mapping[str, str] = MappingProxyType(
    {
        "contextual": "models.encoders.contextual:ContextualEncoder",
        "document": "models.encoders.document:DocumentEncoder",
        "hashing": "models.encoders.hashing:HashingEncoder",
    }
)
# Kinds that need no weights: their name alone loads them.
WEIGHTLESS = frozenset({"hashing"})


@runtime_checkable
class Encoder(Protocol):
    """Turns papers into sentence and document vectors; safe to call from several threads."""

    @property
    def spec(self) -> EncoderSpec:
        """What a snapshot must remember to refuse another encoder."""
        ...

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode papers, in the order given, from their titles and their sentences' texts alone.

        A paper's vectors do not depend on the others in the call (within 1e-5 in float32). ``layers`` asks
        for the sentences of these hidden layers too, from the same pass: 0 is the embeddings, the last is the
        transformer's own last. Raises EncoderError for layers this encoder does not have.
        """
        ...


@runtime_checkable
class LayeredEncoder(Encoder, Protocol):
    """An encoder that also returns hidden layers for sentences: 0, the embeddings, to ``n_layers``."""

    @property
    def n_layers(self) -> int:
        """The number of the last layer."""
        ...


def refuse_layers(spec: EncoderSpec, layers: Sequence[int]) -> None:
    """For an encoder whose sentences have no hidden layers: raises EncoderError where some are asked for."""
    if layers:
        raise EncoderError(
            f"Hidden layers {list(layers)} were requested, but {spec.name!r} has none for its sentences; "
            "use a contextual encoder, such as minilm."
        )


def states_of(paper: EncodedPaper, places: Sequence[int]) -> Float32[np.ndarray, "n_states n_sentence dim"]:
    """What small models read of a paper: its sentences in the layers at ``places``, then their openings.

    Raises EncoderError where the encoder gave no layers.
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
    tokens of one batch, padding included (None: what suits the device). ``hashing`` ignores all three.
    Raises UnknownNameError, WeightsError or EncoderError.
    """
    if name in WEIGHTLESS:
        return cast(Encoder, resolve(ENCODERS, name, "encoder")())
    checkpoint = locate_checkpoint(name)
    kind = resolve(ENCODERS, checkpoint.pooling.kind, "kind of encoder")
    return cast(Encoder, kind(checkpoint, device=device, precision=precision, batch_tokens=batch_tokens))
