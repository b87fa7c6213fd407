"""The function encoder: its vectors, its weights file, and the encoder it belongs to."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from models import functions
from models.encoder import Encoder
from models.errors import EncoderError, WeightsError
from models.functions import (
    FunctionEncoder,
    Head,
    TrainedFunctionEncoder,
    load_function_encoder,
    read_metadata,
    weights_content,
)
from models.types import EncoderSpec, Unit

SPEC = EncoderSpec("tiny", "f" * 64, 4, False, Unit.SENTENCE)
METADATA = {"encoder": SPEC.fingerprint, "encoder_name": "tiny", "layers": [1, 3], "seed": 0}


def head(dim: int = 3, *, n_inputs: int = 8, seed: int = 0) -> Head:
    """Return a random head that reads two layers of four numbers."""
    rng = np.random.default_rng(seed)
    return Head(
        rng.standard_normal((dim, n_inputs), dtype=np.float32), rng.standard_normal(dim, dtype=np.float32)
    )


def layers(n_sentences: int) -> np.ndarray:
    """Return random hidden layers of sentences."""
    return np.random.default_rng(1).standard_normal((2, n_sentences, 4), dtype=np.float32)


def write(path: Path, **changes: object) -> Path:
    """Write a weights file and return its path."""
    path.write_bytes(weights_content(head(), {**METADATA, **changes}))
    return path


def test_a_sentence_becomes_a_linear_map_of_its_layers_at_unit_norm() -> None:
    """The layers of a sentence are concatenated in order, mapped linearly and normalised."""
    given, tried = layers(5), head()
    vectors = tried.vectors(given)
    for number in range(5):
        inputs = np.concatenate([given[0, number], given[1, number]])
        expected = tried.weight @ inputs + tried.bias
        assert expected / np.linalg.norm(expected) == pytest.approx(vectors[number], abs=1e-6)
    assert (0, 3) == tried.vectors(layers(0)).shape


def test_weights_come_back_from_their_file(tmp_path: Path) -> None:
    """Weights are read back to the rounding of float16, with all metadata of the spec."""
    read = TrainedFunctionEncoder(write(tmp_path / "mine.safetensors"), SPEC)
    assert isinstance(read, FunctionEncoder)
    assert head().vectors(layers(9)) == pytest.approx(read.vectors(layers(9)), abs=2e-3)
    spec = read.spec
    packed = tmp_path / "mine.safetensors.gz"
    packed.write_bytes(gzip.compress((tmp_path / "mine.safetensors").read_bytes()))
    assert spec == TrainedFunctionEncoder(packed, SPEC).spec
    assert ("mine", SPEC.fingerprint, (1, 3), 3) == (spec.name, spec.encoder, spec.layers, spec.dim)
    assert 0 == read_metadata(tmp_path / "mine.safetensors")["seed"]


def test_equal_weights_are_equal_files() -> None:
    """Equal weights and metadata give equal bytes, and other weights give others."""
    contents = {weights_content(head(), {**METADATA, "a": 1, "b": 2, "c": 3}) for _ in range(10)}
    assert 1 == len(contents)
    assert weights_content(head(seed=1), METADATA) != weights_content(head(), METADATA)


def test_weights_of_another_encoder_are_refused(tmp_path: Path) -> None:
    """Weights for an encoder with another fingerprint are refused, even if the name is the same."""
    other = replace(SPEC, fingerprint="e" * 64)
    with pytest.raises(EncoderError, match=r"'tiny' \(ffffffffffff\), not of 'tiny' \(eeeeeeeeeeee\)"):
        TrainedFunctionEncoder(write(tmp_path / "x.safetensors"), other)


def test_what_is_no_function_encoder_is_refused(tmp_path: Path) -> None:
    """Text, other weights and a map that does not fit its layers are refused."""
    path = tmp_path / "x.safetensors"
    path.write_text("words")
    with pytest.raises(WeightsError, match="does not hold the weights of a function encoder"):
        read_metadata(path)
    save_file({"weight": np.zeros(3)}, path)
    with pytest.raises(WeightsError, match="does not hold the weights of a function encoder"):
        read_metadata(path)
    save_file({"weight": np.zeros((3, 8))}, path, metadata={"functions": json.dumps(METADATA)})
    with pytest.raises(WeightsError, match="bias"):
        TrainedFunctionEncoder(path, SPEC)
    save_file({}, path, metadata={"functions": json.dumps({"layers": [1]})})
    with pytest.raises(WeightsError, match="the encoder whose layers"):
        TrainedFunctionEncoder(path, SPEC)
    with pytest.raises(WeightsError, match="reads 8 numbers per sentence, but its layers have 12"):
        TrainedFunctionEncoder(write(tmp_path / "y.safetensors", layers=[1, 2, 3]), SPEC)


def test_the_shipped_encoder_is_found_by_the_encoder_it_reads(tmp_path: Path) -> None:
    """The function encoder is found by the encoder's fingerprint, or ``None`` if there is none for it."""
    assert load_function_encoder(SPEC, weights=tmp_path) is None
    write(tmp_path / "functions-other.safetensors", encoder="e" * 64)
    write(tmp_path / "functions-tiny.safetensors")
    found = load_function_encoder(replace(SPEC, name="renamed"), weights=tmp_path)
    assert found is not None
    assert "functions-tiny" == found.spec.name


def test_the_default_encoder_has_one(minilm: Encoder) -> None:
    """The package has small function weights for the pinned default encoder."""
    found = load_function_encoder(minilm.spec)
    assert found is not None
    assert ("functions-minilm", 128) == (found.spec.name, found.spec.dim)
    path = functions.SHIPPED_WEIGHTS / "functions-minilm.safetensors.gz"
    assert path.stat().st_size < 1_500_000
