"""Tests of the machines of shards and replicas, on a pretended cluster."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from indexer.snapshot.manifest import Manifest
from models.errors import InputError
from service.cluster.cluster_machines import ClusterMachines
from service.cluster.degraded import COLOCATED
from service.cluster.shards import Shards
from tests.support.servers.patience import soon
from tests.support.servers.pretended_ray import PretendedRay, shards_of


def machines_of(shards: Shards) -> list[list[str]]:
    """Return the machines of each shard's replicas."""
    return [[each.machine for each in twins] for twins in shards.replicas.of]


def test_replicas_are_on_different_machines(ray: PretendedRay, tmp_path: Path) -> None:
    """The replicas of a shard are on different machines, and machines have equally many."""
    shards = shards_of(tmp_path, n_replicas=2)
    assert [{"a", "b"}, {"a", "b"}] == [set(each) for each in machines_of(shards)]
    assert not shards.degradations()
    shards.close()


def test_replicas_on_one_machine_are_reported_and_move_apart(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """Two replicas on one machine are reported; the second moves to a machine that joins later."""
    del ray.machines["b"]
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2)
    generation = shards.serve(manifest)
    first, second = shards.replicas
    shards._look(second)
    assert [COLOCATED] == shards.degradations()
    ray.machines["b"] = {"CPU": 1.0}
    shards._look(first)
    assert (["a", "a"], []) == (machines_of(shards)[0], ray.killed)
    shards._look(second)
    assert (["a", "b"], 1) == (machines_of(shards)[0], len(ray.killed))
    assert [False, True] == [generation in each.opened for each in (second, first)]
    assert {0: "a"} == shards.call("search", generation, {0: "a"})
    shards._look(second)
    assert generation in second.opened
    assert not shards.degradations()
    shards.close()


def test_a_process_that_moved_is_where_it_is(ray: PretendedRay, tmp_path: Path, manifest: Manifest) -> None:
    """If Ray restarts a replica on another machine, the replica reports that machine at the next look."""
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2)
    shards.serve(manifest)
    first, _ = shards.replicas
    del ray.machines["a"]
    ray.shards[0].on = "b"
    shards._look(first)
    assert ["b", "b"] == machines_of(shards)[0]
    assert [COLOCATED] == shards.degradations()
    shards.close()


def test_no_process_moves_where_something_would_be_missing(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A replica does not move unless its twin has opened the served generation."""
    del ray.machines["b"]
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2)
    shards.serve(manifest)
    first, second = shards.replicas
    first.opened = frozenset()
    ray.machines["b"] = {"CPU": 1.0}
    shards._look(second)
    assert not ray.killed
    shards.close()


@pytest.mark.parametrize(
    ("given", "n_logged"), [({}, 1), ({"n_shards": 2}, 0), ({"n_shards": 3}, 1)], ids=str
)
def test_a_machine_that_joins_too_late_is_logged(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest, given: dict[str, int], n_logged: int
) -> None:
    """A machine that joins too late to hold a shard is logged once, unless it is only a spare one."""
    shards = shards_of(tmp_path, **given)
    shards.serve(manifest)
    first, *_ = shards.replicas
    with capture_logs() as logs:
        shards._look(first)
        assert not logs
        ray.machines["c"] = {"CPU": 1.0}
        for _ in range(2):
            shards._look(first)
    assert [["c"]] * n_logged == [each["machines"] for each in logs]
    shards.close()


@pytest.mark.parametrize(
    ("given", "n_gpus", "expected"),
    [
        ({}, {"a": 2, "b": 1}, [["a"], ["a"], ["b"]]),
        ({"n_replicas": 2}, {"a": 2, "b": 2}, [["a", "b"], ["a", "b"]]),
        ({"n_shards": 1, "n_replicas": 2}, {"a": 1, "b": 1}, [["a", "b"]]),
        ({"n_shards": 2, "n_replicas": 2}, {"a": 1, "b": 1, "c": 2}, [["a", "c"], ["b", "c"]]),
    ],
)
def test_each_process_on_gpus_has_one(
    ray: PretendedRay,
    tmp_path: Path,
    given: dict[str, int],
    n_gpus: dict[str, int],
    expected: list[list[str]],
) -> None:
    """With GPUs, each replica has one; machines count by GPUs, and those without hold nothing."""
    ray.machines = {name: {"CPU": 8.0, "GPU": float(n)} for name, n in n_gpus.items()}
    ray.machines["without"] = {"CPU": 8.0}
    shards = shards_of(tmp_path, device="cuda", **given)
    assert expected == sorted(sorted(each) for each in machines_of(shards))
    shards.close()


@pytest.mark.parametrize("given", [{"n_shards": 4}, {"n_shards": 2, "n_replicas": 2}, {"n_replicas": 4}])
def test_too_few_gpus_are_refused(ray: PretendedRay, tmp_path: Path, given: dict[str, Any]) -> None:
    """Too few GPUs are refused before any process is started, with their number and the remedy."""
    ray.machines = {"a": {"CPU": 8.0, "GPU": 3.0}}
    with pytest.raises(InputError, match=r"AKIN_REPLICAS\), 4 in all; the cluster has 3\."):
        shards_of(tmp_path, device="cuda:0", **given)
    assert not ray.shards


def test_machines_that_are_wanted_have_time_to_join(ray: PretendedRay) -> None:
    """The service waits for as many machines as it needs, and goes on with fewer when time is up."""
    wanted = {"n_shards": 3, "n_replicas": 2, "on_gpu": False}
    assert 2 == ClusterMachines.expected(ray, **wanted, join_s=0.0).n_places  # type: ignore[arg-type]
    ray.machines.clear()
    with pytest.raises(InputError, match="No machine"):
        ClusterMachines.expected(ray, **wanted, join_s=0.0)  # type: ignore[arg-type]
    found = ray.threads.submit(lambda: ClusterMachines.expected(ray, **wanted, join_s=60.0))  # type: ignore[arg-type]
    ray.machines.update({name: {"CPU": 1.0} for name in "ab"})
    soon(found.running)
    assert not found.done()
    ray.machines["c"] = {"CPU": 1.0}
    assert ["a", "b", "c"] == list(found.result(60).machines)
