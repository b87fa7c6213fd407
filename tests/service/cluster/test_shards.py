"""Tests of shards with threads and generations, on a pretended cluster of plain objects."""

from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from indexer.snapshot.manifest import Manifest, SegmentEntry
from models.errors import ShardAwayError, SnapshotMissingError
from service.cluster.degraded import PROCESS_AWAY, SHARD_AWAY
from service.cluster.shard import Generation
from service.context import Deadline, set_deadline
from tests.support.servers.patience import soon
from tests.support.servers.pretended_ray import PretendedRay, shards_of


def later(manifest: Manifest, generation: str, *n_rows: tuple[str, int]) -> Manifest:
    """Return another generation, with segments of these names and numbers of rows."""
    (like,) = manifest.segments
    segments: list[SegmentEntry] = [replace(like, name=name, n_rows=n) for name, n in n_rows]
    return replace(manifest, generation=generation, segments=tuple(segments))


def test_a_second_user_waits_until_a_generation_is_open(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A second user of a generation waits until the first has opened it, and gets the same error if any."""
    shards = shards_of(tmp_path)
    for failure in (None, ShardAwayError("no")):
        given = replace(manifest, generation=f"{failure}")
        for each in ray.shards:
            each.may_open.clear()
            each.failure = failure
            each.n_opening = 0
        first = ray.threads.submit(shards.serve, given)
        soon(lambda: all(each.n_opening for each in ray.shards))
        second = ray.threads.submit(shards.serve, given)
        with pytest.raises(TimeoutError):
            second.result(0.3)
        for each in ray.shards:
            each.may_open.set()
        if failure is None:
            assert first.result(20) == second.result(20)
            assert not shards.away(first.result())
        else:
            assert isinstance(first.exception(20), ShardAwayError)
            assert isinstance(second.exception(20), ShardAwayError)
    shards.close()


def test_a_second_user_waits_no_longer_than_its_request(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A second user waits no longer than its deadline."""
    shards = shards_of(tmp_path)
    ray.shards[0].may_open.clear()
    first = ray.threads.submit(shards.serve, manifest)
    soon(lambda: bool(ray.shards[0].n_opening))

    def served() -> None:
        set_deadline(Deadline(0.1))
        shards.serve(manifest)

    error = ray.threads.submit(served).exception(20)
    assert "DeadlineError" == type(error).__name__
    ray.shards[0].may_open.set()
    assert not shards.away(first.result(20))
    shards.close()


def test_the_first_user_waits_no_longer_than_its_request(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A request that has a generation opened ends at its deadline; others are told to try again."""
    shards = shards_of(tmp_path)
    ray.shards[0].may_open.clear()

    def served() -> None:
        set_deadline(Deadline(1.0))
        shards.serve(manifest)

    first = ray.threads.submit(copy_context().run, served)  # later calls in its thread have no deadline
    soon(lambda: bool(ray.shards[0].n_opening))
    second = ray.threads.submit(shards.serve, manifest)
    assert "DeadlineError" == type(first.exception(20)).__name__
    assert isinstance(second.exception(20), ShardAwayError)
    ray.shards[0].may_open.set()
    assert not shards.away(ray.threads.submit(shards.serve, manifest).result(20))
    shards.close()


def test_a_generation_that_does_not_open_leaves_the_others(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A process that cannot open one generation, as from a stale copy of the folder, keeps what it has."""
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2, answer_s=0.1)
    served = shards.serve(manifest)
    second = list(shards.replicas)[1]
    ray.shards[1].failure = SnapshotMissingError("another generation of this name")
    newer = shards.serve(replace(manifest, generation="newer"))
    with pytest.raises(ShardAwayError):
        shards._look(second)
    assert (True, False) == (served in second.opened, newer in second.opened)
    shards.close()


def test_a_look_forgets_nothing_that_was_opened_meanwhile(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A generation opened during a look is kept, while a dropped one is closed."""
    shards = shards_of(tmp_path)
    older = shards.serve(manifest)
    shards.serve(newest := replace(manifest, generation="newest"))
    shards.drop(older)
    victim, shard = next(iter(shards.replicas)), ray.shards[0]
    other = replace(manifest, generation="other")
    newer: list[Generation] = []

    def close(generation: Generation) -> None:
        shard.held.remove(generation)
        newer.append(shards.serve(other))

    victim.actor.close = SimpleNamespace(remote=close)
    shards._look(victim)
    assert newer[0] in victim.opened
    assert older not in victim.opened
    assert {each.name for each in victim.opened} == {newest.generation, "other"}
    shards.close()


def test_a_process_that_goes_away_as_it_opened_is_away(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a shard goes away while a generation opens, the error says so."""
    shards = shards_of(tmp_path)
    monkeypatch.setattr(shards, "away", lambda _: frozenset({1}))
    with pytest.raises(ShardAwayError, match="went away"):
        shards.serve(manifest)
    shards.close()


def test_a_generation_is_served_as_soon_as_one_process_of_each_shard_has_it(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A process that hangs as it opens a generation does not hold it back, and opens it later."""
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2, answer_s=0.1)
    (_, slow), (first, second) = ray.shards, shards.replicas
    slow.may_open.clear()
    served = ray.threads.submit(shards.serve, manifest).result(10)
    assert (True, False) == (served in first.opened, served in second.opened)
    assert {0: "a"} == shards.call("search", served, {0: "a"})
    shards._look(second)
    slow.may_open.set()
    soon(lambda: served in slow.held)
    shards._look(second)
    assert (served in second.opened, 1, {}) == (True, slow.n_opening, second.opening)
    shards.close()


def test_only_what_is_away_is_reported(ray: PretendedRay, tmp_path: Path, manifest: Manifest) -> None:
    """A process that is away is reported, with what that means; one that opens the next generation is not."""
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2, answer_s=0.1)
    shards.serve(manifest)
    for each in ray.shards:
        each.may_open.clear()
    opening = ray.threads.submit(shards.serve, replace(manifest, generation="newer"))
    soon(lambda: all(each.n_opening > 1 for each in ray.shards))
    assert not shards.degradations()
    ray.shards[0].may_open.set()
    newer = opening.result(10)
    first, second = shards.replicas
    assert (False, []) == (newer in second.opened, shards.degradations())
    second.lose()
    assert [PROCESS_AWAY] == shards.degradations()
    shards._look(second)
    assert (True, []) == (newer not in second.opened, shards.degradations())
    first.lose()
    assert [SHARD_AWAY] == shards.degradations()
    shards.close()


def test_a_process_that_hangs_is_replaced(ray: PretendedRay, tmp_path: Path, manifest: Manifest) -> None:
    """A process that answered once and then is silent for too long is killed, and another opens its part."""
    shards = shards_of(tmp_path, n_shards=1, n_replicas=2, answer_s=0.1, hang_s=0.0)
    served = shards.serve(manifest)
    hanging, victim = ray.shards[1], list(shards.replicas)[1]
    hanging.may_answer.clear()
    with pytest.raises(ShardAwayError):
        shards._look(victim)  # it may be starting, as it has never answered
    assert not ray.killed
    hanging.may_answer.set()
    shards._look(victim)
    hanging.may_answer.clear()
    with pytest.raises(ShardAwayError):
        shards._look(victim)
    assert ([True], 2) == ([hanging.is_killed], len(ray.shards))
    with pytest.raises(ShardAwayError):
        shards._look(victim)
    shards._look(victim)
    assert (3, {served}) == (len(ray.shards), victim.opened)
    hanging.may_answer.set()
    shards.close()


@pytest.mark.parametrize(
    ("device", "own", "n_gpus"),
    [("cuda:1", "cuda", 1), ("cuda", "cuda", 1), ("auto", "cpu", 0), ("cpu", "cpu", 0)],
)
def test_a_shard_uses_the_gpu_that_it_was_given(
    ray: PretendedRay, tmp_path: Path, device: str, own: str, n_gpus: int
) -> None:
    """A shard with a GPU uses the one it sees, whatever its number; a shard without one uses the CPU."""
    ray.machines = {name: {"CPU": 1.0, "GPU": 1.0} for name in "ab"}
    shards_of(tmp_path, device=device).close()
    assert [own, own] == [each.device for each in ray.shards]
    assert n_gpus == ray.options["num_gpus"]


def test_an_old_generation_that_is_opened_moves_no_segment(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """Segments of the served generation stay in place in the next one, even if an older one is opened."""
    shards = shards_of(tmp_path)
    served = shards.serve(later(manifest, "3", ("a", 10), ("b", 9), ("c", 8)))
    older = shards.serve(later(manifest, "1", ("a", 10)))
    following = shards.serve(later(manifest, "4", ("c", 8), ("b", 9)))
    shard_by_segment = shards.shard_by_segment(served)
    assert shard_by_segment["a"] == shards.shard_by_segment(older)["a"]
    assert {name: shard_by_segment[name] for name in "bc"} == {
        name: shards.shard_by_segment(following)[name] for name in "bc"
    }
    shards.close()


def test_a_generation_served_again_has_its_segments_where_they_are_placed(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A generation served again before it was closed is first opened where segments are missing."""
    shards = shards_of(tmp_path, answer_s=0.1)
    older = later(manifest, "1", ("a", 10), ("b", 9))
    first = shards.serve(older)
    before = dict(shards.shard_by_segment(first))
    shards.drop(first)
    shards.drop(shards.serve(later(manifest, "2", ("c", 1))))  # now nobody knows where the others were
    shards.drop(shards.serve(later(manifest, "3", ("b", 10), ("a", 9))))
    for each in ray.shards:
        each.may_open.clear()
    waiting = ray.threads.submit(shards.serve, older)
    with pytest.raises(TimeoutError):
        waiting.result(1.0)
    for each in ray.shards:
        each.may_open.set()
    again = waiting.result(20)
    after = dict(shards.shard_by_segment(again))
    assert (first, {"a": 0, "b": 1}, {"a": 1, "b": 0}) == (again, before, after)
    assert all(name in ray.shards[home].names[again] for name, home in after.items())
    shards.close()


def test_a_process_without_a_segment_of_a_generation_does_not_have_it(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A process that has only some segments of a generation cannot search it until it has all of them."""
    shards = shards_of(tmp_path, n_shards=1, answer_s=0.1)
    served = shards.serve(later(manifest, "1", ("a", 10), ("b", 9)))
    ((replica,), (shard,)) = shards.replicas, ray.shards
    shard.names[served] = frozenset({"a"})
    replica.note(gone=[served])
    shard.may_open.clear()
    shards._look(replica)
    assert served not in replica.opened
    shard.may_open.set()
    soon(lambda: {"a", "b"} == shard.names[served])
    shards._look(replica)
    assert served in replica.opened
    shards.close()


def test_a_generation_is_not_closed_after_it_is_served_again(
    ray: PretendedRay, tmp_path: Path, manifest: Manifest
) -> None:
    """A generation served again during a look is opened after it is closed, and stays open."""
    shards = shards_of(tmp_path, n_shards=1)
    shards.drop(shards.serve(manifest))
    ((replica,), (shard,)) = shards.replicas, ray.shards
    served: list[Future[Generation]] = []
    close = replica.actor.close.remote

    def closing(generation: Generation) -> object:
        served.append(ray.threads.submit(shards.serve, manifest))
        wait(served, timeout=0.3)
        return close(generation).result(20)

    replica.actor.close = SimpleNamespace(remote=closing)
    shards._look(replica)
    generation = served[0].result(20)
    assert (True, True) == (generation in shard.held, generation in replica.opened)
    shards.close()
