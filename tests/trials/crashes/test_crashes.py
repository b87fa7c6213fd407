"""Tests that kill writers at their steps: readers find the older or the newer state, and writing goes on.

The long trial kills at AKIN_TRIALS steps, in an order drawn by AKIN_SEED.
"""

import random
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.support.trials.crashes import OPERATIONS, Outcome, make_collection, spread, trial, unkilled
from tests.support.trials.settings import SEED, trials

SAMPLE = 3  # of the steps of each operation
TRIALS = trials(7_500)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small collection in several segments."""
    return make_collection(tmp_path_factory.mktemp("crashes"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_writer_leaves_nothing_torn_lost_or_come_back(
    template: Path, tmp_path: Path, operation: str
) -> None:
    """After a writer is killed, readers find the older or the newer state, and the next writer goes on."""
    n_steps = unkilled(template, tmp_path, operation).n_steps
    outcomes = [trial(template, tmp_path, operation, step) for step in spread(n_steps, SAMPLE, seed=0)]
    assert [] == [outcome for outcome in outcomes if outcome.wrong]
    assert SAMPLE == sum(outcome.killed for outcome in outcomes)


@pytest.mark.trial
def test_thousands_of_killed_writers(template: Path, tmp_path: Path) -> None:
    """The same holds at all steps of every operation in random order, and then at random moments."""
    whole = {operation: unkilled(template, tmp_path, operation) for operation in OPERATIONS}
    steps = [(operation, step) for operation in OPERATIONS for step in range(1, whole[operation].n_steps + 1)]
    rng, outcomes = random.Random(SEED), list[Outcome]()
    rng.shuffle(steps)
    for i in track(range(TRIALS), "Killing"):
        operation, step = steps[i % len(steps)]
        if i < len(steps):
            outcomes.append(trial(template, tmp_path, operation, step))
        else:
            after_s = rng.uniform(0, whole[operation].took_s)
            outcomes.append(trial(template, tmp_path, operation, after_s=after_s))
    killed = Counter(outcome.operation for outcome in outcomes if outcome.killed)
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    table = Table(
        "operation", "steps", "killed", "wrong", title=f"{TRIALS:,} writers to be killed, seed {SEED}"
    )
    for operation in OPERATIONS:
        n_wrong = sum(outcome.operation == operation for outcome in wrong)
        table.add_row(operation, str(whole[operation].n_steps), str(killed[operation]), str(n_wrong))
    Console().print(table)
    assert [] == wrong
