"""Commands as a user gives them, and what they print."""

from pathlib import Path

import typer
from typer.testing import CliRunner

from models.errors import AkinError


def run(app: typer.Typer, *arguments: str | Path, width: int = 200) -> str:
    """What a command prints; an expected error is raised."""
    given = ["evaluate", *(str(argument) for argument in arguments)]
    result = CliRunner().invoke(app, given, env={"COLUMNS": str(width), "TERM": "dumb"})
    if isinstance(result.exception, AkinError):
        raise result.exception
    assert 0 == result.exit_code, result.output
    return result.output


def flat(text: str) -> str:
    """Text without line wrapping."""
    return " ".join(text.split())
