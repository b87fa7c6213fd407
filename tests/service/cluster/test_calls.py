"""Tests of calls of shards that fail or that no request waits for any more, on a pretended cluster."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from models.errors import DeadlineError, DeviceFullError, InternalError, ShardAwayError, SnapshotCorruptError
from service.cache.digests import generation_digest
from service.cluster.calls import result_of
from service.cluster.shard import Generation, Shard, ShardLookup
from service.context import Deadline, set_deadline
from tests.support.servers.pretended_ray import ActorDiedError, PretendedRay, shards_of


def failing(error: Exception) -> Callable[[Any], object]:
    """Return a search that fails."""

    def answer(_: object) -> object:
        raise error

    return answer


def test_calls_that_nobody_waits_for_are_cancelled(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """When a request has run out of time its calls are cancelled; each call has the time that was left."""
    shards = shards_of(tmp_path)
    generation = shards.serve(manifest)
    may_end = Event()
    ray.shards[1].answer = lambda request: may_end.wait(20) and request

    def searched() -> None:
        set_deadline(Deadline(0.3))
        shards.call("search", generation, {0: "a", 1: "b"})

    assert isinstance(ray.threads.submit(searched).exception(20), DeadlineError)
    (left,) = {each for each in ray.cancelled if not each.done()}
    may_end.set()
    assert "b" == left.result(20)
    assert all(0 < (each.left_s[0] or 0) <= 0.3 for each in ray.shards)
    assert {0: "a", 1: "b"} == shards.call("search", generation, {0: "a", 1: "b"})
    assert ray.shards[0].left_s[1] is None
    assert not shards.away(generation)
    shards.close()


def test_an_error_that_nobody_foresaw_takes_no_shard_away(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """After an unexpected error another replica is called once; if both fail, only the request fails."""
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2)
    generation = shards.serve(manifest)
    one, other = ray.shards
    one.answer = failing(ValueError("a fault"))
    for _ in range(2):  # each replica comes first once
        assert {0: "a"} == shards.call("search", generation, {0: "a"})
    other.answer = one.answer
    one.left_s.clear()
    other.left_s.clear()
    with pytest.raises(InternalError):
        shards.call("search", generation, {0: "a"})
    assert (1, 1) == (len(one.left_s), len(other.left_s))
    assert all(generation in each.opened for each in shards.replicas)
    assert not shards.degradations()
    shards.close()


def test_why_a_shard_cannot_start_is_reported(ray: PretendedRay) -> None:
    """The error for a shard that cannot start has the last line of Ray's, which is the reason."""
    error = ActorDiedError("The actor died ...\n  File ...\nModuleNotFoundError: No module named 'service'")
    error.actor_init_failed = True
    ref: Future[Any] = Future()
    ref.set_exception(error)
    with pytest.raises(
        ShardAwayError, match=r"cannot start .*: ModuleNotFoundError: No module named 'service'$"
    ):
        result_of(ray, ref)


def test_where_no_other_process_is_left_an_error_is_raised(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """Without another replica an unexpected error fails the request; an error of ours is raised unchanged."""
    shards = shards_of(tmp_path, n_shards=1)
    generation = shards.serve(manifest)
    for error, raised in ((KeyError("a"), InternalError), (DeviceFullError("full"), DeviceFullError)):
        ray.shards[0].answer = failing(error)
        with pytest.raises(raised):
            shards.call("search", generation, {0: "a"})
    assert not shards.away(generation)
    shards.close()


def test_a_busy_process_can_say_that_it_is_there(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """Looks run in a concurrency group of their own, so that they do not wait for searches."""
    shards = shards_of(tmp_path)
    shards.serve(manifest)
    shards._look(next(iter(shards.replicas)))
    assert ["looks", "looks"] == ray.groups
    assert {"looks": 1} == ray.options["concurrency_groups"]
    shards.close()


def test_a_generation_that_cannot_be_opened_leaves_the_others(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A replica that cannot open one generation keeps serving the others."""
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2)
    served = shards.serve(manifest)
    broken, victim = ray.shards[1], list(shards.replicas)[1]
    broken.failure = SnapshotCorruptError("damaged")
    newer = shards.serve(replace(manifest, generation="newer"))
    with pytest.raises(SnapshotCorruptError):
        shards._look(victim)
    assert {served} == victim.opened
    broken.failure = None
    shards._look(victim)
    assert {served, newer} == victim.opened
    shards.close()


def test_a_shard_does_nothing_for_a_request_without_time(hashed_data: Path) -> None:
    """A shard neither searches nor reads rows for a request without time left."""
    manifest = open_snapshot(hashed_data).manifest
    (entry,) = manifest.segments
    generation = Generation(manifest.generation, generation_digest(manifest).hex())
    shard = Shard(hashed_data, device="cpu")
    shard.open(generation, [entry.name])
    queries = np.zeros((1, manifest.encoder.dim), dtype=np.float32)
    lookups = [ShardLookup(entry.name, by_function=False, queries=queries, k=3, together=False, allowed=None)]
    rows = [(entry.name, np.array([0, 2]))]
    for left_s in (0.0, -1.0):
        with pytest.raises(DeadlineError):
            shard.search(generation, lookups, left_s)
        with pytest.raises(DeadlineError):
            shard.rows(generation, rows, left_s)
    (hits,) = shard.search(generation, lookups, 60.0)
    assert (1, 3) == hits.rows.shape
    assert 2 == len(shard.rows(generation, rows, 60.0)[0])


def test_a_shard_opens_what_it_lacks_of_an_open_generation(hashed_data: Path) -> None:
    """A shard told to open more segments of a generation has them next to those that were open."""
    manifest = open_snapshot(hashed_data).manifest
    (entry,) = manifest.segments
    generation = Generation(manifest.generation, generation_digest(manifest).hex())
    shard = Shard(hashed_data, device="cpu")
    for names in ([], [entry.name], []):
        shard.open(generation, names)
    assert {generation: frozenset({entry.name})} == shard.opened()
    assert 1 == len(shard.rows(generation, [(entry.name, np.array([0]))], 60.0))
