"""How a device is named, wherever one is."""

import pytest
import torch
from typer.testing import CliRunner

from akin.cli.app import app
from models.encoders.device_names import checked_device, gpu_number
from models.encoders.devices import free_bytes, resolve_device
from models.errors import EncoderError, InputError
from service.settings import settings_of

NAMES = {"auto": None, "cpu": None, "cuda": None, "cuda:0": 0, "cuda:12": 12}


@pytest.mark.parametrize("name", NAMES)
def test_a_device_may_be_any_of_several(name: str) -> None:
    """``auto``, ``cpu``, ``cuda`` and ``cuda:N``, for the service as well."""
    assert NAMES[name] == gpu_number(name)
    assert name == checked_device(name) == settings_of(device=name).device


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:x", "cuda:123", "cuda:0 ", "mps", "cpu\n"])
def test_anything_else_is_refused(name: str) -> None:
    """By each that takes a device, before it does anything."""
    for refused in (checked_device, gpu_number, lambda own: settings_of(device=own)):
        with pytest.raises(InputError, match=r"cuda"):
            refused(name)
    with pytest.raises(EncoderError, match="expected auto, cpu, cuda or cuda:N"):
        resolve_device(name)


def test_the_command_line_says_what_a_device_is() -> None:
    """Exit status 2, as for any flag that cannot be."""
    result = CliRunner().invoke(app, ["index", __file__, "--data", "nowhere", "--device", "gpu"])
    assert 2 == result.exit_code
    assert "cuda:N" in result.output


def test_a_gpu_that_torch_does_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how many there are."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert torch.device("cuda:1") == resolve_device("cuda:1")
    with pytest.raises(EncoderError, match="this machine has 2, from cuda:0 on"):
        resolve_device("cuda:2")
    assert free_bytes(2) is None
