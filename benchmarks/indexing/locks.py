"""How long each command holds the writer's lock, which blocks all other publishing.

``python -m benchmarks.indexing.locks CORPUS --sizes 10000 100000 [--into FOLDER --out locks.json]``

Each command runs in a separate process with the ``hashing`` encoder, over texts of ``synthetic_corpus``; it
runs as from the shell, and the lock is timed from inside.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from akin.__main__ import main as akin
from indexer.files import data_folder, durable

ADDED = 1_000
_TIMED = "AKIN_TIMED_LOCKS"  # the file where a timed command writes its seconds, one line a hold
_HASHING = ("--encoder", "hashing", "--device", "cpu")


def timed(arguments: list[str]) -> None:
    """Run a command of Akin in this process; record how long it holds the lock each time."""

    @contextlib.contextmanager
    def noting(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
        with durable.writer_lock(path, wait_s=wait_s):
            began = time.perf_counter()
            yield
            held_s = time.perf_counter() - began
        if path.name == "LOCK":
            with Path(os.environ[_TIMED]).open("a", encoding="ascii") as notes:
                notes.write(f"{held_s}\n")

    sys.argv = ["akin", *arguments]
    with patch.object(data_folder, "writer_lock", noting):
        akin()


def holds(*arguments: str) -> list[float]:
    """Return the seconds of each hold of a command; raises CalledProcessError if the command fails."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "holds"
        notes.touch()
        code = "import sys; from benchmarks.indexing.locks import timed; timed(sys.argv[1:])"
        environment = os.environ | {_TIMED: str(notes), "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, env=environment)  # noqa: S603
        return [float(line) for line in notes.read_text(encoding="ascii").splitlines()]


def measure(corpus: Path, folder: Path, size: int) -> dict[str, dict[str, float]]:
    """Return, for each command, how often it took the lock, and the longest hold in seconds."""
    made = ["--papers", str(size), "--added", str(ADDED), "--single", "20"]
    builder = [sys.executable, "-m", "benchmarks.indexing.synthetic_corpus", str(corpus), str(folder), *made]
    subprocess.run(builder, check=True)  # noqa: S603
    papers = folder / "papers.jsonl"
    with papers.open(encoding="utf-8") as stream:
        ids = [json.loads(next(stream))["id"] for _ in range(200)]
    gone, kept = folder / "gone.jsonl", ("--data", str(folder / "data"))
    with papers.open(encoding="utf-8") as stream:
        gone.write_text("".join(line for number, line in enumerate(stream) if number % 2), encoding="utf-8")
    commands = {
        "index": ("index", str(papers), *_HASHING),
        f"index, {ADDED:,} more": ("index", str(folder / "added.jsonl"), *_HASHING),
        "index, 20 more": ("index", str(folder / "single.jsonl"), *_HASHING),
        "delete, 1 paper": ("delete", ids[0]),
        "delete, 100 papers": ("delete", *ids[1:101]),
        "compact": ("compact", "--device", "cpu"),
        "purge, 1 paper": ("purge", ids[150]),
        "index --replace, half of the papers": ("index", str(gone), "--replace", *_HASHING),
        "snapshot rollback": ("snapshot", "rollback"),
        "reindex": ("reindex", *_HASHING),
    }
    figures = {}
    for name, command in commands.items():
        held_s = holds(*command, *kept)
        figures[name] = {"holds": len(held_s), "longest_s": float(f"{max(held_s, default=0.0):.3g}")}
        print(f"{size:,} papers, {name}: {figures[name]}", file=sys.stderr)
    return figures


def main() -> None:
    """Measure each size; print one table and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--into", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("locks.json"))
    given = parser.parse_args()
    results = {}
    for size in given.sizes:
        with tempfile.TemporaryDirectory(dir=given.into) as folder:
            results[size] = measure(given.corpus, Path(folder), size)
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    sizes = [f"{size:,} papers" for size in results]
    table = Table("command", *sizes, title="the longest hold of the writer's lock, ms (how many holds)")
    for name in next(iter(results.values())):
        row = (results[size][name] for size in results)
        table.add_row(name, *(f"{1000 * own['longest_s']:,.0f} ({own['holds']})" for own in row))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
