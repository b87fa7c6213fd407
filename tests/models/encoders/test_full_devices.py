"""A GPU with full memory when an encoder is loaded."""

from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
import torch
from structlog.testing import capture_logs

from models.encoder import load_encoder
from models.encoders.devices import GIVEN_UP
from models.errors import DeviceFullError
from models.types import Precision
from service.cache.annotations import computing_on
from tests.support.examples.models.tiny_bert import PAPERS, write_tiny_bert

LOAD = "models.encoders.transformer.Transformer._load"


@pytest.fixture(
    params=[torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("CUDA error: out of memory")]
)
def full_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the GPU refuse every model."""
    load = resolve_name(LOAD)

    def scarce(self: Any, device: torch.device) -> Any:
        if device.type == "cuda":
            raise request.param
        return load(self, device)

    monkeypatch.setattr(LOAD, scarce)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    yield
    GIVEN_UP.clear()


@pytest.mark.usefixtures("full_gpu")
def test_auto_takes_the_cpu_where_the_gpu_is_full(tmp_path: Path) -> None:
    """``auto`` uses the CPU if the GPU is full; the log says so, and caches name the CPU from then on."""
    tiny, papers = str(write_tiny_bert(tmp_path / "tiny")), list(PAPERS.values())
    with capture_logs() as logged:
        encoder = load_encoder(tiny, device="auto")
    assert [("encoder_loaded_on_cpu", "cuda")] == [(each["event"], each["device"]) for each in logged]
    assert "cpu" == computing_on("auto", Precision.FLOAT32)
    expected = load_encoder(tiny, device="cpu").encode(papers)
    for own, right in zip(encoder.encode(papers), expected, strict=True):
        assert np.array_equal(own.sentences, right.sentences)


@pytest.mark.usefixtures("full_gpu")
def test_a_full_gpu_that_is_named_is_refused(tmp_path: Path) -> None:
    """A named GPU that is full raises DeviceFullError with the remedy."""
    with pytest.raises(DeviceFullError, match=r"'cuda:0' is full: .* or auto"):
        load_encoder(str(write_tiny_bert(tmp_path / "tiny")), device="cuda:0")
