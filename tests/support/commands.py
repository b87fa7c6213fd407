"""Commands as a user gives them, and what they print."""

from pathlib import Path

from typer.testing import CliRunner

from akin.cli import app


def run(*arguments: str | Path, stdin: str | None = None, status: int = 0, width: int = 200) -> str:
    """What a command prints to standard output and error; its exit status must be ``status``."""
    given = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, given, input=stdin, env={"COLUMNS": str(width), "TERM": "dumb"})
    assert status == result.exit_code, result.output
    return result.output


def flat(text: str) -> str:
    """Text without line wrapping."""
    return " ".join(text.split())
