"""``akin status``: the parts of a collection, as tables or JSON."""

from dataclasses import asdict
from typing import Annotated, Any

import orjson
import typer
from rich.filesize import decimal
from rich.table import Table

from akin.cli.consoles import stdout
from akin.cli.options import CatalogUrl, Folder, MaybeData, catalog_place, data_folder
from indexer.catalog.catalog import Catalog
from indexer.collection.status import NAMED, Status, status_of
from models.counts import counted


def status(
    folder: Folder = None,
    data: MaybeData = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    catalog: CatalogUrl = "",
) -> None:
    """Show a collection's papers, segments, pending and quarantined papers, generations and disk use."""
    data = data_folder(folder, data)
    place = catalog_place(data, catalog)
    with Catalog.open_existing(place) as opened:
        found = status_of(data, opened, place, named=None if as_json else NAMED)
    if as_json:
        typer.echo(orjson.dumps(_as_json(found), option=orjson.OPT_INDENT_2))
        return
    stdout.print(_overview(found))
    stdout.print(_segment_table(found))
    stdout.print(_generation_table(found))


def _overview(found: Status) -> Table:
    manifest, disk = found.manifest, found.disk
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_row("generation", f"{manifest.generation}, made {manifest.created} (UTC)")
    table.add_row("encoder", manifest.encoder.name)
    table.add_row("papers", f"{manifest.n_papers:,}")
    waiting = f"{found.pending:,}, not yet searchable" if found.pending else "0"
    table.add_row("pending", waiting, style="yellow" if found.pending else "")
    if found.staged:
        table.add_row("staged", f"{found.staged:,}, of an unfinished akin index", style="yellow")
    quarantined = found.quarantine
    table.add_row("quarantined", f"{quarantined.n_papers:,}", style="yellow" if quarantined.n_papers else "")
    for paper in quarantined.first:
        table.add_row("", f"{paper.paper_id}: {paper.reason}")
    if others := quarantined.n_papers - len(quarantined.first):
        table.add_row("", f"and {others:,} more: --json lists all")
    table.add_row(
        "disk",
        f"{decimal(disk.segments)} segments, {decimal(disk.catalog)} catalog, "
        f"{decimal(disk.building)} unfinished work",
    )
    table.add_row("a merge", _gain(found))
    return table


def _gain(found: Status) -> str:
    before, after = len(found.segments), found.n_segments_merged
    if before == after and not found.reclaimable_bytes:
        return "would change nothing"
    return (
        f"(akin compact) would make {counted(after, 'segment')} of {before} and free about "
        f"{decimal(found.reclaimable_bytes)}"
    )


def _segment_table(found: Status) -> Table:
    table = Table("segment", "papers", "deleted", "vectors", "index", "size")
    for each in found.segments:
        counts = (f"{each.n_papers - each.n_deleted:,}", f"{each.n_deleted:,}", f"{each.n_rows:,}")
        table.add_row(each.name, *counts, each.backend, decimal(each.size_bytes))
    return table


def _generation_table(found: Status) -> Table:
    table = Table("", "generation", "created (UTC)", "papers")
    for each in found.generations:
        mark = "→" if each.name == found.manifest.generation else ""
        if each.problem:
            table.add_row(mark, each.name, "cannot be read", style="red")
        else:
            table.add_row(mark, each.name, each.created, f"{each.n_papers:,}")
    return table


def _as_json(found: Status) -> dict[str, Any]:
    manifest = found.manifest
    return {
        "generation": manifest.generation,
        "created": manifest.created,
        "encoder": manifest.encoder.name,
        "papers": manifest.n_papers,
        "vectors": manifest.n_rows,
        "pending": found.pending,
        "staged": found.staged,
        "quarantine": {
            "papers": found.quarantine.n_papers,
            "listed": [{"id": paper.paper_id, "reason": paper.reason} for paper in found.quarantine.first],
        },
        "segments": [asdict(each) for each in found.segments],
        "generations": [asdict(each) for each in found.generations],
        "disk": asdict(found.disk),
        "merge": {"segments": found.n_segments_merged, "reclaimable_bytes": found.reclaimable_bytes},
    }
