"""The machines of a cluster for the processes of shards, and how many processes each has room for."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from indexer.cluster import machines
from models.errors import InputError

# How long to wait for machines to join, in seconds: they are often started together with the service.
JOIN_S: Final = 30.0
_POLL_S: Final = 0.5

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterMachines:
    """The machines that can have shards; ``n_gpus`` is the GPUs of each, ``None`` if shards use no GPU."""

    machines: Sequence[str]
    n_gpus: Mapping[str, int] | None

    @classmethod
    def of(cls, ray: Any, *, on_gpu: bool) -> "ClusterMachines":
        """Return the current places of a cluster; raises InputError if no machine has a processor."""
        found = machines(ray)
        if not on_gpu:
            return cls(found, None)
        n_gpus = {each["NodeID"]: int(each["Resources"].get("GPU", 0)) for each in ray.nodes()}
        having = [each for each in found if n_gpus[each]]
        return cls(having, {each: n_gpus[each] for each in having})

    @classmethod
    def expected(
        cls, ray: Any, *, n_shards: int, n_replicas: int, on_gpu: bool, join_s: float
    ) -> "ClusterMachines":
        """Return the places of a cluster as soon as there are enough, or after ``join_s`` seconds.

        Enough is as many machines as shards, and as replicas of a shard; on GPUs, one GPU for each process.
        Raises InputError if there are too few GPUs in the end.
        """
        wanted = max(1, n_shards) * n_replicas if on_gpu else max(n_shards, n_replicas)
        until = time.monotonic() + join_s
        while True:
            is_over = time.monotonic() >= until
            try:
                places = cls.of(ray, on_gpu=on_gpu)
            except InputError:
                if is_over:
                    raise
            else:
                if is_over or places.n_places >= wanted:
                    break
            time.sleep(_POLL_S)
        if on_gpu and places.n_places < wanted:
            raise InputError(
                f"Each process of a shard needs a GPU (AKIN_SHARDS x AKIN_REPLICAS), {wanted} in all; the "
                f"cluster has {places.n_places}. Add machines with GPUs, set fewer, or choose device cpu."
            )
        if places.n_places < wanted:
            log.warning("too_few_machines", n_machines=places.n_places, n_wanted=wanted)
        return places

    @property
    def n_places(self) -> int:
        """The number of GPUs, or of machines if shards use no GPU."""
        return len(self.machines) if self.n_gpus is None else sum(self.n_gpus.values())

    def best(self, twins: Iterable[str], taken: Iterable[str]) -> str | None:
        """Return the machine for one more process of a shard: one without its ``twins``, then the emptiest.

        ``twins`` are the machines of the other processes of the shard, ``taken`` those of all processes; a
        machine is listed once per process. Returns ``None`` if all GPUs are taken.
        """
        beside, used = Counter(twins), Counter(taken)
        room = {
            each: (0 if self.n_gpus is None else self.n_gpus[each]) - used[each] for each in self.machines
        }
        fit = [each for each in self.machines if self.n_gpus is None or room[each] > 0]
        return min(fit, key=lambda each: (beside[each], -room[each]), default=None)
