"""Kill writers at every step they take, then at any moment: ``python benchmarks/crashes.py [--trials 6000]``.

What a trial is and what it looks for: tests/crashes.py. With ``--reruns N`` commands are killed at N of their
steps each and given again: tests/crash_reruns.py.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from crash_reruns import COMMANDS, reruns
from crashes import OPERATIONS, make_collection, trial, unkilled


def main() -> int:
    """Print what was tried and what was found; the status is 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=6_000)
    parser.add_argument("--reruns", type=int, default=0, help="only these")
    given = parser.parse_args()
    if given.reruns:
        return rerun_all(given.reruns)
    n_trials = given.trials
    console, started = Console(), time.perf_counter()
    killed, wrong, steps = Counter[str](), Counter[str](), {}
    with tempfile.TemporaryDirectory() as folder:
        template, scratch = make_collection(Path(folder)), Path(folder) / "trial"
        whole = {operation: unkilled(template, scratch, operation) for operation in OPERATIONS}
        steps = {operation: outcome.n_steps for operation, outcome in whole.items()}
        every = [(operation, step) for operation, n in steps.items() for step in range(1, n + 1)]
        rng = random.Random(0)  # noqa: S311 - moments
        for i in track(range(n_trials), "Killing", console=console):
            operation, step = every[i % len(every)]
            if i < len(every):
                outcome = trial(template, scratch, operation, step)
            else:
                outcome = trial(template, scratch, operation, after_s=rng.uniform(0, whole[operation].took_s))
            killed[operation] += outcome.killed
            if outcome.wrong:
                wrong[operation] += 1
                console.print(outcome)
    table = Table(
        "operation", "steps", "killed", "wrong", title="Writers killed by SIGKILL at each of their steps"
    )
    for operation, n_steps in steps.items():
        table.add_row(operation, str(n_steps), f"{killed[operation]:,}", str(wrong[operation]))
    table.add_row("all", str(sum(steps.values())), f"{killed.total():,}", str(wrong.total()), style="bold")
    console.print(table)
    console.print(f"{n_trials:,} trials in {time.perf_counter() - started:,.0f} s")
    return 1 if wrong.total() else 0


def rerun_all(n_trials: int) -> int:
    """Print what was wrong with commands that were killed and given again."""
    console, n_wrong = Console(), 0
    with tempfile.TemporaryDirectory() as folder:
        template = make_collection(Path(folder))
        for command in COMMANDS:
            wrong = reruns(template, Path(folder) / "trial", command, n_trials=n_trials)
            console.print(f"{command}: {len(wrong)} wrong", *wrong, sep="\n  ")
            n_wrong += len(wrong)
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
