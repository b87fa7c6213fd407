"""Rows of the table: the figure, the figure it is compared with, and whether the goal is met."""

import os
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

Actions = Mapping[str, Callable[[], object]]
OURS: Final = "Akin"
# Marks rows about where the time of a whole goes, instead of a goal, and names that whole.
STAGES: Final = "stages"
WHOLE: Final = "the whole"
ALL_SOLVED: Final = "solving all"  # Akin without bounds: no other solver
_ORDER: Final = random.Random(0)  # noqa: S311 - an order, no secret
# What encoding is faster with.
_INSTRUCTIONS: Final = ("avx512_bf16", "amx_bf16", "avx512_vnni", "avx_vnni")
_PACKAGES: Final = (
    *("akin", "torch", "numpy", "numba", "faiss-cpu", "transformers", "pyarrow", "fastapi"),
    *("POT", "geomloss", "sentence-transformers", "onnxruntime", "openvino", "txtai"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: ``ours`` and ``theirs`` in ``unit``, and their ratio.

    ``spread`` holds the quartiles of that ratio over the rounds. ``least`` and ``most`` bound the ratio, or
    ``ours`` if it is not compared. Without a bound the row has no goal and is for information only. ``in_c``
    is the least ratio that a kernel written in C should reach, which Akin has not: it is judged apart.
    """

    goal: str
    what: str
    unit: str
    ours: float
    beside: str = ""
    theirs: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    least: float | None = None
    most: float | None = None
    note: str = ""
    in_c: float | None = None

    @property
    def is_met_in_c(self) -> bool | None:
        """Whether the goal for a kernel in C is met; None if there is no such goal."""
        return None if self.in_c is None else bool((self.ratio or 0.0) >= self.in_c)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None if there is no goal."""
        if self.least is None and self.most is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        enough = self.least is None or value >= self.least
        return bool(enough and (self.most is None or value <= self.most))  # of numpy's numbers, too


def in_turns(
    actions: Actions,
    *,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    warm: bool = True,
) -> dict[str, list[float]]:
    """Return seconds by action and round; actions take turns, so a busy machine slows all alike.

    In each round the order is drawn anew: what runs second may find more in the processor's caches.
    """
    if warm:
        for action in actions.values():
            action()
    spent: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name in _ORDER.sample([*actions], len(actions)):
            spent[name].append(seconds_of(actions[name], clock))
    return spent


def seconds_of(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one call."""
    start = clock()
    action()
    return clock() - start


def beside(
    spent: Mapping[str, Sequence[float]],
    peer: str,
    *,
    goal: str,
    what: str,
    scale: float = 1000.0,
    unit: str = "ms",
    least: float | None = None,
    most: float | None = None,
    inverted: bool = False,
    note: str = "",
    in_c: float | None = None,
) -> Row:
    """Compare Akin with ``peer``: medians, and the quartiles of the ratio of each round.

    The ratio is their time by ours, or, if ``inverted``, ours by theirs. ``scale`` converts seconds to
    ``unit``. One round has no quartiles; those of three are the least and the largest ratio.
    """
    ours, theirs = spent[OURS], spent[peer]
    pairs = zip(ours, theirs, strict=True)
    ratios = [own / other if inverted else other / own for own, other in pairs]
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else None
    return Row(
        goal,
        what,
        unit,
        scale * statistics.median(ours),
        peer,
        scale * statistics.median(theirs),
        statistics.median(ratios),
        quartiles and (quartiles[0], quartiles[2]),
        least,
        most,
        note,
        in_c,
    )


def share(
    what: str, part: Sequence[float], whole: Sequence[float], *, scale: float = 1000.0, unit: str = "ms"
) -> Row:
    """Return a row of where the time goes: the seconds of a ``part`` as a share of those of its ``whole``."""
    spent = {OURS: part, WHOLE: whole}
    return beside(spent, WHOLE, goal=STAGES, what=what, scale=scale, unit=unit, inverted=True)


def installed(package: str) -> str:
    """Return the version of a package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def machine() -> dict[str, Any]:
    """Return the circumstances of a measurement: processor, cores, memory, system, day, commit, versions."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = {*named.get("flags", "").split()}
    has = [name for name in _INSTRUCTIONS if name in flags]
    cpu = named.get("model name", platform.processor()) + (f" ({', '.join(has)})" if has else "")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - wherever git is
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "processor": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "day": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "packages": {name: found for name in _PACKAGES if (found := installed(name))},
    }
