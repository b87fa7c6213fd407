"""The shards of a service: which segments each holds, and which are unavailable."""

import itertools
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Final

from indexer.cluster import LOCAL, connect
from indexer.snapshot.manifest import Manifest
from models.errors import AkinError, InternalError, ShardAwayError
from service.background import Repeating
from service.cache.digests import generation_digest
from service.cluster.calls import cancel, ended, result_of
from service.cluster.placement import Placement, homes_of
from service.cluster.places import JOIN_S
from service.cluster.replicas import LOOKS, Replica, Replicas
from service.cluster.shard import Generation
from service.context import remaining_s
from service.degradation import Degradation

# How long a shard has to say that it is there, in seconds; whoever takes longer is away. A search may take as
# long as its request.
ANSWER_S: Final = 2.0
# How long one may take to open a generation: it reads the indexes.
OPEN_S: Final = 600.0
# How often each is asked whether it is there.
LOOK_S: Final = 0.5
AWAY: Final = Degradation(
    "shards",
    "A machine that holds a part of the collection does not respond: searches report the share that they "
    "cover.",
    "it is restarted automatically if the cluster has room; see the log of Ray",
)
TOGETHER: Final = Degradation(
    "replicas",
    "Two processes of a shard are on one machine: if it fails, a part of the collection cannot be searched.",
    "add a machine to the cluster; one of them moves there",
)


