"""GPUs for FAISS: placement of an index, free memory, and what to do when it is full.

Everything that FAISS has for GPUs alone is called here. Its resources of a GPU (streams, temporary memory)
serve one call at a time, and any number of indexes: this process has one ``Gpu`` for each.
"""

import pkgutil
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import faiss
import numpy as np
import structlog
from jaxtyping import Float32, Int64

from models.encoders.device_names import checked_device, gpu_number
from models.errors import DeviceFullError, InputError

# Rows that FAISS's GPU indexes select, and lists that they probe, at most.
MOST_SELECTED = 2048
# What an index leaves free: FAISS takes up to 1.5 GiB for temporary memory, encoders and searches need some.
_RESERVED_BYTES = 3 * 2**30
_GIB = 2**30
_FREE_BYTES = "models.encoders.devices:free_bytes"  # by name: it brings torch along
# What FAISS says when the memory of a GPU is full.
_FULL = ("out of memory", "alloc fail")

# What is to be freed of each GPU, at the next call of it: freeing is a call too, and may come at any time.
_dead: defaultdict[int, deque[Any]] = defaultdict(deque)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """One GPU: its number, what all of FAISS's indexes on it share, and the lock that each call holds."""

    number: int
    resources: Any
    lock: threading.Lock

    @contextmanager
    def used(self) -> Iterator[None]:
        """For one call of FAISS; raises DeviceFullError where the memory does not suffice."""
        with self.lock:
            self._free_the_dead()
            try:
                yield
            except RuntimeError as error:
                if any(words in str(error) for words in _FULL):
                    raise DeviceFullError(
                        f"The memory of device cuda:{self.number} is full; free some, or choose device cpu"
                    ) from error
                raise

    def free_with(self, owner: object, index: Any) -> None:
        """Have ``index`` freed as one call of this GPU, some time after ``owner`` is gone.

        Whoever collects garbage may be in any thread, and in the middle of a call: it takes no lock.
        """
        weakref.finalize(owner, _dead[self.number].append, index).atexit = False

    def _free_the_dead(self) -> None:
        dead = _dead[self.number]
        while dead:
            dead.pop()

    def flat(self, dim: int) -> Any:
        """An empty index that compares every row, float32 even for float16 rows.

        With half-precision products its rounding would have no useful bound.
        """
        config = faiss.GpuIndexFlatConfig()
        config.device = self.number
        with self.used():
            return faiss.GpuIndexFlatL2(self.resources, dim, config)

    def scalar_lists(self, index: Any) -> Any:
        """A copy of a CPU's IndexIVFScalarQuantizer."""
        config = faiss.GpuIndexIVFScalarQuantizerConfig()
        config.device = self.number
        with self.used():
            copied = faiss.GpuIndexIVFScalarQuantizer(self.resources, index, config)
        # It would keep the CPU's, which holds as much memory.
        copied.referenced_objects = []
        return copied

    def search(
        self, index: Any, queries: Float32[np.ndarray, "n_query dim"], n: int, *, parameters: Any = None
    ) -> tuple[Float32[np.ndarray, "n_query n"], Int64[np.ndarray, "n_query n"]]:
        """Squared distances and row numbers of the ``n`` nearest rows in ``index``, which is on this GPU.

        Where the memory does not suffice, half of the queries at a time. Raises DeviceFullError.
        """
        try:
            with self.used():
                found: tuple[np.ndarray, np.ndarray] = index.search(queries, n, params=parameters)
                return found
        except DeviceFullError:
            if len(queries) == 1:
                raise
        middle = len(queries) // 2
        halves = [
            self.search(index, part, n, parameters=parameters)
            for part in (queries[:middle], queries[middle:])
        ]
        return np.concatenate([half[0] for half in halves]), np.concatenate([half[1] for half in halves])


def check_gpu(device: str) -> None:
    """Raise InputError if ``device`` is no device's name, or names a GPU that this FAISS does not reach."""
    if gpu_number(device) is None and not device.startswith("cuda"):
        return
    n_gpus = _gpu_count()
    if n_gpus == 0:
        raise InputError("FAISS finds no GPU; install faiss-gpu in place of faiss-cpu, or choose device cpu")
    if (gpu_number(device) or 0) >= n_gpus:
        raise InputError(f"Device {device!r} for an index; FAISS finds {n_gpus}, from cuda:0 on")


def gpu_with_room(device: str, n_bytes: int) -> Gpu | None:
    """The GPU with the most room of those that ``device`` allows; ``None`` if ``n_bytes`` fit nowhere.

    As where there is none at all: for what a GPU does sooner, and a CPU as well.
    """
    free = {number: _free_bytes(number) for number in _reachable(device)}
    best = max(free, key=lambda number: free[number], default=None)
    return None if best is None or free[best] < n_bytes + _RESERVED_BYTES else gpu_at(best)


def gpu_for(device: str, n_bytes: int) -> Gpu | None:
    """Where an index of ``n_bytes`` goes: ``None`` is the CPU, as where ``auto`` finds no GPU with room.

    Raises InputError if ``device`` names a GPU that is not there, DeviceFullError if it has not the room.
    """
    check_gpu(device)
    found, numbers = gpu_with_room(device, n_bytes), _reachable(device)
    if found is not None or not numbers:
        return found
    most = max(_free_bytes(number) for number in numbers)
    if device != "auto":
        raise DeviceFullError(
            f"An index on device {device!r} needs {n_bytes / _GIB:.1f} GiB, and "
            f"{_RESERVED_BYTES / _GIB:.0f} for working memory; {most / _GIB:.1f} are free. Free some, "
            "choose device cpu, or auto, which takes the "
            "CPU where no GPU has the room, or index with backend ivfsq: it needs a quarter of flat's memory"
        )
    log.warning("index_stays_on_cpu", needed_bytes=n_bytes, free_bytes=most)
    return None


def _free_bytes(number: int) -> float:
    """Infinite where it cannot be told: FAISS then says when the memory is full."""
    if _dead[number]:
        with gpu_at(number).used():  # which frees them
            pass
    free: int | None = pkgutil.resolve_name(_FREE_BYTES)(number)
    return np.inf if free is None else free


def _gpu_count() -> int:
    """How many GPUs the installed FAISS reaches; none where it is the package faiss-cpu."""
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


def _reachable(device: str) -> list[int]:
    """The GPUs that ``device`` allows, of those that the installed FAISS reaches."""
    number = gpu_number(device)
    numbers = [] if checked_device(device) == "cpu" else range(_gpu_count())
    return [own for own in numbers if number is None or number == own]


@cache
def gpu_at(number: int) -> Gpu:
    """That GPU, with the resources that all of its indexes share."""
    return Gpu(number, faiss.StandardGpuResources(), threading.Lock())
