"""The program ``akin``: finds the command, runs it, and prints errors."""

import errno
import os
import sys
from contextlib import suppress
from difflib import get_close_matches
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from akin.cli.commands import COMMANDS, FIRST, PANELS, RESUMED, RESUMES, Panel
from akin.cli.consoles import stderr
from akin.cli.help import present_params, presented
from models.errors import AkinError
from models.extras import needed
from models.registry import without_gc
from service.observability.logging import configure_logging
from service.validation import plain, sentence

# Errors of writing to standard output that are reported; a closed pipe ends quietly.
_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def _leave_output() -> None:
    """Redirect standard output to the null device, or the interpreter would fail to flush it at exit."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _print_error(message: str) -> None:
    stderr.print("error:", style="bold red", end=" ")
    stderr.print(message, soft_wrap=True)


class _Command(TyperCommand):
    """A command with its name and summary; its module is imported when the command is used.

    Importing all commands takes seconds, and most commands need only a part of that.
    """

    def __init__(self, name: str, title: str, panel: Panel) -> None:
        super().__init__(name, callback=None, help=panel.summaries[name], rich_help_panel=title)
        self._panel = panel

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return self.loaded().make_context(info_name, args, parent=parent, **extra)

    def loaded(self) -> Any:
        """Import and return the command."""
        with without_gc(), needed(f"akin {self.name}"):
            imported = self._panel.load(str(self.name))
        if isinstance(imported, typer.Typer):
            command: Any = typer.main.get_group(imported)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(imported)
            command = typer.main.get_command(alone)
        command.name = self.name
        return presented(command)


class _Commands(TyperGroup):
    """The group of commands, which reports every expected failure as one clear line and exit status 1."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        for title, panel in PANELS.items():
            if cmd_name in panel.summaries:
                return _Command(cmd_name, title, panel)
        return None

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)
        present_params(params)
        return params

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        near = get_close_matches(args[0], COMMANDS, n=1)
        if near and args[0] not in COMMANDS and not ctx.resilient_parsing:  # which completes a line
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        configure_logging("warning")
        try:
            with needed("The command"):  # packages that are imported only now
                return super().invoke(ctx)
        except typer.BadParameter as error:  # with pydantic's message
            error.message = sentence("", plain(error.message))
            raise
        except AkinError as error:
            _print_error(str(error))
            raise typer.Exit(1) from error
        except OSError as error:
            if error.errno not in _UNWRITABLE or error.filename is not None:
                raise
            _leave_output()
            reason = (error.strerror or "").lower()
            _print_error(f"cannot write the output: {reason}")
            raise typer.Exit(1) from error
        except KeyboardInterrupt as interrupt:
            kept = " What was done so far is kept; run the same command again to resume."
            resumes = ctx.invoked_subcommand in RESUMED or RESUMES in ctx.meta
            stderr.print(f"Interrupted.{kept if resumes else ''}")
            raise typer.Exit(130) from interrupt


app = typer.Typer(
    cls=_Commands,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"akin {version('akin')}")
        raise typer.Exit


@app.callback()
def _akin(
    ctx: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find scientific papers similar to one you give, in the respect you choose."""
    if ctx.invoked_subcommand is None:
        typer.echo(FIRST)
