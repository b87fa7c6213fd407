"""A fake Ray cluster: its processes are plain objects, and its calls run in threads of this process."""

from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

from models.errors import AkinError, SnapshotMissingError
from service.cluster.shard import Generation
from service.cluster.shards import Shards


class RayError(Exception):
    """The base class of Ray's errors."""


class GetTimeoutError(RayError, TimeoutError):
    """A call that has not ended in time."""


class ActorDiedError(RayError):
    """A call of an actor that was killed, or that could not start."""

    actor_init_failed = False


class TaskError(RayError):
    """An exception raised by a method of an actor."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class PretendedShard:
    """A fake shard that opens a generation once ``may_open`` is set, or fails with ``failure``.

    It says what it has opened once ``may_answer`` is set.
    """

    def __init__(self, device: str, on: str) -> None:
        self.device = device
        self.held: list[Generation] = []
        self.names: dict[Generation, frozenset[str]] = {}
        self.may_open = Event()
        self.may_open.set()
        self.may_answer = Event()
        self.may_answer.set()
        self.is_killed = False
        self.n_opening = 0
        self.failure: AkinError | None = None
        self.on = on
        self.left_s: list[float | None] = []
        # The function that its searches return the result of; it receives the request.
        self.answer: Callable[[Any], object] = lambda request: request

    def open(self, generation: Generation, names: Sequence[str]) -> None:
        """Open a generation like ``Shard.open``."""
        self.n_opening += 1
        assert self.may_open.wait(20)
        if self.failure is not None:
            raise self.failure
        self.names[generation] = self.names.get(generation, frozenset()).union(names)
        if generation not in self.held:
            self.held.append(generation)

    def opened(self) -> dict[Generation, frozenset[str]]:
        """Return the open generations with the names of their segments like ``Shard.opened``."""
        assert self.may_answer.wait(20)
        return {generation: self.names[generation] for generation in self.held}

    def machine(self) -> str:
        """Return the machine like ``Shard.machine``."""
        return self.on

    def search(self, generation: Generation, request: Any, left_s: float | None) -> object:
        """Return ``answer`` of the request instead of ``Shard.search``; by default the request itself."""
        self.left_s.append(left_s)
        if generation not in self.held:
            raise SnapshotMissingError("not open")
        return self.answer(request)

    def close(self, generation: Generation) -> None:
        """Close a generation like ``Shard.close``."""
        self.held.remove(generation)
        del self.names[generation]


@dataclass
class Method:
    """A method of an actor."""

    shard: PretendedShard
    name: str
    threads: ThreadPoolExecutor
    groups: list[str]

    def remote(self, *given: Any) -> "Future[Any]":
        """Start the call in a thread."""
        return self.threads.submit(self._run, *given)

    def _run(self, *given: Any) -> Any:
        if self.shard.is_killed:
            raise ActorDiedError
        return getattr(self.shard, self.name)(*given)

    def options(self, *, concurrency_group: str) -> "Method":
        """Record the concurrency group of the call."""
        self.groups.append(concurrency_group)
        return self


class PretendedRay:
    """The part of Ray's interface that ``Shards`` uses, in threads."""

    exceptions = SimpleNamespace(
        RayTaskError=TaskError,
        RayError=RayError,
        ActorDiedError=ActorDiedError,
        GetTimeoutError=GetTimeoutError,
    )

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.threads = threads
        self.shards: list[PretendedShard] = []
        self.options: dict[str, Any] = {}
        self.machines = {name: {"CPU": 1.0} for name in "ab"}
        self.cancelled: list[Future[Any]] = []
        self.groups: list[str] = []
        self.killed: list[object] = []

    def nodes(self) -> list[dict[str, Any]]:
        """Return the machines, by default two."""
        return [{"NodeID": name, "Alive": True, "Resources": own} for name, own in self.machines.items()]

    def remote(self, **options: Any) -> Callable[[type], Any]:
        """Return a function that makes fake actors instead of those of a class."""
        self.options = options

        def made(on: str, device: str) -> Any:
            shard = PretendedShard(device, on)
            self.shards.append(shard)
            names = ("open", "opened", "machine", "search", "close")
            methods = {name: Method(shard, name, self.threads, self.groups) for name in names}
            return SimpleNamespace(**methods)

        def kind(*, scheduling_strategy: str) -> Any:
            return SimpleNamespace(remote=lambda _, *, device="": made(scheduling_strategy, device))

        return lambda _: SimpleNamespace(options=kind)

    def get(self, ref: "Future[Any]", *, timeout: float) -> Any:
        """Return the result of a call, or raise its error, like Ray."""
        try:
            return ref.result(timeout or None)
        except TimeoutError as error:
            raise GetTimeoutError from error
        except RayError:
            raise
        except Exception as error:
            raise TaskError(error) from error

    def wait(
        self, refs: "list[Future[Any]]", *, num_returns: int, timeout: float
    ) -> "tuple[list[Future[Any]], list[Future[Any]]]":
        """Wait for ``refs`` like Ray; ``num_returns`` must be one or all of them."""
        assert num_returns in {1, len(refs)}
        until = FIRST_COMPLETED if num_returns < len(refs) else ALL_COMPLETED
        done = wait(refs, timeout=timeout, return_when=until).done
        return [ref for ref in refs if ref in done], [ref for ref in refs if ref not in done]

    def cancel(self, ref: "Future[Any]") -> None:
        """Record a cancelled call, which continues to run."""
        self.cancelled.append(ref)

    def kill(self, actor: Any) -> None:
        """Record a killed actor, whose calls fail from now on."""
        actor.open.shard.is_killed = True
        self.killed.append(actor)


def shards_of(tmp_path: Path, **given: Any) -> Shards:
    """Return shards, by default one for each machine, which are only checked when a test does so."""
    return Shards("", tmp_path, **{"look_s": 1e6, "join_s": 0.0, **given})
