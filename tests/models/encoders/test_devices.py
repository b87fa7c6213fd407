"""Names of devices, wherever one is given."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from akin.cli.app import app
from akin.cli.options import chosen_precision
from indexer.encoding.arguments import BuildArguments, load_models
from indexer.encoding.on_devices import encoding
from indexer.encoding.parts import Encode
from indexer.snapshot.opening import open_snapshot
from models.encoders.device_names import checked_device, gpu_number
from models.encoders.devices import device_beside_cluster, free_bytes, resolve_device, resolve_precision
from models.errors import EncoderError, InputError
from models.types import Precision
from service.cache.store import Cache
from service.collection.generations import open_warm_engine
from service.settings import settings_of
from tests.support.builds import many_papers, write_corpus
from tests.support.commands import run
from tests.support.examples.models.tiny_bert import write_frozen_bert

NAMES = {"auto": None, "cpu": None, "cuda": None, "cuda:0": 0, "cuda:12": 12}


@pytest.mark.parametrize("name", NAMES)
def test_a_device_may_be_any_of_several(name: str) -> None:
    """``auto``, ``cpu``, ``cuda`` and ``cuda:N`` are devices, in the service's settings too."""
    assert NAMES[name] == gpu_number(name)
    assert name == checked_device(name) == settings_of(device=name).device


def test_what_torch_calls_the_processor_is_one_too() -> None:
    """``cpu:0`` means ``cpu``, but is passed to torch unchanged, which distinguishes them."""
    assert "cpu" == checked_device("cpu:0")
    assert (
        torch.device("cpu:0") == resolve_device("cpu:0") == resolve_device(settings_of(device="cpu:0").device)
    )


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:x", "cuda:123", "cuda:0 ", "mps", "cpu\n"])
def test_anything_else_is_refused(name: str) -> None:
    """Any other name is refused wherever a device is given."""
    for refused in (checked_device, gpu_number, lambda own: settings_of(device=own)):
        with pytest.raises(InputError, match=r"cuda"):
            refused(name)
    with pytest.raises(EncoderError, match="expected auto, cpu, cuda or cuda:N"):
        resolve_device(name)


def test_the_command_line_says_what_a_device_is() -> None:
    """A wrong --device exits with status 2, as any bad flag, and the message lists ``cuda:N``."""
    result = CliRunner().invoke(app, ["index", __file__, "--data", "nowhere", "--device", "gpu"])
    assert 2 == result.exit_code
    assert "cuda:N" in result.output


@pytest.mark.parametrize(
    ("instructions", "meant"),
    [
        ({"avx512_bf16": True}, Precision.BFLOAT16),
        ({"amx_bf16": True, "avx512_bf16": False}, Precision.BFLOAT16),
        ({"avx512_bf16": False, "avx2": True}, Precision.FLOAT32),
    ],
)
def test_auto_is_bfloat16_where_it_is_native(
    instructions: dict[str, bool], meant: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``auto`` is bfloat16 if the processor has it natively, and a named precision stays unchanged."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    cpu = torch.device("cpu")
    assert meant == resolve_precision(Precision.AUTO, cpu) == chosen_precision(Precision.AUTO, "cpu")
    for named in (Precision.FLOAT32, Precision.BFLOAT16):
        assert named == resolve_precision(named, cpu) == chosen_precision(named, "cpu")
    assert chosen_precision(None, "cpu") is None


def test_a_collection_remembers_what_auto_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection stores the precision that ``auto`` meant, and keeps it on another machine."""
    data, papers = tmp_path / "data", many_papers(2)
    for n, has_it, given in ((1, True, ["--precision", "auto"]), (2, False, [])):
        monkeypatch.setattr(torch.cpu, "get_capabilities", dict[str, bool](amx_bf16=has_it).copy)
        corpus = write_corpus(tmp_path / f"{n}.jsonl", papers[:n])
        run("index", corpus, "--data", data, "--encoder", "hashing", "--device", "cpu", *given)
        assert "bfloat16" == open_snapshot(data).manifest.arguments["precision"]


def test_a_gpu_that_torch_does_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing GPU is refused, and the message has the number of GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert torch.device("cuda:1") == resolve_device("cuda:1")
    with pytest.raises(EncoderError, match="this machine has 2, from cuda:0 on"):
        resolve_device("cuda:2")
    assert free_bytes(2) is None


def test_a_machine_beside_a_cluster_needs_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cluster, GPUs are those of its machines: one without indexes and serves on its CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    devices_on_cluster: list[str] = []

    def on_cluster(_: str, arguments: BuildArguments, device: str, __: int) -> Encode | None:
        devices_on_cluster.append(device)
        return encoding(load_models(arguments), arguments)

    monkeypatch.setattr("akin.cli.collection.index._on_cluster", on_cluster)
    monkeypatch.setattr("service.collection.generations.on_cluster", lambda snapshot, _: snapshot)
    data, encoder = tmp_path / "data", tmp_path / "tiny"
    write_frozen_bert(encoder)
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(2))
    given = ["--data", data, "--encoder", encoder, "--device", "cuda:1", "--precision", "auto"]
    run("index", corpus, *given, "--ray", "HOST:6379")
    assert ["cuda:1"] == devices_on_cluster
    settings = settings_of(data=data, device="cuda:1", ray="HOST:6379")
    assert 2 == len(open_warm_engine(settings, Cache(memory_mib=1)).snapshot)
    with pytest.raises(EncoderError, match="no usable CUDA"):
        open_warm_engine(settings_of(data=data, device="cuda:1"), Cache(memory_mib=1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "cuda:1" == device_beside_cluster("cuda:1")  # one with a GPU uses it