class Shards:
    """``n_shards`` shards in ``n_replicas`` processes each, on the machines of a cluster.

    0 shards: one for each machine with processors; on GPUs, as many as there are GPUs for. Machines that are
    wanted have ``join_s`` to join. They live as long as this process, or until ``close``. Several threads may
    ask. Raises what ``connect`` raises; InputError where there are fewer GPUs than processes.
    """

    def __init__(
        self,
        address: str,
        data: Path,
        *,
        n_shards: int = 0,
        n_replicas: int = 1,
        device: str = "auto",
        answer_s: float = ANSWER_S,
        look_s: float = LOOK_S,
        join_s: float = JOIN_S,
    ) -> None:
        self._ray = connect(address)
        self._answer_s = answer_s
        self.replicas = Replicas(
            self._ray,
            data,
            n_shards=n_shards,
            n_replicas=n_replicas,
            device=device,
            join_s=0.0 if address == LOCAL else join_s,
        )
        self.n_shards = len(self.replicas.of)
        self._turns = itertools.count()
        self._homes: dict[str, int] = {}
        self._placements: dict[Generation, Placement] = {}
        self._lock = RLock()  # whoever collects garbage may come in a second time
        self._watching = ExitStack()
        self._watched = False
        self._look_s = look_s

    def serve(self, manifest: Manifest) -> Generation:
        """Have the segments of a generation opened, each by one shard, until it is dropped.

        Raises ShardAwayError where some shard does not come up; what its opening raises.
        """
        generation = Generation(manifest.generation, generation_digest(manifest).hex())
        with self._lock:
            placement = self._placements.get(generation)
            is_first = placement is None
            if placement is None:
                placement = self._placements[generation] = Placement(self._placed(manifest))
            else:
                placement.n_users += 1
        try:
            if is_first:
                self._open_for_all(generation, placement)
            else:
                placement.expect_opened(timeout_s=OPEN_S)
        except BaseException:
            self.drop(generation)
            raise
        return generation

    def _open_for_all(self, generation: Generation, placement: Placement) -> None:
        """Have it opened, and tell those who need it too; raises as ``serve``."""
        try:
            self._open(generation, placement)
            self._watch()
        except BaseException as error:
            placement.end_opening(error)
            raise
        placement.end_opening()

    def _watch(self) -> None:
        """Look after all of them from now on; they have started."""
        with self._lock:
            watched, self._watched = self._watched, True
        for replica in () if watched else self.replicas:
            look = partial(self._look, replica)
            self._watching.enter_context(Repeating(look, every_s=self._look_s, failure=AWAY, at_once=False))

    def drop(self, generation: Generation) -> None:
        """One user of a generation less; nobody holds it after the last."""
        with self._lock:
            placement = self._placements[generation]
            placement.n_users -= 1
            if not placement.n_users:
                del self._placements[generation]

    def homes(self, generation: Generation) -> Mapping[str, int]:
        """Which shard has each segment of a generation that is served, by name."""
        return self._placements[generation].homes

    def away(self, generation: Generation) -> frozenset[int]:
        """The shards of which no process can be asked for a generation now."""
        return frozenset(
            shard
            for shard, replicas in enumerate(self.replicas.of)
            if not any(generation in each.opened for each in replicas)
        )

    def call(self, method: str, generation: Generation, asked: Mapping[int, Any]) -> dict[int, Any]:
        """What a method of each shard gives for what it is asked, all at the same time.

        Where one process goes away, or fails as nobody foresaw, another of the same shard is asked. Raises
        ShardAwayError where none is left, InternalError where the second fails too, DeadlineError, and what
        the method raises.
        """
        answers: dict[int, Any] = {}
        failed: dict[int, Replica] = {}
        while len(answers) < len(asked):
            begun: dict[Any, Replica] = {}
            try:
                for shard in asked.keys() - answers.keys():
                    replica = self._next(shard, generation, but=failed.get(shard))
                    ask = getattr(replica.actor, method).remote
                    begun[ask(generation, asked[shard], remaining_s())] = replica
                for ref in ended(self._ray, begun, generation):
                    self._answer(ref, begun.pop(ref), answers, failed)
            finally:
                cancel(self._ray, begun)
        return answers

    def _answer(
        self, ref: Any, replica: Replica, answers: dict[int, Any], failed: dict[int, Replica]
    ) -> None:
        """Note what a call gave, or that its process is away or has ``failed``; raises as ``call``."""
        try:
            answers[replica.shard] = result_of(self._ray, ref)
        except ShardAwayError:
            self._note(replica, gone=replica.opened)
        except InternalError:
            if replica.shard in failed:
                raise
            failed[replica.shard] = replica

    def degradations(self) -> list[Degradation]:
        """Whether some of what is served has fewer processes to search it than it should, or machines."""
        served = list(self._placements)
        whole = all(generation in each.opened for each in self.replicas for generation in served)
        return [AWAY] * (not whole) + [TOGETHER] * self.replicas.together

    def close(self) -> None:
        """End all of them."""
        self._watching.close()
        for replica in self.replicas:
            self._ray.kill(replica.actor)

    def _placed(self, manifest: Manifest) -> dict[str, int]:
        """A shard for each segment of one more generation; the caller has the lock."""
        known = [self._homes, *(each.homes for each in self._placements.values())]
        self._homes = homes_of(manifest, known, n_shards=self.n_shards)
        return self._homes

    def _open(self, generation: Generation, placement: Placement) -> None:
        """Open it in all processes; those that fail follow later, if one of each shard does not."""
        begun = {
            each.actor.open.remote(generation, placement.names(each.shard)): each for each in self.replicas
        }
        failures: dict[int, AkinError] = {}
        for ref, replica in begun.items():
            try:
                result_of(self._ray, ref, timeout_s=OPEN_S)
            except AkinError as error:
                failures[replica.shard] = error
            else:
                self._note(replica, added={generation})
        for shard in self.away(generation):
            raise failures.get(shard, ShardAwayError("A shard went away as it was opened."))

    def _next(self, shard: int, generation: Generation, *, but: Replica | None) -> Replica:
        """Whom to ask next, ``but`` for one that failed; raises ShardAwayError, InternalError."""
        there = [each for each in self.replicas.of[shard] if generation in each.opened and each is not but]
        if not there and but is not None:
            raise InternalError("Something went wrong on our side, in a shard. The log has the details.")
        if not there:
            raise ShardAwayError(
                "A machine that holds a part of the collection does not respond; try again in a moment."
            )
        return there[next(self._turns) % len(there)]

    def _look(self, replica: Replica) -> None:
        """Find out where a process is and what it has opened, and have it open what else is served.

        A generation that it cannot open leaves it the others.
        """
        actor = replica.actor
        try:
            opened, machine = (
                getattr(actor, name).options(concurrency_group=LOOKS).remote()
                for name in ("opened", "machine")
            )
            held = set(result_of(self._ray, opened, timeout_s=self._answer_s))
            replica.machine = result_of(self._ray, machine, timeout_s=self._answer_s)
            with self._lock:
                served, before = dict(self._placements), replica.opened
            for generation in held - served.keys():
                actor.close.remote(generation)
            self._note(replica, added=held & served.keys(), gone=before - served.keys())
            self._open_also(replica, {each: served[each] for each in served.keys() - held})
        except ShardAwayError as error:
            self._note(replica, gone=replica.opened)
            if isinstance(error.__cause__, self._ray.exceptions.ActorDiedError):  # for good
                self.replicas.begin_anew(replica)
            raise
        self._spread(replica, served)

    def _open_also(self, replica: Replica, missing: Mapping[Generation, Placement]) -> None:
        """Have one process open more generations; raises what the last that fails does."""
        failure: AkinError | None = None
        for generation, placement in missing.items():
            ref = replica.actor.open.remote(generation, placement.names(replica.shard))
            try:
                result_of(self._ray, ref, timeout_s=OPEN_S)
            except ShardAwayError:
                raise
            except AkinError as error:
                self._note(replica, gone=[generation])
                failure = error
            else:
                self._note(replica, added=[generation])
        if failure is not None:
            raise failure

    def _spread(self, replica: Replica, served: Iterable[Generation]) -> None:
        """Move a process that shares its machine with a twin where there is another machine by now.

        Another of its shard is asked meanwhile.
        """
        twins = [each for each in self.replicas.of[replica.shard] if each is not replica]
        if any(each.opened.issuperset(served) for each in twins) and (
            machine := self.replicas.better(replica)
        ):
            self._note(replica, gone=replica.opened)
            self.replicas.move(replica, machine)

    def _note(
        self, replica: Replica, *, added: Iterable[Generation] = (), gone: Iterable[Generation] = ()
    ) -> None:
        """Change what a process can be asked for by that alone: other threads may add to it meanwhile."""
        with self._lock:
            replica.opened = replica.opened.difference(gone).union(added)
