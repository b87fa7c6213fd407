"""The Task protocol: a measurement on the contents of a folder, for one encoder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from evaluation.statistics.summary import Figures
from models.types import ProgressFn


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The settings common to all tasks: encoder, folder of kept vectors, device, query limit and progress."""

    encoder: str
    cache: Path | None
    device: str
    limit_queries: int | None
    on_progress: ProgressFn


@runtime_checkable
class Task(Protocol):
    """One measurement, as a value."""

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure the contents of ``path``; raises what reading and measuring them raise."""
        ...
