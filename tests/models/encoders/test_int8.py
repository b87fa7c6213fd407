"""8-bit products: their rounding, their independence of the batch, and where they are refused."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from akin.cli.training.sets import write_set
from models.encoder import load_encoder
from models.encoders import int8
from models.encoders.devices import resolve_precision
from models.errors import EncoderError, InputError, MissingPackageError
from models.training.examples import Example, TrainingSet
from models.types import Precision
from service.settings import settings_of
from tests.support.commands import run
from tests.support.examples.models.tiny_bert import WORDS, paper, write_tiny_bert

PAPERS = [paper(f"Graph {n}", *["We show a method of neural transport of graph x."] * n) for n in range(1, 6)]


def test_weights_are_rounded_with_a_scale_for_each_output() -> None:
    """Weights become integers from -127 to 127, half a step away at most; outputs without weights stay 0."""
    weights = np.random.default_rng(0).normal(size=(4, 48)).astype(np.float32)
    weights *= np.array([[1e-3], [1.0], [10.0], [0.0]], np.float32)
    integers, scales = int8.rounded(weights)
    assert np.int8 == integers.dtype
    assert [127, 127, 127, 0] == np.abs(integers.astype(int)).max(axis=1).tolist()
    assert (np.abs(integers * scales - weights) <= scales / 2 * (1 + 1e-6)).all()


def test_matrix_products_have_rounded_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All products of a transformer with its weights are rounded: six in a layer of BERT."""
    made: list[np.ndarray] = []

    def counting(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        made.append(rows)
        return own(rows)

    own = int8.rounded
    monkeypatch.setattr(int8, "rounded", counting)
    encoder = load_encoder(str(write_tiny_bert(tmp_path / "tiny")), device="cpu", precision=Precision.INT8)
    assert 6 * encoder.n_layers == len(made)  # type: ignore[attr-defined]  # of an encoder of sentences


def test_a_paper_does_not_depend_on_others(tmp_path: Path) -> None:
    """A paper has nearly the same vectors in any batch, also if several threads encode at once."""
    tiny = str(write_tiny_bert(tmp_path / "tiny"))
    encoder = load_encoder(tiny, device="cpu", precision=Precision.INT8)
    alone = [encoder.encode([each])[0].sentences for each in PAPERS]
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(encoder.encode, [PAPERS] * 8):
            for own, expected in zip(found, alone, strict=True):
                np.testing.assert_allclose(own.sentences, expected, atol=1e-5)


def test_without_openvino_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package, int8 is refused with the line that installs it."""
    monkeypatch.setitem(sys.modules, "openvino", None)
    tiny = write_tiny_bert(tmp_path / "tiny")
    with pytest.raises(MissingPackageError, match=r'pip install "akin\[int8\]=='):
        load_encoder(str(tiny), device="cpu", precision=Precision.INT8)


def test_an_architecture_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that OpenVINO cannot read is refused, and the error names other number formats."""

    def failing(_: object) -> None:
        raise RuntimeError("no conversion of aten::unheard_of")

    monkeypatch.setattr(int8, "_graph_of", failing)
    tiny = write_tiny_bert(tmp_path / "tiny")
    with pytest.raises(
        EncoderError, match=r"type 'bert' \(no conversion .*\); use auto, bfloat16 or float32"
    ):
        load_encoder(str(tiny), device="cpu", precision=Precision.INT8)


def test_gpus_services_and_training_refuse_it(tmp_path: Path) -> None:
    """int8 is refused on GPUs, in the service and in training, and the error names alternatives."""
    with pytest.raises(InputError, match="AKIN_PRECISION must be one of 'float32', 'bfloat16' or 'auto'"):
        settings_of(precision="int8")
    with pytest.raises(EncoderError, match="int8 is for CPUs, but the device is cuda:1"):
        resolve_precision(Precision.INT8, torch.device("cuda:1"))
    texts = {name: paper(name, f"We show {name}.") for name in WORDS[:4]}
    examples = [Example(*WORDS[:2]), Example(*WORDS[2:4])]
    write_set(tmp_path / "set", TrainingSet("set", texts, examples), {})
    config = tmp_path / "run.toml"
    config.write_text(
        f'encoder = "{write_tiny_bert(tmp_path / "tiny")}"\nprecision = "int8"\n[[sets]]\npath = "set"\n'
    )
    assert "int8 has no gradients" in run(
        "train", config, "--out", tmp_path / "out", "--device", "cpu", status=1
    )
