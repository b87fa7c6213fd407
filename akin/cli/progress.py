"""Progress of long commands: bars on a terminal, log lines elsewhere; and folders for output files."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from indexer.files.durable import storage_errors
from models.types import ProgressFn

_LOG_EVERY_S = 20.0


@contextmanager
def show_progress(console: Console, *, clock: Callable[[], float] = time.monotonic) -> Iterator[ProgressFn]:
    """Yield a function to call with a stage, the papers done in it, and its total number if known."""
    if not console.is_terminal:
        yield _Log(console, clock)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            elif (task := bars.tasks[tasks[stage]]).finished and task.completed != done:
                bars.reset(task.id)  # the stage starts again
            bars.update(tasks[stage], completed=done, total=total)

        yield show


class _RateColumn(ProgressColumn):
    """A column with papers per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="cyan")


@dataclass(slots=True)
class _Stage:
    started_s: float
    first: int
    logged_s: float
    ended_at: tuple[int, int | None] | None = None


class _Log:
    """A log with a line when a stage begins and ends, and one every ``_LOG_EVERY_S`` seconds in between."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._stages: dict[str, _Stage] = {}

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now = self._clock()
        known = self._stages.get(stage)
        # A finished stage that continues with other numbers starts again, such as for the next collection.
        if known is None or known.ended_at not in {None, (done, total)}:
            known = self._stages[stage] = _Stage(now, done, now)
        elif known.ended_at or (done != total and now - known.logged_s < _LOG_EVERY_S):
            return
        known.logged_s, known.ended_at = now, (done, total) if done == total else None
        rate = (done - known.first) / (now - known.started_s) if now > known.started_s else 0.0
        left = f", {(total - done) / rate:,.0f} s left" if rate and total else ""
        of_total = f" of {total:,}" if total else ""
        speed = f" ({rate:,.1f}/s{left})" if rate else ""
        self._console.print(f"{stage}: {done:,}{of_total}{speed}", soft_wrap=True)


def create_parent_folders(*files: Path | None) -> None:
    """Create the folders of output files now, so that hours of work do not fail for a missing folder."""
    for path in files:
        if path is not None:
            with storage_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
