"""Commands run as by a user, and their output."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from akin.cli.app import app


def run(*arguments: str | Path, stdin: str | None = None, status: int = 0, width: int = 200) -> str:
    """Return the output of a command on both streams; its exit status must be ``status``."""
    given = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, given, input=stdin, env={"COLUMNS": str(width), "TERM": "dumb"})
    assert status == result.exit_code, result.output
    return result.output


def parsed(words: Sequence[str]) -> typer.Context:
    """Parse a command line with the parsers of the commands, without running it."""
    command = typer.main.get_command(app)
    context = command.make_context("akin", list(words))
    while isinstance(command, typer.core.TyperGroup):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
        command = context.command  # may only be loaded by now
    return context


def flat(text: str) -> str:
    """Return ``text`` without line wrapping."""
    return " ".join(text.split())


def helps() -> Iterator[tuple[str, typer.Context]]:
    """Yield every command and subcommand by name, with the context that its help is written with."""
    group: Any = typer.main.get_command(app)
    waiting = [("akin", group, None)]
    while waiting:
        name, command, parent = waiting.pop()
        context = typer.Context(command, parent, info_name=name.split()[-1])
        yield name, context
        for below in command.list_commands(context) if hasattr(command, "list_commands") else ():
            found = command.get_command(context, below)
            waiting.append(
                (f"{name} {below}", getattr(found, "loaded", lambda found=found: found)(), context)
            )
