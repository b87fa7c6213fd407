"""Commands killed and given again; `python benchmarks/crashes.py --reruns` does so at every step."""

from pathlib import Path

import pytest
from crash_reruns import COMMANDS, reruns
from crashes import make_collection

TRIALS_PER_COMMAND = 6


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection in several segments."""
    return make_collection(tmp_path_factory.mktemp("reruns"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_given_again_goes_on(template: Path, tmp_path: Path, command: str) -> None:
    """Wherever a command is killed, given again it ends as if it had not been, and leaves nothing over."""
    assert [] == reruns(template, tmp_path / "trial", command, n_trials=TRIALS_PER_COMMAND)
