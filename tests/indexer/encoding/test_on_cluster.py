"""Encoding on a cluster, with a stand-in for Ray."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from akin.cli.collection import index
from indexer.cluster import connect
from indexer.encoding.arguments import BuildArguments
from indexer.encoding.on_cluster import EncodeOnCluster
from indexer.encoding.parts import PARTS_PER_DEVICE
from models.errors import InputError
from tests.support.annotators import hashing_annotator
from tests.support.servers.pretended_ray import ActorDiedError, PretendedRay


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendedRay]:
    """Yield a stand-in for Ray, which the encoder connects to."""
    with ThreadPoolExecutor(1) as threads:
        ray = PretendedRay(threads)
        monkeypatch.setattr("indexer.encoding.on_cluster.connect", lambda _: ray)
        monkeypatch.setattr("indexer.encoding.on_cluster.placement_strategy", lambda _, machine: machine)
        yield ray


@pytest.mark.parametrize(("device", "n_gpus"), [("auto", 1), ("cuda", 1), ("cpu", 0), ("cpu:0", 0)])
def test_gpus_are_used_where_the_device_is_not_the_processor(
    device: str, n_gpus: int, ray: PretendedRay
) -> None:
    """GPUs are requested unless the device is the CPU, by either of its names."""
    ray.machines = {"a": {"CPU": 1.0, "GPU": 1.0}}
    assert 1 == len(EncodeOnCluster("", hashing_annotator, device=device).actors)
    assert n_gpus == ray.options["num_gpus"]


def test_gpus_that_no_machine_has_are_refused(ray: PretendedRay) -> None:
    """If a GPU is requested and no machine has one, the error says so; nothing is encoded on processors."""
    with pytest.raises(InputError, match=r"'cuda:1' was requested, but Ray knows no GPU"):
        EncodeOnCluster("", hashing_annotator, device="cuda:1")
    assert not ray.options


@pytest.mark.parametrize(
    ("device", "loaded_on"), [("auto", "auto"), ("cuda", "cuda"), ("cuda:1", "cuda"), ("cpu:0", "cpu")]
)
def test_models_are_loaded_on_the_requested_device(
    device: str, loaded_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes load the models on the requested kind of device, whose number is 0 for each of them."""
    monkeypatch.setattr(index, "EncodeOnCluster", lambda _, load, **__: load)
    load = index._on_cluster("", BuildArguments("hashing"), device, 1)
    assert isinstance(load, partial)
    assert loaded_on == load.keywords["device"]


@pytest.mark.parametrize(("device", "n_actors", "share"), [("auto", 6, 1 / 3), ("cpu", 2, 0)])
def test_processes_share_gpus(device: str, n_actors: int, share: float, ray: PretendedRay) -> None:
    """With ``per_gpu`` several actors have a part of each GPU; of processors each still has one."""
    ray.machines = {"a": {"CPU": 2.0, "GPU": 2.0}}
    encode = EncodeOnCluster("", hashing_annotator, device=device, per_gpu=3)
    assert n_actors == len(encode.actors)
    assert share == ray.options["num_gpus"]
    assert PARTS_PER_DEVICE * n_actors == encode.at_once


def joined(monkeypatch: pytest.MonkeyPatch, ray: object) -> None:
    """Have ``connect`` join ``ray`` instead of Ray, and restore the variables that it sets."""
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "RAY_ENABLE_AUTO_CONNECT"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    monkeypatch.setattr("indexer.cluster.import_module", lambda _: ray)


def test_a_node_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray node that does not start raises an InputError, although Ray raises a plain Exception."""

    def init(**_: Any) -> None:
        raise Exception("The current node timed out during startup. This could happen ...")  # noqa: TRY002

    joined(monkeypatch, SimpleNamespace(is_initialized=lambda: False, init=init))
    with pytest.raises(InputError, match=r"timed out during startup.*see Ray's log"):
        connect("auto")


def test_a_cluster_that_runs_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that runs no actor, as one without a token, is refused and left, with the remedy."""
    ended = []

    def get(_: object, *, timeout: float) -> None:
        raise ActorDiedError("The actor died.\nThe actor never ran.")

    actor = SimpleNamespace(answer=SimpleNamespace(remote=lambda: None))
    ray = SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **_: None,
        remote=lambda **_: lambda _: SimpleNamespace(remote=lambda: actor),
        get=get,
        exceptions=PretendedRay.exceptions,
        shutdown=lambda: ended.append(True),
    )
    joined(monkeypatch, ray)
    with pytest.raises(InputError, match=r"\(The actor never ran\.\).* RAY_AUTH_MODE=token"):
        connect("auto")
    assert [True] == ended
