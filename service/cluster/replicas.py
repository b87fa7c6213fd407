"""The processes of shards: started on the machines of a cluster, restarted, and moved."""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from indexer.cluster import ACTOR_CPUS, placement_strategy
from service.cluster.cluster_machines import ClusterMachines
from service.cluster.degraded import COLOCATED, PROCESS_AWAY, SHARD_AWAY
from service.cluster.shard import Generation, Shard
from service.degradation import Degradation

# Calls that one process works on at once: more than a service lets compute.
_AT_ONCE: Final = 64
# How long a process may take to open a generation, in seconds: it reads the indexes.
OPEN_S: Final = 600.0
LOOKS: Final = "looks"  # calls that a process answers even while it works on all of those

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Opening:
    """A call that opens a generation, and when it must have ended."""

    ref: Any
    until: float


@dataclass(slots=True, eq=False)
class Replica:
    """One process that holds a shard, the machine it is on, and the generations that it can search.

    ``opening`` has the calls that open more of them; ``heard_at`` is when it last said that it is there,
    ``None`` if it never did. ``lock`` is reentrant.
    """

    shard: int
    machine: str
    actor: Any
    lock: AbstractContextManager[bool]
    opened: frozenset[Generation] = field(default_factory=frozenset)
    opening: dict[Generation, Opening] = field(default_factory=dict)
    heard_at: float | None = None

    def begin_opening(self, generation: Generation, names: Sequence[str]) -> Any:
        """Return the call that opens a generation: the one that was begun, or else another."""
        opening = self.opening  # read before ``actor``, which ``become`` sets before it
        if generation not in opening:
            ref = self.actor.open.remote(generation, names)
            opening[generation] = Opening(ref, time.monotonic() + OPEN_S)
        return opening[generation].ref

    def note(self, *, added: Iterable[Generation] = (), gone: Iterable[Generation] = ()) -> None:
        """Add and remove generations that it can search, and keep those that other threads add meanwhile."""
        with self.lock:
            self.opened = self.opened.difference(gone).union(added)

    def forget(self, generation: Generation) -> None:
        """Store that it cannot search a generation, which it is to open anew, with other segments perhaps."""
        self.note(gone=[generation])
        self.opening.pop(generation, None)

    def lose(self) -> None:
        """Store that the process does not answer: it can search nothing, and what it was opening is lost."""
        self.note(gone=self.opened)
        self.opening = {}

    def become(self, machine: str, actor: Any) -> None:
        """Replace the process by another one."""
        self.machine, self.actor = machine, actor
        self.opening, self.heard_at = {}, None

    def lacks(self, generation: Generation) -> bool:
        """Return whether the process cannot search a generation; it may be opening it next to others."""
        if generation in self.opened:
            return False
        opening = self.opening.get(generation)
        return not self.opened or opening is None or time.monotonic() > opening.until

    def is_silent(self, for_s: float) -> bool:
        """Return whether the process answered once, but not in the last ``for_s`` seconds."""
        return self.heard_at is not None and time.monotonic() - self.heard_at > for_s


