"""The function encoder: vectors of the rhetorical functions of sentences, independent of their topics.

It follows Sugimoto and Aizawa (SDP 2022; semantics 4.4), but is a linear map of hidden layers of the sentence
encoder, so it needs no extra forward pass; ``models.training.rhetoric.functions`` trains it.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32
from safetensors import SafetensorError
from safetensors.numpy import load, save

from models.checkpoints.checkpoints import SHIPPED_WEIGHTS
from models.errors import EncoderError, WeightsError
from models.taggers.files import content_of, metadata_of, name_of, weights_files
from models.types import EncoderSpec

KIND = "functions"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """The properties of a function encoder that a snapshot stores.

    Fields are as in ``models.facets.TaggerSpec``; ``dim`` is the dimension of its vectors, which have unit
    norm.
    """

    name: str
    fingerprint: str
    encoder: str
    layers: tuple[int, ...]
    dim: int


@runtime_checkable
class FunctionEncoder(Protocol):
    """A map of hidden layers of sentences to function vectors; safe to call from several threads."""

    @property
    def spec(self) -> FunctionSpec:
        """The properties that a snapshot stores; its ``layers`` are those that ``vectors`` requires."""
        ...

    def vectors(
        self, layers: Float32[np.ndarray, "n_layers n_kept dim"]
    ) -> Float32[np.ndarray, "n_kept dim_functions"]:
        """Return one vector of unit norm for each sentence of ``EncodedPaper.layers``, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """A linear map of the concatenated layers of a sentence."""

    weight: Float32[np.ndarray, "dim_functions n_inputs"]
    bias: Float32[np.ndarray, " dim_functions"]

    def vectors(
        self, layers: Float32[np.ndarray, "n_layers n_kept dim"]
    ) -> Float32[np.ndarray, "n_kept dim_functions"]:
        """Return vectors of unit norm, one row for each sentence."""
        inputs = layers.swapaxes(0, 1).reshape(layers.shape[1], self.weight.shape[1])
        rows = inputs @ self.weight.T + self.bias
        unit: Float32[np.ndarray, "n_kept dim_functions"] = rows / np.maximum(
            np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny
        )
        return unit


class TrainedFunctionEncoder:
    """The function encoder of a weights file, which must have been trained on ``encoder``.

    Raises WeightsError for a file without the weights of a function encoder, EncoderError if it was trained
    on layers of another encoder.
    """

    def __init__(self, path: Path, encoder: EncoderSpec) -> None:
        metadata = read_metadata(path)
        if metadata["encoder"] != encoder.fingerprint:
            raise EncoderError(
                f"{path} reads hidden layers of the encoder {metadata['encoder_name']!r} "
                f"({metadata['encoder'][:12]}), not of {encoder.name!r} ({encoder.fingerprint[:12]}); name "
                "the encoder it was trained on, or train again: akin train functions."
            )
        self._head = _read_head(path)
        self.spec = FunctionSpec(
            name=name_of(path),
            fingerprint=hashlib.sha256(content_of(path)).hexdigest(),
            encoder=encoder.fingerprint,
            layers=tuple(metadata["layers"]),
            dim=len(self._head.bias),
        )
        if not (np.isfinite(self._head.weight).all() and np.isfinite(self._head.bias).all()):
            raise _unusable(path, "some of its numbers are not finite")
        n_inputs = len(self.spec.layers) * encoder.dim
        if self._head.weight.shape[1] != n_inputs:
            raise WeightsError(
                f"{path} reads {self._head.weight.shape[1]} numbers per sentence, but its layers have "
                f"{n_inputs}; train again: akin train functions."
            )

    def vectors(
        self, layers: Float32[np.ndarray, "n_layers n_kept dim"]
    ) -> Float32[np.ndarray, "n_kept dim_functions"]:
        """Return one vector of unit norm for each sentence of ``layers`` (those in ``spec``), in order."""
        return self._head.vectors(layers)


def load_function_encoder(encoder: EncoderSpec, *, weights: Path = SHIPPED_WEIGHTS) -> FunctionEncoder | None:
    """Return the function encoder trained on layers of ``encoder``, or ``None`` if there is none.

    It is searched in the encoder's own folder, then in ``weights``. Raises WeightsError if weights cannot be
    read.
    """
    for path in weights_files(f"{KIND}-*.safetensors*", encoder.name, weights):
        if read_metadata(path)["encoder"] == encoder.fingerprint:
            return TrainedFunctionEncoder(path, encoder)
    return None


def weights_content(head: Head, metadata: dict[str, Any]) -> bytes:
    """Return the content of a weights file: ``head`` in float16, and ``metadata`` of its training.

    ``metadata`` has at least ``encoder`` (fingerprint), ``encoder_name`` and ``layers``. Equal arguments
    give equal bytes.
    """
    tensors = {"weight": head.weight.astype(np.float16), "bias": head.bias.astype(np.float16)}
    # One entry: safetensors writes several entries in an order that changes from run to run.
    return save(tensors, metadata={KIND: json.dumps(metadata, sort_keys=True)})


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a weights file; raises WeightsError if it is not that of a function encoder."""
    try:
        metadata = json.loads(metadata_of(path)[KIND])
    except (OSError, EOFError, AttributeError, KeyError, ValueError) as error:
        raise _unusable(path, error) from error
    if not isinstance(metadata, dict) or not {"encoder", "encoder_name", "layers"} <= metadata.keys():
        raise _unusable(path, "it does not name the encoder whose layers it reads")
    return metadata


def _read_head(path: Path) -> Head:
    try:
        tensors = load(content_of(path))
        weight, bias = (tensors[name].astype(np.float32) for name in ("weight", "bias"))
    except (OSError, EOFError, KeyError, SafetensorError) as error:
        raise _unusable(path, error) from error
    if (weight.ndim, bias.ndim) != (2, 1):
        raise _unusable(path, "its tensors are not a matrix and a vector")
    return Head(weight, bias)


def _unusable(path: Path, reason: object) -> WeightsError:
    return WeightsError(
        f"{path} does not hold the weights of a function encoder ({reason}); train them with: akin train "
        "functions."
    )
