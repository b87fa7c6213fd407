"""Commands on an indexed collection: delete, purge, compact, backup, migrate, upgrade."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from akin.cli.collection.ids import read_ids
from akin.cli.consoles import stderr, stdout
from akin.cli.options import CatalogUrl, Data, Device, Folder, Keep, MaybeData, catalog_place, data_folder
from akin.cli.progress import show_progress
from indexer.catalog.catalog import Catalog
from indexer.catalog.database import sqlite_file
from indexer.catalog.migrations import NEWEST
from indexer.catalog.migrations import migrate as migrate_catalog
from indexer.collection.delete import delete_papers
from indexer.collection.maintenance.backup import back_up
from indexer.collection.maintenance.upgrade import upgrade as upgrade_collection
from indexer.collection.merging import compact as compact_snapshot
from indexer.collection.purge import purge_papers
from indexer.files.data_folder import KEEP
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.opening import open_snapshot
from models.counts import counted
from models.errors import InputError

Ids = Annotated[list[str] | None, typer.Argument(help="Ids of papers.", show_default=False)]
FromFile = Annotated[
    Path | None,
    typer.Option(help="A file with one id per line; `-`: standard input.", dir_okay=False),
]


def delete(
    ids: Ids = None,
    *,
    data: Data,
    from_file: FromFile = None,
    catalog: CatalogUrl = "",
    keep: Keep = KEEP,
) -> None:
    """Delete papers from the collection. Ids that it does not have are reported and skipped."""
    wanted = _wanted(ids, from_file)
    with Catalog.open_existing(catalog_place(data, catalog)) as opened:
        done = delete_papers(data, wanted, opened, keep=keep)
    for paper_id in done.unknown:
        stderr.print(f"not in the collection: {paper_id}", soft_wrap=True)
    if not done.n_deleted:
        stdout.print(f"Nothing was deleted; generation {done.manifest.generation} is served as before.")
        return
    stdout.print(
        f"Deleted {counted(done.n_deleted, 'paper')}; "
        f"generation {done.manifest.generation} is served from now on."
    )


def purge(
    ids: Ids = None,
    *,
    data: Data,
    from_file: FromFile = None,
    catalog: CatalogUrl = "",
) -> None:
    """Delete papers and erase their text from the catalog and every generation (takedowns).

    Also removes all batches, because their results may contain the text (unfinished ones are cancelled), and
    saved queries that contain a title or sentence of the papers. Backups keep the text. Ids that the
    collection never had are reported. The exit status is 1 if it never had any of the ids, or if a process
    still reads a generation with the text; in that case, run the command again later.
    """
    wanted = _wanted(ids, from_file)
    place = catalog_place(data, catalog)
    with show_progress(stderr) as on_progress, Catalog.open_existing(place) as opened:
        done = purge_papers(data, wanted, opened, on_progress=on_progress)
    for paper_id in done.unknown:
        stderr.print(f"not in the collection: {paper_id}", soft_wrap=True)
    if done.found_nothing and len(done.unknown) == len(set(wanted)):
        raise InputError("The collection never had a paper with such an id; nothing was purged.")
    stdout.print(
        f"Removed {counted(done.n_versions, 'version')} from the catalog and "
        f"{counted(len(done.removed), 'older generation')}; "
        f"generation {done.manifest.generation} is served {_since(done.is_new)}."
    )
    if done.n_batches:
        stdout.print(
            f"Removed {counted(done.n_batches, 'batch', 'batches')}, whose results may hold the text."
        )
    if done.n_queries:
        stdout.print(
            f"Removed {counted(done.n_queries, 'saved query', 'saved queries')}, which held the text."
        )
    if sqlite_file(place) is None:
        stdout.print("The catalog is in PostgreSQL: run VACUUM FULL to erase what its tables have freed.")
    stdout.print("Earlier backups still contain the text: make a new one, then remove them.")
    if done.leased:
        stderr.print(
            f"Not removed, because a process still reads it: generation {', '.join(done.leased)}. A service "
            "releases it within 15 minutes of its last use, or when it stops; then run the same command "
            "again.",
            style="yellow",
        )
        raise typer.Exit(1)


def _since(is_new: bool) -> str:
    return "from now on" if is_new else "as before"


def _wanted(ids: Sequence[str] | None, from_file: Path | None) -> list[str]:
    """Return the ids given to a command; raises InputError if there is none."""
    wanted = list(ids or ())
    if from_file is not None:
        wanted += read_ids(from_file)
    if not wanted:
        raise InputError("No id given: name the papers to delete, or a file of ids with --from-file.")
    return wanted


def compact(
    folder: Folder = None,
    data: MaybeData = None,
    device: Device = "auto",
    keep: Keep = KEEP,
) -> None:
    """Merge segments (up to a million vectors each) and remove deleted papers from them."""
    data = data_folder(folder, data)
    with show_progress(stderr) as on_progress:
        before = read_manifest(data, current_generation(data))
        # No reference is kept here, so that merged files are closed before others are read.
        manifest = compact_snapshot(
            data, open_snapshot(data, reread=False), device=device, keep=keep, on_progress=on_progress
        )
    if manifest.generation == before.generation:
        stdout.print(f"Generation {before.generation} has nothing to merge and no deleted papers.")
        return
    n_now = len(manifest.segments)
    stdout.print(
        f"Merged {counted(len(before.segments), 'segment')} into {'one' if n_now == 1 else n_now} of "
        f"{counted(manifest.n_papers, 'paper')} "
        f"(backend {manifest.backends}); "
        f"generation {manifest.generation} is served from now on."
    )


def backup(
    target: Annotated[Path, typer.Argument(help="A folder that does not exist yet.", file_okay=False)],
    data: Data,
    catalog: CatalogUrl = "",
) -> None:
    """Copy the collection and its catalog while they are in use. To restore, use the copy as --data."""
    place = catalog_place(data, catalog)
    manifest = back_up(data, target, catalog=place)
    stdout.print(
        f"Copied generation {manifest.generation} with {counted(manifest.n_papers, 'paper')}. "
        f"Serve the copy with: akin serve --data {target}",
        soft_wrap=True,
    )
    if sqlite_file(place) is None:
        stdout.print(
            "The catalog is in PostgreSQL: copy it now with pg_dump; an earlier dump does not "
            "match this backup."
        )


def migrate(folder: Folder = None, data: MaybeData = None, catalog: CatalogUrl = "") -> None:
    """Upgrade the catalog of an older version of Akin to the current schema, or change nothing.

    Back up the catalog first and stop everything that writes to it. Older versions cannot open it
    afterwards.
    """
    found = migrate_catalog(catalog_place(data_folder(folder, data), catalog))
    if found == NEWEST:
        stdout.print(f"The catalog has schema {NEWEST}, the newest that this version knows: nothing to do.")
    else:
        stdout.print(
            f"The catalog had {'no schema' if found is None else f'schema {found}'}; it has {NEWEST} now."
        )


def upgrade(
    folder: Folder = None,
    data: MaybeData = None,
    catalog: CatalogUrl = "",
    keep: Keep = KEEP,
) -> None:
    """Upgrade a collection of an older version of Akin to the current format, without encoding again.

    Upgrades the catalog's schema (as `akin migrate` does: back it up and stop everything that writes to it)
    and adds the word index to each segment. If the command is interrupted, run it again to resume.
    """
    data = data_folder(folder, data)
    with show_progress(stderr) as on_progress:
        done = upgrade_collection(data, catalog_place(data, catalog), keep=keep, on_progress=on_progress)
    if done.schema == NEWEST and not done.published:
        stdout.print(
            "Catalog and segments have the current format: nothing to do. "
            f"Generation {done.manifest.generation} is served as before."
        )
        return
    had = "no schema" if done.schema is None else f"schema {done.schema}"
    words = counted(done.n_segments, "segment got its words", "segments got their words")
    stdout.print(f"The catalog had {had}, it has {NEWEST}; {words}.")
    stdout.print(f"Generation {done.manifest.generation} is served {_since(done.published)}.")
