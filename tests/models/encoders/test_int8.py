"""8-bit products: their values, and where they are refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from akin.cli.training.sets import write_set
from models.encoder import load_encoder
from models.encoders import int8
from models.encoders.devices import resolve_precision
from models.errors import EncoderError, InputError
from models.training.examples import Example, TrainingSet
from models.types import Precision
from service.settings import settings_of
from tests.support.commands import run
from tests.support.examples.models.tiny_bert import WORDS, paper, write_tiny_bert

exact_only = pytest.mark.skipif(not int8.is_exact(), reason="this processor's 8-bit products are not exact")


@pytest.fixture
def linear() -> torch.nn.Linear:
    """Return a layer of 48 inputs and 20 outputs, with weights of very different sizes."""
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(48, 20)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(20, 48, generator=generator) * torch.logspace(-3, 1, 20)[:, None])
        layer.bias.copy_(torch.randn(20, generator=generator))
    return layer


def rounded(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the integers nearest to ``rows`` scaled so that each row's largest is 127, and the scales."""
    unit = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    return np.rint(rows / unit).astype(np.int64), unit


@exact_only
@torch.inference_mode()
def test_a_layer_multiplies_rounded_numbers(linear: torch.nn.Linear) -> None:
    """A layer gives integer products, scaled per output and token; a token of zeros gives the bias."""
    inputs = torch.randn(2, 5, 48, generator=torch.Generator().manual_seed(1))
    inputs[1, 4] = 0
    found = int8.Int8Linear(linear)(inputs).numpy()
    assert (2, 5, 20) == found.shape
    np.testing.assert_array_equal(found[1, 4], linear.bias.numpy())
    tokens, token_units = rounded(inputs.reshape(-1, 48).numpy()[:-1])
    weights, weight_units = rounded(linear.weight.numpy())
    products = (tokens @ weights.T) * (token_units * weight_units.T).astype(np.float64)
    np.testing.assert_allclose(
        found.reshape(-1, 20)[:-1], products + linear.bias.numpy(), rtol=1e-5, atol=1e-5
    )
    exactly = linear(inputs).numpy()
    errors = np.abs(found - exactly).max(axis=(0, 1)) / np.abs(exactly - linear.bias.numpy()).max(axis=(0, 1))
    assert errors.max() < 0.03


@exact_only
@torch.inference_mode()
def test_a_token_does_not_depend_on_others(linear: torch.nn.Linear) -> None:
    """A token has the same output, to the bit, in any batch."""
    layer = int8.Int8Linear(linear)
    inputs = torch.randn(7, 48, generator=torch.Generator().manual_seed(1)) * torch.logspace(0, 6, 7)[:, None]
    assert torch.equal(layer(inputs)[:1], layer(inputs[:1]))


def test_where_products_saturate_int8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """int8 is refused on processors that add pairs of products in 16 bits, which would give wrong vectors."""

    def saturating(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        pairs = ((rows[:, :, None].int() + 128) * columns.int()).unflatten(1, (-1, 2)).sum(2)
        return pairs.clamp(-(2**15), 2**15 - 1).sum(1) - 128 * columns.int().sum(0)

    monkeypatch.setattr(int8, "_products", saturating)
    tiny = write_tiny_bert(tmp_path / "tiny")
    with pytest.raises(EncoderError, match="use auto, bfloat16 or float32"):
        load_encoder(str(tiny), device="cpu", precision=Precision.INT8)


def test_gpus_services_and_training_refuse_it(tmp_path: Path) -> None:
    """int8 is refused on GPUs, in the service and in training, and the error names alternatives."""
    with pytest.raises(InputError, match="AKIN_PRECISION must be one of 'float32', 'bfloat16' or 'auto'"):
        settings_of(precision="int8")
    with pytest.raises(EncoderError, match="int8 is for CPUs, but the device is cuda:1"):
        resolve_precision(Precision.INT8, torch.device("cuda:1"))
    texts = {name: paper(name, f"We show {name}.") for name in WORDS[:2]}
    write_set(tmp_path / "set", TrainingSet("set", texts, [Example(*WORDS[:2])]), {})
    config = tmp_path / "run.toml"
    config.write_text(
        f'encoder = "{write_tiny_bert(tmp_path / "tiny")}"\nprecision = "int8"\n[[sets]]\npath = "set"\n'
    )
    assert "int8 has no gradients" in run(
        "train", config, "--out", tmp_path / "out", "--device", "cpu", status=1
    )
