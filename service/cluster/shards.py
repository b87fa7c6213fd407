"""The shards of a service: which segments each holds, and which are unavailable."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Final

from indexer.cluster import HARDLY_ANY, connect, machines, placed
from indexer.snapshot.manifest import Manifest
from models.errors import AkinError, ShardAwayError, SnapshotMissingError
from service.background import Repeating
from service.cache.digests import generation_digest
from service.cluster.placement import Placement, homes_of
from service.cluster.shard import Generation, Shard
from service.context import check_deadline
from service.degradation import Degradation

# How long a shard has to say that it is there, in seconds; whoever takes longer is away. A search may take as
# long as its request.
ANSWER_S: Final = 2.0
# How long one may take to open a generation: it reads the indexes.
OPEN_S: Final = 600.0
# How often each is asked whether it is there.
LOOK_S: Final = 0.5
# Calls that one process works on at once: more than a service lets compute, that it can say that it is there.
_AT_ONCE: Final = 64
# Between two looks at the deadline of a request, and whether those who are asked are still there.
_SLICE_S: Final = 0.1
AWAY: Final = Degradation(
    "shards",
    "A machine that holds a part of the collection does not respond: searches report the share that they "
    "cover.",
    "it is restarted automatically if the cluster has room; see the log of Ray",
)


@dataclass(slots=True, eq=False)
class Replica:
    """One process that holds a shard, and the generations that it can be asked for."""

    shard: int
    machine: str
    actor: Any
    opened: frozenset[Generation] = field(default_factory=frozenset)


class Shards:
    """``n_shards`` shards in ``n_replicas`` processes each, on the machines of a cluster.

    0 shards: one for each machine with processors. They live as long as this process, or until ``close``.
    Several threads may ask. Raises what ``connect`` raises.
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
    ) -> None:
        self._ray = connect(address)
        self._answer_s = answer_s
        on_gpu = device.startswith("cuda")
        # Started anew as often as it dies, on another machine where its own is gone.
        self._kind = self._ray.remote(
            num_cpus=HARDLY_ANY,
            num_gpus=1 if on_gpu else 0,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_AT_ONCE,
        )(Shard)
        # Ray shows a process no GPU but its own, which is number 0 there.
        self._given = (data.resolve(), "cuda" if on_gpu else "cpu")
        found = machines(self._ray)
        self.n_shards = n_shards or len(found)
        self._replicas = [
            [self._replica(shard, found[(shard + number) % len(found)]) for number in range(n_replicas)]
            for shard in range(self.n_shards)
        ]
        self._turns = itertools.count()
        self._homes: dict[str, int] = {}
        self._placements: dict[Generation, Placement] = {}
        self._lock = RLock()  # whoever collects garbage may come in a second time
        self._watching = ExitStack()
        self._watched = False
        self._look_s = look_s

    @property
    def replicas(self) -> Iterator[Replica]:
        """All of them."""
        return itertools.chain.from_iterable(self._replicas)

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
            for shard, replicas in enumerate(self._replicas)
            if not any(generation in each.opened for each in replicas)
        )

    def call(self, method: str, generation: Generation, asked: Mapping[int, Any]) -> dict[int, Any]:
        """What a method of each shard gives for what it is asked, all at the same time.

        Where one process fails or goes away the next of the same shard is asked. Raises ShardAwayError where
        none is left, DeadlineError, and what the method raises.
        """
        answers: dict[int, Any] = {}
        while len(answers) < len(asked):
            begun = {}
            for shard in asked.keys() - answers.keys():
                replica = self._next(shard, generation)
                begun[getattr(replica.actor, method).remote(generation, asked[shard])] = replica
            for ref in self._ended(begun, generation):
                try:
                    answers[begun[ref].shard] = self._result(ref)
                except ShardAwayError:
                    self._note(begun[ref], gone=begun[ref].opened)
        return answers

    def degradations(self) -> list[Degradation]:
        """Whether some of what is served has fewer processes to search it than it should."""
        served = list(self._placements)
        whole = all(generation in each.opened for each in self.replicas for generation in served)
        return [] if whole else [AWAY]

    def close(self) -> None:
        """End all of them."""
        self._watching.close()
        for replica in self.replicas:
            self._ray.kill(replica.actor)

    def _replica(self, shard: int, machine: str) -> Replica:
        return Replica(shard, machine, self._begun(machine))

    def _begun(self, machine: str) -> Any:
        data, device = self._given
        return self._kind.options(scheduling_strategy=placed(self._ray, machine)).remote(data, device=device)

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
                self._result(ref, timeout_s=OPEN_S)
            except AkinError as error:
                failures[replica.shard] = error
            else:
                self._note(replica, added={generation})
        for shard in self.away(generation):
            raise failures.get(shard, ShardAwayError("A shard went away as it was opened."))

    def _next(self, shard: int, generation: Generation) -> Replica:
        there = [each for each in self._replicas[shard] if generation in each.opened]
        if not there:
            raise ShardAwayError(
                "A machine that holds a part of the collection does not respond; try again in a moment."
            )
        return there[next(self._turns) % len(there)]

    def _ended(self, begun: Mapping[Any, Replica], generation: Generation) -> list[Any]:
        """Those of the calls that end before whoever is asked goes away.

        Raises DeadlineError; ShardAwayError where none can be asked any more.
        """
        ended: list[Any] = []
        left = list(begun)
        while left:
            check_deadline()
            try:
                done, left = self._ray.wait(left, num_returns=len(left), timeout=_SLICE_S)
            except OSError as error:  # this machine is a node of the cluster no longer
                raise ShardAwayError("The cluster is gone.") from error
            ended += done
            left = [ref for ref in left if generation in begun[ref].opened]
        return ended

    def _result(self, ref: Any, *, timeout_s: float = 0.0) -> Any:
        """What a call gives; ShardAwayError where the process does not answer, or has not the generation."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref, timeout=timeout_s)
        except errors.RayTaskError as error:
            if isinstance(error.cause, AkinError) and not isinstance(error.cause, SnapshotMissingError):
                raise error.cause from error
            raise ShardAwayError(f"A shard fails: {error.cause}") from error
        except (errors.RayError, OSError) as error:  # GetTimeoutError is one
            raise ShardAwayError(f"A shard does not answer: {type(error).__name__}") from error

    def _look(self, replica: Replica) -> None:
        """Find out what a process has opened, and have it open what else is served."""
        try:
            held = set(self._result(replica.actor.opened.remote(), timeout_s=self._answer_s))
            with self._lock:
                served, before = dict(self._placements), replica.opened
            for generation in held - served.keys():
                replica.actor.close.remote(generation)
            for generation in served.keys() - held:
                names = served[generation].names(replica.shard)
                self._result(replica.actor.open.remote(generation, names), timeout_s=OPEN_S)
            self._note(replica, added=served.keys(), gone=before - served.keys())
        except AkinError as error:
            self._note(replica, gone=replica.opened)
            if isinstance(error.__cause__, self._ray.exceptions.ActorDiedError):  # for good
                replica.actor = self._begun(replica.machine)
            raise

    def _note(
        self, replica: Replica, *, added: Iterable[Generation] = (), gone: Iterable[Generation] = ()
    ) -> None:
        """Change what a process can be asked for by that alone: other threads may add to it meanwhile."""
        with self._lock:
            replica.opened = replica.opened.difference(gone).union(added)
