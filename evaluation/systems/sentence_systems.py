"""Systems that give sentences vectors: an encoder's own, its hidden layers, trained function encoders.

ENCODER:context             the encoder's own vectors, each sentence in its abstract
ENCODER:context:layer4      its fourth hidden layer, untrained; 0 is the embeddings
ENCODER:context:NAME        the function encoder with the weights NAME.safetensors
ENCODER:alone...            the same with every sentence encoded by itself
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from evaluation.systems.vectors import VectorSource, encode_alone
from models.encoder import Encoder, LayeredEncoder
from models.errors import EncoderError, InputError
from models.functions import FunctionEncoder, TrainedFunctionEncoder, load_function_encoder, read_metadata
from models.types import EncodedPaper, EncoderSpec, Paper, Unit

SentenceVectors = Float32[np.ndarray, "n_sentence dim"]


def sentence_vectors(
    papers: Sequence[Paper], source: VectorSource, *, functions: Sequence[Path] = ()
) -> Mapping[str, list[SentenceVectors]]:
    """Return each paper's sentence vectors, in order, for every system of one encoder; it encodes twice.

    ``functions`` are weights of function encoders; only those that fit this encoder are used, and without
    any, the shipped one. Raises WeightsError for a file without such weights, InputError for two systems with
    the same name.
    """
    spec = source.encoder.spec
    layers = hidden_layers(source.encoder)
    trained = function_encoders(spec, functions)
    names = [head.spec.name for head in trained] + [f"layer{layer}" for layer in layers]
    if len(set(names)) < len(names):
        raise InputError(f"Two systems would share a name ({', '.join(names)}); rename a file of weights.")
    stage = f"{spec.name}, sentences alone"
    views = {"alone": encode_alone(papers, source, stage=stage, layers=layers)}
    if spec.unit is Unit.SENTENCE:
        views["context"] = source.of(papers, stage=spec.name, layers=layers)
    found = {}
    for view, encoded in views.items():
        found[f"{source.name}:{view}"] = [paper.sentences for paper in encoded]
        for layer in layers[:-1]:  # the last, pooled, is the encoder's own vectors
            found[f"{source.name}:{view}:layer{layer}"] = [_of(paper, (layer,))[0] for paper in encoded]
        for head in trained:
            vectors = [head.vectors(_of(paper, head.spec.layers)) for paper in encoded]
            found[f"{source.name}:{view}:{head.spec.name}"] = vectors
    return found


def hidden_layers(encoder: Encoder) -> tuple[int, ...]:
    """Return the numbers of the hidden layers that ``encoder`` has for sentences; empty if it has none."""
    return tuple(range(1 + encoder.n_layers)) if isinstance(encoder, LayeredEncoder) else ()


def function_encoders(encoder: EncoderSpec, paths: Sequence[Path]) -> list[FunctionEncoder]:
    """Load the ``paths`` that fit ``encoder``; the shipped function encoder, if any, without paths."""
    if not paths:
        shipped = load_function_encoder(encoder)
        return [] if shipped is None else [shipped]
    fitting = [path for path in paths if read_metadata(path)["encoder"] == encoder.fingerprint]
    return [TrainedFunctionEncoder(path, encoder) for path in fitting]


def _of(paper: EncodedPaper, layers: tuple[int, ...]) -> Float32[np.ndarray, "n_layers n_sentence dim"]:
    """Return some of the hidden layers of a paper that was encoded with all of them."""
    if paper.layers is None:
        raise EncoderError("The encoder returned no hidden layers although it has some; this is a bug in it.")
    return paper.layers[list(layers)]
