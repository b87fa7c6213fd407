"""The Task protocol: what is measured, on the contents of a folder, for one encoder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from evaluation.statistics.summary import Figures
from models.types import ProgressFn


@dataclass(frozen=True, slots=True)
class How:
    """What all tasks share: the encoder, where vectors are kept, and how many queries a quick look takes."""

    encoder: str
    cache: Path | None
    device: str
    limit_queries: int | None
    on_progress: ProgressFn


@runtime_checkable
class Task(Protocol):
    """One measurement, as a value."""

    def measure(self, path: Path, how: How) -> Figures:
        """The figures of what lies at ``path``; raises what reading and measuring it raise."""
        ...
