"""The command line: ``akin index``, ``serve``, ``search``, ``sentences``, ``analyze`` and the others."""

from difflib import get_close_matches
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from akin.cli.consoles import stderr
from models.errors import AkinError
from models.extras import needed
from models.registry import uncollected
from service.observability.logging import configure_logging

# Each is imported when it is called for: all of them together take seconds, of which most need a part.
_COMMANDS: Final = {
    "serve": "akin.cli.collection.serving:serve",
    "search": "akin.cli.search.searching:search",
    "recommend": "akin.cli.search.recommending:recommend",
    "watch": "akin.cli.search.watching:watch",
    "papers": "akin.cli.search.papers:papers",
    "compare": "akin.cli.search.comparing:compare",
    "match": "akin.cli.search.matching:match",
    "index": "akin.cli.collection.indexing:index",
    "delete": "akin.cli.collection.maintenance:delete",
    "purge": "akin.cli.collection.maintenance:purge",
    "compact": "akin.cli.collection.maintenance:compact",
    "reindex": "akin.cli.collection.reindexing:reindex",
    "backup": "akin.cli.collection.maintenance:backup",
    "snapshot": "akin.cli.collection.maintenance:snapshots",
    "status": "akin.cli.collection.status:status",
    "migrate": "akin.cli.collection.maintenance:migrate",
    "upgrade": "akin.cli.collection.maintenance:upgrade",
    "embed": "akin.cli.collection.indexing:embed",
    "sentences": "akin.cli.search.sentences:sentences",
    "analyze": "akin.cli.search.analyzing:analyze",
    "mcp": "akin.cli.search.mcp:mcp",
    "worker": "akin.cli.collection.worker:worker",
    "keys": "akin.cli.collection.keys:app",
    "evaluate": "akin.cli.evaluation.evaluate:app",
    "train": "akin.cli.training.train:app",
    "convert": "akin.cli.training.conversion:convert",
    "demo": "akin.cli.collection.serving:demo",
}


class _Commands(TyperGroup):
    """The commands; turns every expected failure into one clear line and exit status 1."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        with uncollected(), needed(f"akin {cmd_name}"):
            called = resolve_name(_COMMANDS[cmd_name])
        if not isinstance(called, typer.Typer):
            alone, function = typer.Typer(add_completion=False), called
            alone.command(cmd_name)(function)
            called = alone
        command = typer.main.get_command(called)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        near = get_close_matches(args[0], _COMMANDS, n=1)
        if near and args[0] not in _COMMANDS:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        configure_logging("warning")
        try:
            with needed("The command"):  # what it imports only now
                return super().invoke(ctx)
        except AkinError as error:
            stderr.print("error:", style="bold red", end=" ")
            stderr.print(str(error), markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as interrupt:
            stderr.print(
                "Interrupted. What was published before stays served; the same command goes on where it was."
            )
            raise typer.Exit(130) from interrupt


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"akin {version('akin')}")
        raise typer.Exit


@app.callback()
def _akin(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find scientific papers akin to one you give, in the respect you choose."""
