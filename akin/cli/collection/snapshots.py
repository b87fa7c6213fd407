"""``akin snapshot``: listing, verification and rollback of generations."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from akin.cli.consoles import stderr, stdout
from akin.cli.options import CatalogUrl, Folder, MaybeData, catalog_place, data_folder
from indexer.catalog.catalog import Catalog
from indexer.collection.rollback import rollback, rollback_target
from indexer.files.data_folder import DataFolder
from indexer.snapshot.folder import current_generation, read_manifests, verify
from indexer.snapshot.manifest import Manifest
from models.counts import counted
from models.errors import SnapshotError, SnapshotMissingError

snapshots = typer.Typer(
    help="List, verify and roll back the published generations of a collection.", no_args_is_help=True
)


@snapshots.command("list")
def list_snapshots(
    folder: Folder = None,
    data: MaybeData = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List every published generation; the served one is marked."""
    data = data_folder(folder, data)
    found = read_manifests(data)
    try:
        served = current_generation(data)
    except SnapshotError as error:
        if not found:
            raise
        served = ""
        stderr.print(str(error), soft_wrap=True, style="yellow")
    if as_json:
        typer.echo(orjson.dumps([_as_json(name, manifest, served) for name, manifest in found]))
    else:
        stdout.print(_generation_table(found, served))


@snapshots.command("verify")
def verify_snapshot(
    folder: Folder = None,
    data: MaybeData = None,
    generation: Annotated[str, typer.Option(help="The generation to verify; empty: the served one.")] = "",
) -> None:
    """Compare every file of a generation with its checksum."""
    data = data_folder(folder, data)
    known = DataFolder(data).generations()
    if generation and known and generation not in known:
        raise SnapshotMissingError(f"{data}: no generation {generation}; known: {', '.join(known)}")
    manifest = verify(data, generation if generation and known else current_generation(data))
    n_files = sum(len(segment.files) for segment in manifest.segments)
    stdout.print(
        f"Generation {manifest.generation}: {counted(n_files, 'file')}, all identical to the manifest."
    )


@snapshots.command("rollback")
def rollback_snapshot(
    folder: Folder = None,
    data: MaybeData = None,
    to: Annotated[
        str, typer.Option(help="The generation to return to; empty: the one before the served one.")
    ] = "",
    catalog: CatalogUrl = "",
) -> None:
    """Serve an earlier generation again and restore the catalog to it; a running service follows.

    It names that generation before it starts; if it is interrupted, repeat it with --to GENERATION.
    If CURRENT is lost, so that no generation is served, the catalog stays as it is.
    """
    data = data_folder(folder, data)
    with Catalog.open_existing(catalog_place(data, catalog)) as papers:
        target = rollback_target(data, to or None)
        if not to:  # repeated without --to, it could go further back, or forward again
            message = (
                f"Going back to generation {target}; if this is interrupted, repeat it with --to {target}."
            )
            stderr.print(message, soft_wrap=True)
        done = rollback(data, target, catalog=papers)
    if not done.is_new:
        stdout.print(f"Generation {done.manifest.generation} is served already; nothing was changed.")
        if done.n_pending:
            stdout.print(
                f"{counted(done.n_pending, 'paper')} added or deleted since cannot be searched yet. If a "
                "rollback was interrupted, repeat it first, with --to and the generation that it named."
            )
        return
    stdout.print(f"Generation {done.manifest.generation} is served from now on.")
    if done.n_pending:
        stdout.print(
            f"No generation was served, so the catalog was left as it is. {counted(done.n_pending, 'paper')} "
            "added or deleted since cannot be searched as the catalog has them yet: a running service "
            "publishes them, and so does the next `akin index`."
        )
    if done.n_removed or done.n_restored:
        unseen = f"; {done.n_unseen:,} of them had never been searchable" if done.n_unseen else ""
        stdout.print(
            f"Removed {counted(done.n_removed, 'paper')} and restored {counted(done.n_restored, 'paper')} "
            f"in the catalog{unseen}."
        )


def _as_json(name: str, manifest: Manifest | SnapshotError, served: str) -> dict[str, Any]:
    """Return a generation as JSON; if its manifest cannot be read, with the reason as ``error`` instead."""
    described: dict[str, Any] = {"generation": name, "served": name == served}
    if isinstance(manifest, SnapshotError):
        return {**described, "error": str(manifest)}
    return {
        **described,
        "created": manifest.created,
        "papers": manifest.n_papers,
        "vectors": manifest.n_rows,
        "encoder": manifest.encoder.name,
        "segments": [segment.backend for segment in manifest.segments],
    }


def _generation_table(found: Sequence[tuple[str, Manifest | SnapshotError]], served: str) -> Table:
    """Render generations, oldest first, or that one cannot be read; the served one is marked."""
    table = Table(box=None, padding=(0, 2, 0, 0))  # so narrow that 80 columns hold all of it
    for name in ("", "generation", "created (UTC)", "papers", "vectors"):
        table.add_column(name, no_wrap=True)
    for name in ("encoder", "segments"):
        table.add_column(name, overflow="fold", min_width=8)
    for name, manifest in found:
        mark, style = ("→", "bold") if name == served else ("", "")
        if isinstance(manifest, SnapshotError):
            table.add_row(mark, name, "cannot be read", style="red")
            continue
        table.add_row(
            mark,
            name,
            f"{datetime.fromisoformat(manifest.created):%Y-%m-%d %H:%M}",
            f"{manifest.n_papers:,}",
            f"{manifest.n_rows:,}",
            manifest.encoder.name,
            ", ".join(
                f"{backend} ×{n}" if n > 1 else backend
                for backend, n in Counter(segment.backend for segment in manifest.segments).items()
            ),
            style=style,
        )
    return table
