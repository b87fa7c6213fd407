"""A fake of faiss-gpu with its names and limits, on the indexes of faiss-cpu.

It refuses what a GPU refuses: selectors, more than 2,048 rows or lists, a missing device, two simultaneous
calls with the resources of one device, and more bytes than a device has.
tests/trials/test_gpus.py checks that the real package has the same names and arguments.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np

GIB = 2**30
# What FAISS raises when memory is full: of its own allocator, and with cuVS of RAPIDS' (std::bad_alloc).
FULL = (
    RuntimeError(
        "StandardGpuResources: alloc fail type FlatData dev 0: (cudaMalloc error out of memory [2])"
    ),
    RuntimeError("Error in StandardGpuResources.cpp: CUDA memory allocation error"),
    MemoryError("std::bad_alloc"),
)


class FaissOnGpus:
    """The module: everything in faiss-cpu, and the additional names of faiss-gpu."""

    def __init__(self, memory: list[int], temporary: int = GIB) -> None:
        self.memory, self.temporary = memory, temporary
        self.taken = [0] * len(memory)
        self.resources: list[StandardGpuResources] = []
        self.calls: list[tuple[int, int]] = []  # device, queries
        self.added: list[int] = []  # rows of each call that adds to a flat index
        self.full: Exception = FULL[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(faiss, name)

    def get_num_gpus(self) -> int:
        """Return the number of devices."""
        return len(self.memory)

    def free(self, number: int) -> int:
        """Return the free bytes of a device, as torch does."""
        return self.memory[number] - self.taken[number]

    def take(self, number: int, n_bytes: int) -> None:
        """Take memory of a device for good; raises FAISS's error if there is too little."""
        if self.free(number) < n_bytes:
            raise type(self.full)(*self.full.args)
        self.taken[number] += n_bytes

    def StandardGpuResources(self) -> "StandardGpuResources":  # noqa: N802 - FAISS's name
        """Return new resources, which are also kept for the tests to count."""
        self.resources.append(StandardGpuResources(self))
        return self.resources[-1]

    GpuIndexFlatConfig = type("GpuIndexFlatConfig", (), {"__slots__": ("device",)})
    GpuIndexIVFScalarQuantizerConfig = type(
        "GpuIndexIVFScalarQuantizerConfig", (), {"__slots__": ("device",)}
    )

    def GpuIndexFlatL2(self, resources: "StandardGpuResources", dim: int, config: Any) -> "GpuIndexFlatL2":  # noqa: N802
        """Return an empty index."""
        return GpuIndexFlatL2(resources, dim, config)

    def GpuIndexIVFScalarQuantizer(  # noqa: N802
        self, resources: "StandardGpuResources", index: Any, config: Any
    ) -> "GpuIndexIVFScalarQuantizer":
        """Return a copy of ``index``."""
        return GpuIndexIVFScalarQuantizer(resources, index, config)


class StandardGpuResources:
    """The temporary memory of a device; a second call during another one is a bug in our code."""

    def __init__(self, module: FaissOnGpus) -> None:
        self.module = module
        self._busy = threading.Lock()

    @contextmanager
    def call(self, device: int, n_queries: int, n_bytes: int) -> Iterator[None]:
        """Run a call of FAISS, which records ``n_queries`` and needs ``n_bytes`` of temporary memory."""
        assert self._busy.acquire(blocking=False), "two calls at once"
        try:
            if n_bytes > self.module.temporary:
                raise type(self.module.full)(*self.module.full.args)
            self.module.calls.append((device, n_queries))
            yield
        finally:
            self._busy.release()


class GpuIndexFlatL2(faiss.IndexFlatL2):
    """A CPU index, because FAISS's k-means and lists accept no other; searched within a GPU's limits."""

    resources: Any = None  # FAISS's indexes refuse attributes that are not in their class
    device = 0

    def __init__(self, resources: StandardGpuResources, dim: int, config: Any) -> None:
        assert config.device < resources.module.get_num_gpus()
        super().__init__(dim)
        self.resources, self.device = resources, config.device

    def add(self, rows: np.ndarray) -> None:
        """Add rows, which take memory of the device."""
        self.resources.module.added.append(len(rows))
        self.resources.module.take(self.device, rows.nbytes)
        super().add(rows)

    def search(self, queries: np.ndarray, k: int, *, params: Any = None) -> Any:
        """Search within the limits of a GPU."""
        assert params is None
        assert k <= 2048
        with self.resources.call(self.device, len(queries), 8 * len(queries) * k):
            return super().search(queries, k)


class GpuIndexIVFScalarQuantizer:
    """A copy of a CPU index."""

    def __init__(self, resources: StandardGpuResources, index: Any, config: Any) -> None:
        assert config.device < resources.module.get_num_gpus()
        resources.module.take(config.device, index.ntotal * index.code_size)
        self.resources, self.device, self.own = resources, config.device, faiss.clone_index(index)
        self.nlist, self.ntotal, self.d = index.nlist, index.ntotal, index.d
        self.referenced_objects = [index]

    def search(self, queries: np.ndarray, k: int, *, params: Any = None) -> Any:
        """Search within the limits of a GPU."""
        assert params.sel is None
        assert max(k, params.nprobe) <= 2048
        with self.resources.call(self.device, len(queries), 8 * len(queries) * k):
            return self.own.search(queries, k, params=params)
