"""The command that the tests of evaluation give."""

import pytest
import typer

from akin import evaluate


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    """The command as a user has it, below the program's name."""
    parent = typer.Typer()
    parent.add_typer(evaluate.app, name="evaluate")
    return parent
