"""``akin keys``: creation, listing, renewal and revocation of API keys."""

from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from akin.cli.consoles import stderr, stdout
from akin.cli.options import CatalogUrl, Data, catalog_place
from indexer.files.data_folder import DataFolder
from service.access.api_keys import ApiKey, Keys, Scope

app = typer.Typer(help="Create, list, renew and revoke the API keys of a data folder.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    data: Data,
    scope: Annotated[
        Scope, typer.Option(help="read: search; ingest: also add and delete papers; admin: all.")
    ] = Scope.READ,
    expires_days: Annotated[
        int, typer.Option(min=0, max=3650, help="Days until it expires; 0: never.")
    ] = 365,
    first: Annotated[
        bool,
        typer.Option("--first", help="Do nothing if there is a valid key with this scope or a wider one."),
    ] = False,
    catalog: CatalogUrl = "",
) -> None:
    """Create a key and print it to standard output. It is shown only once and stored only as a hash."""
    if not DataFolder(data).current.is_file():
        stderr.print(
            f"Nothing is indexed in {data} yet: check the folder, or go on with `akin index`.",
            soft_wrap=True,
        )
    with Keys.open_of(data, catalog_place(data, catalog)) as keys:
        now = datetime.now(UTC).timestamp()
        if first and any(key.usable(now) and key.scope.includes(scope) for key in keys.all()):
            stderr.print(f"There is already a valid key with scope {scope}; none was created.")
            return
        made = keys.create(name, scope=scope, expires_days=expires_days or None)
    stderr.print(
        f"Key {made.key.id}, scope {scope}, expires {_day(made.key.expires_at)}. Keep it: it is not "
        "shown again. Send it as `Authorization: Bearer KEY`; searches and changes now need a key.",
        soft_wrap=True,
    )
    typer.echo(made.token)


@app.command("list")
def list_keys(
    data: Data,
    catalog: CatalogUrl = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List every key ever created: its id, name, scope and dates, never the key itself."""
    table = Table("id", "name", "scope", "created", "expires", "state")
    now = datetime.now(UTC).timestamp()
    with Keys.open_existing(catalog_place(data, catalog)) as keys:
        every = keys.all()
    if as_json:
        typer.echo(orjson.dumps([_as_json(key, now) for key in every]))
        return
    for key in every:
        state = "usable" if key.usable(now) else "expired"
        state = state if key.revoked_at is None else f"revoked {_day(key.revoked_at)}"
        dates = (_day(key.created_at), _day(key.expires_at))
        table.add_row(key.id, key.name, key.scope, *dates, state)
    stdout.print(
        table
        if table.row_count
        else "There are no keys; AKIN_KEYLESS decides what this machine may do, and others are refused."
    )


@app.command()
def renew(
    data: Data,
    key: Annotated[
        str, typer.Argument(help="The id of a key, or a name: all keys with that name are renewed.")
    ],
    expires_days: Annotated[
        int, typer.Option(min=0, max=3650, help="Days from now until it expires; 0: never.")
    ] = 365,
    catalog: CatalogUrl = "",
) -> None:
    """Let a key expire later, also one that has expired: its owner keeps queries, feeds and profiles."""
    with Keys.open_existing(catalog_place(data, catalog)) as keys:
        renewed = keys.renew(key, expires_days=expires_days or None)
    for each in renewed:
        stdout.print(f"Key {each.id} expires {_day(each.expires_at)}.", soft_wrap=True)


@app.command()
def revoke(
    data: Data,
    key: Annotated[
        str, typer.Argument(help="The id of a key, or a name: all keys with that name are revoked.")
    ],
    catalog: CatalogUrl = "",
) -> None:
    """Revoke a key, or all keys of one name: a running service soon refuses them and ends their batches.

    Their saved profiles are deleted.
    """
    with Keys.open_existing(catalog_place(data, catalog)) as keys:
        revoked = keys.revoke(key)
    stdout.print(f"Revoked: {', '.join(each.id for each in revoked)}.", soft_wrap=True)


def _as_json(key: ApiKey, now: float) -> dict[str, Any]:
    """Return a key without its hash; times are Unix seconds, UTC."""
    names = ("id", "name", "scope", "created_at", "expires_at", "revoked_at")
    return {**{name: getattr(key, name) for name in names}, "usable": key.usable(now)}


def _day(seconds: int | None) -> str:
    return "never" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
