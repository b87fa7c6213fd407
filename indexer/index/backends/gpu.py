"""GPUs for FAISS: placement of indexes, free memory, and the handling of full memory.

All GPU functions of FAISS are called here. FAISS's resources of a GPU (streams, temporary memory) serve one
call at a time, for any number of indexes: this process has one ``Gpu`` per GPU.
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
from models.errors import DeviceError, DeviceFullError

# The most rows that FAISS's GPU indexes select, and the most lists that they probe.
MAX_SELECTED = 2048
# Memory that indexes leave free: FAISS takes up to 1.5 GiB for temporary memory, encoders and searches more.
_RESERVED_BYTES = 3 * 2**30
_GIB = 2**30
_FREE_BYTES = "models.encoders.devices:free_bytes"  # by name, because it imports torch
# Parts of FAISS's error messages when the memory of a GPU is full; the last one with cuVS, whose allocator
# may also raise std::bad_alloc, in Python a MemoryError.
_FULL = ("out of memory", "alloc fail", "memory allocation error")

# Indexes of each GPU to free at its next call: freeing is a call too, but garbage is collected at any time.
_to_free: defaultdict[int, deque[Any]] = defaultdict(deque)

_making = threading.Lock()
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """One GPU: its number, the resources that FAISS's indexes on it share, and the lock for each call."""

    number: int
    resources: Any
    lock: threading.Lock

    @contextmanager
    def used(self) -> Iterator[None]:
        """Hold the GPU for one call of FAISS; raises DeviceFullError if its memory does not suffice."""
        with self.lock:
            self._free_collected()
            try:
                yield
            except (RuntimeError, MemoryError) as error:
                if isinstance(error, MemoryError) or any(words in str(error) for words in _FULL):
                    raise DeviceFullError(
                        f"The memory of device cuda:{self.number} is full; free some, or choose device cpu"
                    ) from error
                raise

    def free_with(self, owner: object, index: Any) -> None:
        """Have ``index`` freed at a later call of this GPU, after ``owner`` is garbage-collected.

        Garbage may be collected in any thread, in the middle of a call, so no lock is taken then.
        """
        weakref.finalize(owner, _to_free[self.number].append, index).atexit = False

    def _free_collected(self) -> None:
        dead = _to_free[self.number]
        while dead:
            dead.pop()

    def flat(self, dim: int) -> Any:
        """Return an empty index that compares every row, in float32 even for float16 rows.

        With half-precision products, its rounding would have no useful bound.
        """
        config = faiss.GpuIndexFlatConfig()
        config.device = self.number
        with self.used():
            return faiss.GpuIndexFlatL2(self.resources, dim, config)

    def scalar_lists(self, index: Any) -> Any:
        """Return a copy of an IndexIVFScalarQuantizer of the CPU on this GPU."""
        config = faiss.GpuIndexIVFScalarQuantizerConfig()
        config.device = self.number
        with self.used():
            copied = faiss.GpuIndexIVFScalarQuantizer(self.resources, index, config)
        # Else the copy would keep the CPU index alive, which takes as much memory.
        copied.referenced_objects = []
        return copied

    def search(
        self, index: Any, queries: Float32[np.ndarray, "n_query dim"], n: int, *, parameters: Any = None
    ) -> tuple[Float32[np.ndarray, "n_query n"], Int64[np.ndarray, "n_query n"]]:
        """Return squared distances and row numbers of the ``n`` nearest rows in ``index``, on this GPU.

        If the memory does not suffice, the queries are halved. Raises DeviceFullError if it does not suffice
        for one query.
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
    """Raise InputError for an unknown name, DeviceError for a GPU that this FAISS does not reach."""
    if gpu_number(device) is None and not device.startswith("cuda"):
        return
    n_gpus = _gpu_count()
    if n_gpus == 0:
        raise DeviceError("FAISS finds no GPU; install faiss-gpu in place of faiss-cpu, or choose device cpu")
    if (gpu_number(device) or 0) >= n_gpus:
        raise DeviceError(f"Device {device!r} for an index; FAISS finds {n_gpus}, from cuda:0 on")


def gpu_with_room(device: str, n_bytes: int) -> Gpu | None:
    """Return the GPU with the most free memory that ``device`` allows; ``None`` if ``n_bytes`` fit on none.

    Also ``None`` if there is no GPU: for work that a GPU does faster but a CPU can do too.
    """
    free = {number: _free_bytes(number) for number in _reachable(device)}
    best = max(free, key=lambda number: free[number], default=None)
    return None if best is None or free[best] < n_bytes + _RESERVED_BYTES else gpu_at(best)


def gpu_for(device: str, n_bytes: int) -> Gpu | None:
    """Return the GPU for an index of ``n_bytes``; ``None`` for the CPU, also if ``auto`` finds no room.

    Raises DeviceError if ``device`` names a GPU that does not exist, DeviceFullError if its memory does not
    suffice.
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
    """Return the free memory of a GPU; infinite if unknown: then FAISS raises an error when it is full."""
    if _to_free[number]:
        with gpu_at(number).used():  # frees the dead indexes
            pass
    free: int | None = pkgutil.resolve_name(_FREE_BYTES)(number)
    return np.inf if free is None else free


def _gpu_count() -> int:
    """Return how many GPUs the installed FAISS reaches; none with the package faiss-cpu."""
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


def _reachable(device: str) -> list[int]:
    """Return the GPUs that ``device`` allows and the installed FAISS reaches."""
    number = gpu_number(device)
    numbers = [] if checked_device(device) == "cpu" else range(_gpu_count())
    return [own for own in numbers if number is None or number == own]


def gpu_at(number: int) -> Gpu:
    """Return the GPU with this number, with the resources that its indexes share."""
    with _making:  # else threads that open their first index at once make several
        return _made(number)


@cache
def _made(number: int) -> Gpu:
    return Gpu(number, faiss.StandardGpuResources(), threading.Lock())
