"""The cost of a training run's steps: time, texts and peak memory."""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from models.counts import counted

_RSS_PER_MIB = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes there, else in KiB


@dataclass(slots=True)
class Cost:
    """The cost of all steps until now, by wall clock, without measuring and writing checkpoints.

    A step that was done again after an interruption may count twice, in time and texts alike.
    ``n_papers`` counts the texts of their batches; ``peak_memory_mib`` is what the function of that name
    returned, ``device`` the name of the last device.
    """

    seconds: float = 0.0
    n_papers: int = 0
    peak_memory_mib: float = 0.0
    device: str = ""

    @property
    def papers_per_s(self) -> float:
        """Texts a second; 0 before the first step."""
        return self.n_papers / self.seconds if self.seconds else 0.0

    @contextmanager
    def step(self, device: torch.device) -> Iterator[None]:
        """Add the time of the body, a step on ``device``, and keep the peak memory."""
        is_gpu = device.type == "cuda"
        threads = counted(torch.get_num_threads(), "thread")
        self.device = torch.cuda.get_device_name(device) if is_gpu else f"CPU, {threads}"
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started
        self.peak_memory_mib = max(self.peak_memory_mib, peak_memory_mib(device))


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory of this process, in MiB; for a GPU, that of the process's tensors on it."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _RSS_PER_MIB
