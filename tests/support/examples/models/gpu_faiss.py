"""A stand-in for faiss-gpu: its names and its limits, over the CPU's indexes.

What a GPU refuses is refused here too: selectors, more than 2,048 rows or lists, a device that is not there,
two calls at once of one device's resources, and more bytes than a device has.
tests/trials/test_gpus.py asks the real package for the same names and arguments.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np

GIB = 2**30


class FaissOnGpus:
    """The module: everything of faiss-cpu, and what faiss-gpu has beside it."""

    def __init__(self, memory: list[int], temporary: int = GIB) -> None:
        self.memory, self.temporary = memory, temporary
        self.taken = [0] * len(memory)
        self.resources: list[StandardGpuResources] = []
        self.calls: list[tuple[int, int]] = []  # device, queries
        self.added: list[int] = []  # rows of each call that adds some to a flat index

    def __getattr__(self, name: str) -> Any:
        return getattr(faiss, name)

    def get_num_gpus(self) -> int:
        """The devices."""
        return len(self.memory)

    def free(self, number: int) -> int:
        """Bytes, as torch tells them."""
        return self.memory[number] - self.taken[number]

    def take(self, number: int, n_bytes: int) -> None:
        """Memory of a device, for good; FAISS's error where there is not so much."""
        if self.free(number) < n_bytes:
            raise RuntimeError(
                "StandardGpuResources: alloc fail type FlatData dev 0: (cudaMalloc error out of memory [2])"
            )
        self.taken[number] += n_bytes

    def StandardGpuResources(self) -> "StandardGpuResources":  # noqa: N802 - FAISS's name
        """Kept, for the tests to count."""
        self.resources.append(StandardGpuResources(self))
        return self.resources[-1]

    GpuIndexFlatConfig = type("GpuIndexFlatConfig", (), {"__slots__": ("device",)})
    GpuIndexIVFScalarQuantizerConfig = type(
        "GpuIndexIVFScalarQuantizerConfig", (), {"__slots__": ("device",)}
    )

    def GpuIndexFlatL2(self, resources: "StandardGpuResources", dim: int, config: Any) -> "GpuIndexFlatL2":  # noqa: N802
        """An empty index."""
        return GpuIndexFlatL2(resources, dim, config)

    def GpuIndexIVFScalarQuantizer(  # noqa: N802
        self, resources: "StandardGpuResources", index: Any, config: Any
    ) -> "GpuIndexIVFScalarQuantizer":
        """A copy of ``index``."""
        return GpuIndexIVFScalarQuantizer(resources, index, config)


class StandardGpuResources:
    """Temporary memory of a device: a second call while one runs is an error of ours."""

    def __init__(self, module: FaissOnGpus) -> None:
        self.module = module
        self._busy = threading.Lock()

    @contextmanager
    def call(self, device: int, n_queries: int, n_bytes: int) -> Iterator[None]:
        """One call of FAISS."""
        assert self._busy.acquire(blocking=False), "two calls at once"
        try:
            if n_bytes > self.module.temporary:
                raise RuntimeError("StandardGpuResources: alloc fail type TemporaryMemoryOverflow")
            self.module.calls.append((device, n_queries))
            yield
        finally:
            self._busy.release()


class GpuIndexFlatL2(faiss.IndexFlatL2):
    """A CPU's index, as FAISS's k-means and lists take no other; searched within a GPU's limits."""

    resources: Any = None  # FAISS's indexes take no attribute that their class has not
    device = 0

    def __init__(self, resources: StandardGpuResources, dim: int, config: Any) -> None:
        assert config.device < resources.module.get_num_gpus()
        super().__init__(dim)
        self.resources, self.device = resources, config.device

    def add(self, rows: np.ndarray) -> None:
        """Rows, of which each takes memory."""
        self.resources.module.added.append(len(rows))
        self.resources.module.take(self.device, rows.nbytes)
        super().add(rows)

    def search(self, queries: np.ndarray, k: int, *, params: Any = None) -> Any:
        """Within a GPU's limits."""
        assert params is None
        assert k <= 2048
        with self.resources.call(self.device, len(queries), 8 * len(queries) * k):
            return super().search(queries, k)


class GpuIndexIVFScalarQuantizer:
    """A copy of a CPU's index."""

    def __init__(self, resources: StandardGpuResources, index: Any, config: Any) -> None:
        assert config.device < resources.module.get_num_gpus()
        resources.module.take(config.device, index.ntotal * index.code_size)
        self.resources, self.device, self.own = resources, config.device, faiss.clone_index(index)
        self.nlist, self.ntotal, self.d = index.nlist, index.ntotal, index.d
        self.referenced_objects = [index]

    def search(self, queries: np.ndarray, k: int, *, params: Any = None) -> Any:
        """Within a GPU's limits."""
        assert params.sel is None
        assert max(k, params.nprobe) <= 2048
        with self.resources.call(self.device, len(queries), 8 * len(queries) * k):
            return self.own.search(queries, k, params=params)
