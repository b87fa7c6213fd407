"""Encoding on the machines of a cluster, with a Ray actor for each GPU, or else for each processor.

Each actor writes its parts into the data folder, which must have the same path on every machine. As on one
machine, finished parts are kept if a process is killed.
"""

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog

from indexer.cluster import ACTOR_CPUS, connect, machines, placement_strategy, start_failure
from indexer.encoding.arguments import expect_models
from indexer.encoding.parts import PARTS_PER_DEVICE, Part, encode_part, read_part
from indexer.snapshot.manifest import Manifest
from models.annotator import Annotator
from models.encoders.device_names import checked_device
from models.errors import AkinError, EncoderError, EncoderMismatchError, InputError, StorageError
from models.types import Paper

# How often a part is retried if its actor dies; Ray restarts the actor, on another machine if necessary.
_TRIES = 3
# Seconds that an actor of a lost machine has to start on another machine, including loading its models.
LOST_S = 120.0
# Seconds that an actor has to start, including loading its models: others may hold its GPU.
START_S = 300.0
# Seconds between two checks whether the machines are still there.
_POLL_S = 1.0
_PROBE_GROUP = "looks"  # calls that an actor answers while it encodes
_FOLDER_REMEDY = "mount the data folder on every machine of the cluster, under the same path"

log = structlog.get_logger(__name__)


class Encoder:
    """The actor that encodes on one GPU or processor."""

    def __init__(self, load: Callable[[], Annotator]) -> None:
        self._annotator = load()

    def pid(self) -> int:
        """Return the id of its process."""
        return os.getpid()

    def encode(self, into: Path, papers: Sequence[Paper], like: Manifest) -> Path:
        """Encode papers into a part under ``into``; return its folder.

        Raises EncoderError, StorageError; EncoderMismatchError if the models here are not those of ``like``.
        """
        if not into.parent.is_dir():
            raise StorageError(f"{into}: not found on a machine of the cluster; {_FOLDER_REMEDY}.")
        try:
            expect_models(like, self._annotator)
        except EncoderMismatchError as error:
            raise EncoderMismatchError(
                f"{socket.gethostname()}, a machine of the cluster, has other models than this one: copy the "
                "models there, under the same path, and install the same version of Akin."
            ) from error
        return encode_part(into, papers, self._annotator, like=like, on_progress=lambda n_papers: None).folder


@dataclass(slots=True, eq=False)
class _Worker:
    """An actor, the number of its unfinished parts, and whether it was given up.

    ``probe`` is a call that it has not answered yet, wherever it runs; ``silent_since`` is when it was first
    found not to answer, ``None`` if it answers. It ``has_started`` once it has answered.
    """

    actor: Any
    machine: str
    n_begun: int = 0
    is_lost: bool = False
    has_started: bool = False
    probe: Any = None
    silent_since: float | None = None


