"""The shards of a service: the segments each one holds, and which shards are unavailable."""

import itertools
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Final

import structlog

from indexer.cluster import LOCAL, connect
from indexer.snapshot.manifest import Manifest
from models.errors import AkinError, InternalError, ShardAwayError
from service.background import RepeatedTask
from service.cache.digests import generation_digest
from service.cluster.calls import SLICE_S, cancel, ended, first_done, result_of
from service.cluster.cluster_machines import JOIN_S
from service.cluster.degraded import SHARD_AWAY
from service.cluster.placement import Placement, assign_shards
from service.cluster.replicas import LOOKS, OPEN_S, Replica, Replicas
from service.cluster.shard import Generation
from service.context import check_deadline, remaining_s
from service.degradation import Degradation

# How long a shard may take to say that it is there, in seconds; if it takes longer, it is away. A search may
# take as long as its request.
ANSWER_S: Final = 2.0
# How long a process that once answered may be silent, in seconds; then it is killed, and another is started.
HANG_S: Final = 60.0
# How often each process is checked, in seconds.
LOOK_S: Final = 0.5

log = structlog.get_logger(__name__)


class Shards:
    """``n_shards`` shards in ``n_replicas`` processes each, on the machines of a cluster.

    0 shards: one for each machine with processors; on GPUs, as many as there are GPUs for. Missing machines
    have ``join_s`` seconds to join. Shards live as long as this process, or until ``close``. Several threads
    may call them. Raises what ``connect`` raises; InputError if there are fewer GPUs than processes.
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
        hang_s: float = HANG_S,
        look_s: float = LOOK_S,
        join_s: float = JOIN_S,
    ) -> None:
        self._ray = connect(address)
        self._answer_s = answer_s
        self._hang_s = hang_s
        self._lock = RLock()  # reentrant, as garbage collection may call ``drop`` in a thread that holds it
        self.replicas = Replicas(
            self._ray,
            data,
            n_shards=n_shards,
            n_replicas=n_replicas,
            device=device,
            join_s=0.0 if address == LOCAL else join_s,
            lock=self._lock,
        )
        self.n_shards = len(self.replicas.of)
        self._turns = itertools.count()
        self._shard_by_segment: dict[str, int] = {}
        self._placements: dict[Generation, Placement] = {}
        self._watching = ExitStack()
        self._watched = False
        self._look_s = look_s

    def serve(self, manifest: Manifest) -> Generation:
        """Have the segments of a generation opened, each by one shard, until the generation is dropped.

        Raises ShardAwayError if some shard does not come up; what its opening raises.
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
        """Have a generation opened, and end the wait of other users; raises what ``serve`` raises."""
        try:
            self._open(generation, placement)
            self._watch()
        except BaseException as error:
            placement.end_opening(error)
            raise
        placement.end_opening()

    def _watch(self) -> None:
        """Begin to check all processes repeatedly, now that they have started."""
        with self._lock:
            watched, self._watched = self._watched, True
        for replica in () if watched else self.replicas:
            look = partial(self._look, replica)
            self._watching.enter_context(
                RepeatedTask(look, every_s=self._look_s, failure=SHARD_AWAY, at_once=False)
            )

    def drop(self, generation: Generation) -> None:
        """Remove one user of a generation; after the last one, the shards close it."""
        with self._lock:
            placement = self._placements[generation]
            placement.n_users -= 1
            if not placement.n_users:
                del self._placements[generation]

    def shard_by_segment(self, generation: Generation) -> Mapping[str, int]:
        """Return the shard of each segment of a served generation, by the segment's name."""
        return self._placements[generation].shard_by_segment

    def away(self, generation: Generation) -> frozenset[int]:
        """Return the shards without any process that can search a generation now."""
        return self.replicas.away(generation)

    def call(self, method: str, generation: Generation, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Call a method of each shard with its one of ``arguments``, all at once; return results by shard.

        If a process goes away, or fails unexpectedly, another one of the same shard is called. Raises
        ShardAwayError if none is left, InternalError if the second one fails too, DeadlineError, and what
        the method raises.
        """
        answers: dict[int, Any] = {}
        failed: dict[int, Replica] = {}
        while len(answers) < len(arguments):
            begun: dict[Any, Replica] = {}
            try:
                for shard in arguments.keys() - answers.keys():
                    replica = self._next(shard, generation, but=failed.get(shard))
                    ask = getattr(replica.actor, method).remote
                    begun[ask(generation, arguments[shard], remaining_s())] = replica
                for ref in ended(self._ray, begun, generation):
                    self._answer(ref, begun.pop(ref), answers, failed)
            finally:
                cancel(self._ray, begun)
        return answers

    def _answer(
        self, ref: Any, replica: Replica, answers: dict[int, Any], failed: dict[int, Replica]
    ) -> None:
        """Store the result of a call, or that its process is away or ``failed``; raises as ``call`` does."""
        try:
            answers[replica.shard] = result_of(self._ray, ref)
        except ShardAwayError:
            replica.lose()
        except InternalError:
            if replica.shard in failed:
                raise
            failed[replica.shard] = replica

    def degradations(self) -> list[Degradation]:
        """Return what is wrong with the generations that were opened; others are not served yet."""
        placements = list(self._placements.items())
        return self.replicas.degradations([name for name, each in placements if each.opening.done()])

    def close(self) -> None:
        """Stop checking the processes, and kill them."""
        self._watching.close()
        for replica in self.replicas:
            self._ray.kill(replica.actor)

    def _placed(self, manifest: Manifest) -> dict[str, int]:
        """Return a shard for each segment of one more generation; the caller holds the lock."""
        known = [self._shard_by_segment, *(each.shard_by_segment for each in self._placements.values())]
        self._shard_by_segment = assign_shards(manifest, known, n_shards=self.n_shards)
        return self._shard_by_segment

    def _open(self, generation: Generation, placement: Placement) -> None:
        """Open a generation in all processes; one of each shard must succeed, the others may follow later."""
        for each in self.replicas:  # it may have been served before, and not closed yet
            each.forget(generation)
        begun = {each.begin_opening(generation, placement.names(each.shard)): each for each in self.replicas}
        failures: dict[int, AkinError] = {}
        until = time.monotonic() + OPEN_S
        while (away := self.away(generation)) and away <= {each.shard for each in begun.values()}:
            check_deadline()
            done, _ = first_done(self._ray, list(begun), n=1, timeout_s=SLICE_S)
            if not done and time.monotonic() > until:
                break
            for ref in done:
                if error := self._opened(replica := begun.pop(ref), generation, ref):
                    failures[replica.shard] = error
        for shard in self.away(generation):
            raise failures.get(shard, ShardAwayError("A shard went away as it was opened."))
        if begun:  # those that hang follow when they are looked at
            done, _ = first_done(self._ray, list(begun), n=len(begun), timeout_s=self._answer_s)
            for ref in done:
                self._opened(begun[ref], generation, ref)

    def _next(self, shard: int, generation: Generation, *, but: Replica | None) -> Replica:
        """Return the process to call next, except ``but``; raises ShardAwayError, InternalError."""
        there = [each for each in self.replicas.of[shard] if generation in each.opened and each is not but]
        if not there and but is not None:
            raise InternalError("Something went wrong on our side, in a shard. The log has the details.")
        if not there:
            raise ShardAwayError(
                "A machine that holds a part of the collection does not respond; try again in a moment."
            )
        return there[next(self._turns) % len(there)]

    def _look(self, replica: Replica) -> None:
        """Find out where a process is and what it has opened, and have it open the other served generations.

        If it cannot open one generation, it still has the others.
        """
        actor = replica.actor
        try:
            opened, machine = (
                getattr(actor, name).options(concurrency_group=LOOKS).remote()
                for name in ("opened", "machine")
            )
            names = result_of(self._ray, opened, timeout_s=self._answer_s)
            replica.machine = result_of(self._ray, machine, timeout_s=self._answer_s)
            replica.heard_at = time.monotonic()
            with self._lock:  # a generation that is served again from now on is opened after it was closed
                served = dict(self._placements)
                there = names.keys() & served.keys()
                held = {each for each in there if names[each].issuperset(served[each].names(replica.shard))}
                held -= replica.opening.keys()  # the call may come after one that closes what is open now
                for generation in replica.opening.keys() - served.keys():
                    replica.opening.pop(generation, None)
                replica.note(added=held, gone=replica.opened - served.keys())
                for generation in names.keys() - served.keys():
                    actor.close.remote(generation)
        except ShardAwayError as error:
            replica.lose()
            if isinstance(error.__cause__, self._ray.exceptions.ActorDiedError):  # it will not restart
                self.replicas.restart_replica(replica)
            elif replica.is_silent(self._hang_s):  # the next look finds it dead
                log.warning("shard_killed", shard=replica.shard, silent_s=self._hang_s)
                self._ray.kill(replica.actor)
            raise
        try:
            self._open_also(replica, {each: served[each] for each in served.keys() - held})
        finally:
            self._spread(replica, served)
            self.replicas.warn_of_idle()

    def _open_also(self, replica: Replica, missing: Mapping[Generation, Placement]) -> None:
        """Have one process open more generations; raises the error of the last one that fails."""
        failure: AkinError | None = None
        for generation, placement in missing.items():
            ref = replica.begin_opening(generation, placement.names(replica.shard))
            done, _ = first_done(self._ray, [ref], n=1, timeout_s=self._answer_s)
            if done and (error := self._opened(replica, generation, ref)):  # or else the next look waits on
                replica.note(gone=[generation])
                failure = error
        if failure is not None:
            raise failure

    def _opened(self, replica: Replica, generation: Generation, ref: Any) -> AkinError | None:
        """Store that a process has opened a generation; return the error if it could not."""
        replica.opening.pop(generation, None)
        try:
            result_of(self._ray, ref)
        except AkinError as error:
            return error
        replica.note(added=[generation])
        return None

    def _spread(self, replica: Replica, served: Iterable[Generation]) -> None:
        """Move a process that shares its machine with a twin, if there is another machine by now.

        Another process of its shard answers meanwhile.
        """
        twins = [each for each in self.replicas.of[replica.shard] if each is not replica]
        if any(each.opened.issuperset(served) for each in twins) and (
            machine := self.replicas.better(replica)
        ):
            replica.lose()
            self.replicas.move(replica, machine)
