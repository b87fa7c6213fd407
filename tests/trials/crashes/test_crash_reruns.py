"""Tests that commands that were killed go on if run again, and leave no files behind."""

from pathlib import Path

import pytest

from tests.support.trials.crashes import make_collection
from tests.support.trials.reruns import COMMANDS, reruns
from tests.support.trials.settings import print_figure


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small collection in several segments."""
    return make_collection(tmp_path_factory.mktemp("reruns"))


@pytest.mark.parametrize("n_trials", [2, pytest.param(50, marks=pytest.mark.trial)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_given_again_goes_on(
    template: Path, tmp_path: Path, command: str, n_trials: int
) -> None:
    """A command killed at any step, then run again, ends as if it had not been killed."""
    n_made, wrong = reruns(template, tmp_path / "trial", command, n_trials=n_trials)
    print_figure(f"{command}: killed and given again {n_made} times, {len(wrong)} wrong")
    assert n_made
    assert [] == wrong
