"""Two hundred writers killed at as many steps; `python benchmarks/crashes.py` kills thousands."""

from pathlib import Path

import pytest
from crashes import OPERATIONS, make_collection, spread, trial, unkilled

TRIALS_PER_OPERATION = 30


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection in several segments."""
    return make_collection(tmp_path_factory.mktemp("crashes"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_writer_leaves_nothing_torn_lost_or_come_back(
    template: Path, tmp_path: Path, operation: str
) -> None:
    """Wherever a writer is killed, readers find the older or the newer state, and the next writer goes on."""
    n_steps = unkilled(template, tmp_path, operation).n_steps
    outcomes = [
        trial(template, tmp_path, operation, step) for step in spread(n_steps, TRIALS_PER_OPERATION, seed=0)
    ]
    assert [] == [outcome for outcome in outcomes if outcome.wrong]
    assert TRIALS_PER_OPERATION == sum(outcome.killed for outcome in outcomes)