class EncodeOnCluster:
    """An encoder on the cluster at ``address``; ``load`` loads the models there, on the device it finds.

    ``device`` is the device of the build: ``cpu`` uses no GPU, ``cuda`` nothing else. ``per_gpu``
    actors share each GPU: one alone waits for its processor more than for the GPU. The actors end with the
    context. If the machine of an actor is lost and the actor does not start on another within ``lost_s``
    seconds, or if it does not start at all within ``start_s``, the others take over its parts.

    Raises what ``connect`` and ``machines`` raise, and InputError if ``cuda`` was named and no machine has a
    GPU.
    """

    def __init__(
        self,
        address: str,
        load: Callable[[], Annotator],
        *,
        device: str = "auto",
        per_gpu: int = 1,
        lost_s: float = LOST_S,
        start_s: float = START_S,
    ) -> None:
        self._lost_s, self._start_s = lost_s, start_s
        self._ray = connect(address)
        resources = {each["NodeID"]: each["Resources"] for each in self._ray.nodes()}
        found = machines(self._ray)
        gpus = [each for each in found for _ in range(per_gpu * int(resources[each].get("GPU", 0)))]
        own = gpus if checked_device(device) != "cpu" else []
        if device.startswith("cuda") and not own:
            raise InputError(
                f"Device {device!r} was requested, but Ray knows no GPU of a machine of the cluster; add one "
                "(`ray start --num-gpus=N`), or choose auto or cpu."
            )
        places = own or [each for each in found for _ in range(max(1, int(resources[each]["CPU"])))]
        kind = self._ray.remote(
            num_cpus=ACTOR_CPUS,
            num_gpus=1 / per_gpu if own else 0,
            max_restarts=-1,
            max_task_retries=_TRIES,
            concurrency_groups={_PROBE_GROUP: 1},
        )(Encoder)
        self._workers = [
            _Worker(
                kind.options(scheduling_strategy=placement_strategy(self._ray, machine)).remote(load), machine
            )
            for machine in places
        ]
        self.at_once = PARTS_PER_DEVICE * len(self._workers)

    @property
    def actors(self) -> list[Any]:
        """The Ray actors that encode."""
        return [each.actor for each in self._workers]

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Begin a part on the actor with the fewest; waiting for it raises EncoderError, StorageError."""
        given = (into.absolute(), papers, like)
        begun = self._begin(given)

        def part() -> Part:
            folder = self._folder(given, *begun)
            on_progress(len(papers))
            made = read_part(into / folder.name)
            if made is None:
                raise StorageError(
                    f"{into}: the files that the cluster encoded are not here; {_FOLDER_REMEDY}."
                )
            return made

        return part

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all actors."""
        for actor in self.actors:
            self._ray.kill(actor)

    def _begin(self, given: tuple[object, ...]) -> tuple[_Worker, Any]:
        worker = min(self._workers, key=lambda each: each.n_begun)
        worker.n_begun += 1
        return worker, worker.actor.encode.remote(*given)

    def _folder(self, given: tuple[object, ...], worker: _Worker, ref: Any) -> Path:
        """Wait for a part begun on an actor and return its folder; if the actor is lost, use another one."""
        errors = self._ray.exceptions
        try:
            while not self._ray.wait([ref], timeout=_POLL_S)[0] or worker.is_lost:
                if worker.is_lost or self._lost(worker):
                    worker, ref = self._begin(given)
            worker.n_begun -= 1
            folder: Path = self._ray.get(ref)
        except errors.RayTaskError as error:
            if isinstance(error.cause, AkinError):
                raise error.cause from error
            raise EncoderError(f"Encoding on the cluster failed: {error.cause!r}") from error
        except errors.RayError as error:
            if reason := start_failure(self._ray, error):
                raise EncoderError(
                    f"The models cannot be loaded on a machine of the cluster ({reason}); models must be at "
                    "the same path on every machine, and Akin installed."
                ) from error
            raise EncoderError(
                f"The cluster failed to encode ({type(error).__name__}); run the same command again to "
                "resume."
            ) from error
        return folder

    def _lost(self, worker: _Worker) -> bool:
        """Give up an actor that does not start, or whose machine is lost; return whether it was given up.

        Raises EncoderError if no actor is left.
        """
        is_there = worker.machine in {each["NodeID"] for each in self._ray.nodes() if each["Alive"]}
        if worker.has_started and is_there:
            return False
        if self._answers(worker):
            worker.has_started, worker.silent_since = True, None
            return False
        worker.silent_since = worker.silent_since or time.monotonic()
        if time.monotonic() - worker.silent_since < (self._start_s if is_there else self._lost_s):
            return False
        worker.is_lost = True
        self._workers.remove(worker)
        self._ray.kill(worker.actor)
        event = "encoder_lost" if worker.has_started else "encoder_not_started"
        log.warning(event, machine=worker.machine, n_left=len(self._workers))
        if not self._workers:
            raise EncoderError(
                "No process of the cluster encodes: their machines are lost, or others hold all GPUs or "
                "processors. Free some, add a machine, or choose another --device; then run the same command "
                "again to resume."
            )
        return True

    def _answers(self, worker: _Worker) -> bool:
        """Return whether the actor has answered the open call; make a call if none is open."""
        if worker.probe is None:
            worker.probe = worker.actor.pid.options(concurrency_group=_PROBE_GROUP).remote()
        if not self._ray.wait([worker.probe], timeout=0)[0]:
            return False
        probe, worker.probe = worker.probe, None
        try:
            self._ray.get(probe)
        except self._ray.exceptions.RayError:
            return False
        return True