class Replicas:
    """``n_shards`` shards in ``n_replicas`` processes each, by shard; 0 shards: as many as there is room for.

    If the device is a GPU, each process has its own GPU.
    """

    def __init__(
        self,
        ray: Any,
        data: Path,
        *,
        n_shards: int,
        n_replicas: int,
        device: str,
        join_s: float,
        lock: AbstractContextManager[bool],
    ) -> None:
        self._ray = ray
        self._on_gpu = device.startswith("cuda")
        # Restarted as often as it dies, on another machine if its own is gone.
        self._kind = ray.remote(
            num_cpus=ACTOR_CPUS,
            num_gpus=1 if self._on_gpu else 0,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_AT_ONCE,
            concurrency_groups={LOOKS: 1},
        )(Shard)
        # Ray shows a process only its own GPU, as number 0.
        self._given = (data.absolute(), "cuda" if self._on_gpu else "cpu")
        places = ClusterMachines.expected(
            ray, n_shards=n_shards, n_replicas=n_replicas, on_gpu=self._on_gpu, join_s=join_s
        )
        self._is_planned = n_shards > 0
        self._idle: set[str] = set()  # machines that were logged
        n_shards = n_shards or (places.n_places // n_replicas if self._on_gpu else places.n_places)
        self.of: list[list[Replica]] = [[] for _ in range(n_shards)]
        for shard, twins in enumerate(self.of):
            for _ in range(n_replicas):
                machine = self._best(places, shard) or places.machines[0]
                twins.append(Replica(shard, machine, self._begun(machine), lock))

    def __iter__(self) -> Iterator[Replica]:
        return itertools.chain.from_iterable(self.of)

    @property
    def together(self) -> bool:
        """Whether two processes of a shard are on one machine."""
        on = [[each.machine for each in twins] for twins in self.of]
        return any(len(set(each)) < len(each) for each in on)

    def away(self, generation: Generation) -> frozenset[int]:
        """Return the shards without any process that can search a generation now."""
        return frozenset(
            shard
            for shard, twins in enumerate(self.of)
            if not any(generation in each.opened for each in twins)
        )

    def degradations(self, served: Sequence[Generation]) -> list[Degradation]:
        """Return what is wrong: a shard or a process lacks a generation, or twins share a machine."""
        degradations = []
        if any(self.away(each) for each in served):
            degradations.append(SHARD_AWAY)
        elif any(replica.lacks(each) for replica in self for each in served):
            degradations.append(PROCESS_AWAY)
        return degradations + [COLOCATED] * self.together

    def restart_replica(self, replica: Replica) -> None:
        """Start another process instead of one that has died; raises InputError if no machine is left."""
        machine = self._best(self._places(), replica.shard, but=replica) or replica.machine
        replica.become(machine, self._begun(machine))

    def better(self, replica: Replica) -> str | None:
        """Return a better machine for a process that shares its machine with a twin, or ``None`` to stay.

        The first of the processes that share a machine stays.
        """
        twins = self.of[replica.shard]
        on = [each.machine for each in twins]
        if on.index(replica.machine) == twins.index(replica):
            return None
        best = self._best(self._places(), replica.shard, but=replica)
        return None if best in on else best

    def move(self, replica: Replica, machine: str) -> None:
        """Kill a process, and start another on ``machine``."""
        self._ray.kill(replica.actor)
        replica.become(machine, self._begun(machine))

    def warn_of_idle(self) -> None:
        """Log the machines that joined too late to hold a shard, although one is needed, once each.

        They are needed unless ``n_shards`` was given and each process has its own machine. One of two
        processes of a shard on one machine moves to them.
        """
        used = {each.machine for each in self}
        if self.together or (self._is_planned and len(used) == sum(1 for _ in self)):
            return
        idle = set(self._places().machines) - used - self._idle
        self._idle |= idle
        if idle:
            log.warning(
                "machine_without_shard",
                machines=sorted(idle),
                n_shards=len(self.of),
                remedy="restart the service"
                if self._is_planned
                else "set AKIN_SHARDS to the number of machines, and restart the service",
            )

    def _places(self) -> ClusterMachines:
        return ClusterMachines.of(self._ray, on_gpu=self._on_gpu)

    def _best(self, places: ClusterMachines, shard: int, *, but: Replica | None = None) -> str | None:
        """Return the machine for one more process of a shard, or for one instead of ``but``."""
        twins = [each.machine for each in self.of[shard] if each is not but]
        return places.best(twins, [each.machine for each in self if each is not but])

    def _begun(self, machine: str) -> Any:
        data, device = self._given
        return self._kind.options(scheduling_strategy=placement_strategy(self._ray, machine)).remote(
            data, device=device
        )
