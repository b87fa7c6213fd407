"""Commands as a user gives them, and what they print."""

from collections.abc import Sequence
from pathlib import Path

import typer
from typer.testing import CliRunner

from akin.cli.app import app


def run(*arguments: str | Path, stdin: str | None = None, status: int = 0, width: int = 200) -> str:
    """What a command prints to standard output and error; its exit status must be ``status``."""
    given = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, given, input=stdin, env={"COLUMNS": str(width), "TERM": "dumb"})
    assert status == result.exit_code, result.output
    return result.output


def parsed(words: Sequence[str]) -> typer.Context:
    """A command line, read by the command line itself but not carried out."""
    command = typer.main.get_command(app)
    context = command.make_context("akin", list(words))
    while isinstance(command, typer.core.TyperGroup):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
        command = context.command  # which may have been loaded only now
    return context


def flat(text: str) -> str:
    """Text without line wrapping."""
    return " ".join(text.split())
