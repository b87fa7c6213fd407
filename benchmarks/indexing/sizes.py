"""The cost of every command by the size of the collection: time, peak memory, and how they grow.

``python -m benchmarks.indexing.sizes CORPUS --sizes 10000 100000 [--into FOLDER --out X.json --chart X.svg]``
``python -m benchmarks.indexing.sizes CORPUS --sizes 3000000 --short --into FOLDER [--out Y.json ...]``

Each command runs in a separate process, with the ``hashing`` encoder; texts are of ``synthetic_corpus``.
Sizes already in the file of results are not measured again. ``--into`` keeps the collection in a folder, and
a stopped run continues there with the step that it had reached; the times of that step then cover only the
rest: 3 million short papers take about 20 GB, and hours. Nothing large is imported here: a started process
counts the memory of the process that started it.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.indexing.sizes_chart import Line, chart

ADDED = 1_000
_POLL_S = 0.02
Figures = dict[str, Any]
# Every step, as the table names it; steps that are processes have a peak memory.
STEPS = {
    "nothing": "Python and the packages alone",
    "index": "index",
    "first open": "open, the first time",
    "open": "open, as commands do",
    "start": "start, as the service does",
    "queries": "query by id, p50",
    "add": f"add {ADDED:,}",
    "delete": "delete 1",
    "singles": f"add 1, {ADDED:,} times, p50",
    "queries after": f"query after {ADDED:,} single additions, p50",
    "merge": "merge all (compact)",
    "queries merged": "query after the merge, p50",
}

SHOWN = {
    "processor_s": "seconds of the processor",
    "wall_s": "seconds on the clock",
    "peak_mib": "peak memory, MiB",
    "private_mib": "peak of the process's own memory, MiB",
}


def measured(command: Sequence[str]) -> Figures:
    """Run a Python command: its times, peak memory in MiB, and its output if that is JSON.

    ``private_mib`` is the peak of the memory that belongs to the process alone, polled all the time: it
    excludes mapped files, which the system takes back if others need memory. Raises SystemExit if the command
    fails.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen([sys.executable, *command], stdout=printed, env=environment)  # noqa: S603
        private_kib = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            private_kib = max(private_kib, _private_kib(process.pid))
            time.sleep(_POLL_S)
        took_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: ended with {process.returncode}")
        printed.seek(0)
        text = printed.read()
    own_figures = json.loads(text) if text.startswith("{") else {}
    figures = {
        "wall_s": took_s,
        "processor_s": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
        "private_mib": private_kib / 1024,
        **own_figures,
    }
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def _private_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:  # it has just ended, or there is no such file here
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def measure(corpus: Path, folder: Path, size: int, *, short: bool) -> dict[str, Figures]:
    """Measure every step at one size; steps already recorded in ``folder`` are not measured again."""
    known = folder / "figures.json"
    data, papers = str(folder / "data"), folder / "papers.jsonl"
    figures: dict[str, Figures] = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    if not figures:
        made = ["--papers", str(size), "--added", str(ADDED), "--single", str(ADDED)]
        made += ["--short"] if short else []
        measured(["-m", "benchmarks.indexing.synthetic_corpus", str(corpus), str(folder), *made])
    with papers.open(encoding="utf-8") as stream:
        first = json.loads(stream.readline())["id"]

    def inside(what: str, *more: str) -> list[str]:
        return ["-m", "benchmarks.indexing.sizes_in_process", what, data, *more]

    def akin(*arguments: str) -> list[str]:
        return ["-m", "akin", *arguments, "--data", data]

    commands = {
        "nothing": inside("nothing"),
        "index": akin("index", str(papers), "--encoder", "hashing", "--device", "cpu"),
        "first open": inside("open"),
        "open": inside("open"),
        "start": inside("start"),
        "queries": inside("queries"),
        "add": akin("index", str(folder / "added.jsonl"), "--encoder", "hashing", "--device", "cpu"),
        "delete": akin("delete", first),
        "singles": inside("singles", str(folder / "single.jsonl")),
        "queries after": inside("queries"),
        "merge": akin("compact", "--device", "cpu"),
        "queries merged": inside("queries"),
    }
    for name in (name for name in commands if name not in figures):
        figures[name] = {**measured(commands[name]), "disk_mib": _disk_mib(Path(data))}
        known.write_text(json.dumps(figures), encoding="utf-8")
        print(f"{size:,} papers, {name}: {figures[name]}", file=sys.stderr)
    return figures


def _disk_mib(folder: Path) -> int:
    """Return the disk use of a folder, in MiB; a file with several names counts once."""
    taken = {stat.st_ino: stat.st_blocks for stat in (path.stat() for path in folder.rglob("*"))}
    return sum(taken.values()) * 512 // 2**20


@contextmanager
def _folder(into: Path | None, size: int) -> Iterator[Path]:
    """Yield the folder for a size: in ``into`` it is kept until all is measured, else it is temporary."""
    if into is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    folder = into / str(size)
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    shutil.rmtree(folder)


def exponents(values: Iterable[tuple[int, float]]) -> list[float]:
    """Return the power of the size by which a figure grows, from each size to the next."""
    return [
        math.log(b / a) / math.log(larger / smaller)
        for (smaller, a), (larger, b) in pairwise(values)
        if a * b
    ]


def table(results: dict[int, dict[str, Figures]], what: str, title: str) -> Table:
    """Return a table of one figure of every step at every size, with the exponents."""
    shown = Table("", *(f"{size:,}" for size in results), "exponents", title=title)
    for name, words in STEPS.items():
        values = [(size, figures[name][what]) for size, figures in results.items()]
        powers = ", ".join(f"{power:.2f}" for power in exponents(values))
        shown.add_row(
            words, *(f"{value:,.3g}" if value < 10 else f"{value:,.0f}" for _, value in values), powers
        )
    return shown


def lines_of(results: dict[int, dict[str, Figures]], what: str) -> list[Line]:
    """Return the figures of ``table`` as lines of a chart."""
    return [
        Line(words, [(size, figures[name][what]) for size, figures in results.items()])
        for name, words in STEPS.items()
        if name != "nothing"
    ]


def main() -> None:
    """Measure what is missing; print the tables, write the results and the chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--into", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("sizes.json"))
    parser.add_argument("--chart", type=Path, default=Path("sizes.svg"))
    given = parser.parse_args()
    results: dict[int, dict[str, Figures]] = {}
    if given.out.exists():
        results = {int(size): own for size, own in json.loads(given.out.read_text(encoding="utf-8")).items()}
    missing = sorted({*given.sizes} - results.keys())
    if missing:  # else the first process would pay for all others
        measured(["-m", "akin.compiling"])
    for size in missing:
        with _folder(given.into, size) as folder:
            results[size] = measure(given.corpus, folder, size, short=given.short)
        lines = (f' "{n}": {json.dumps(own)}' for n, own in sorted(results.items()))
        given.out.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    results = dict(sorted(results.items()))
    for what, title in SHOWN.items():
        Console(width=140).print(table(results, what, title))
    panels = [(title, lines_of(results, what)) for what, title in SHOWN.items() if what != "wall_s"]
    given.chart.write_text(chart(panels), encoding="utf-8")


if __name__ == "__main__":
    main()
