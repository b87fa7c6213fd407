"""``akin tune``: the setting of how much of the index each search examines."""

from typing import Annotated

import typer
from rich.table import Table

from akin.cli.consoles import stderr, stdout
from akin.cli.options import Device, Folder, Keep, MaybeData, data_folder
from akin.cli.progress import show_progress
from indexer.collection.maintenance.tuning import N_QUERIES, K
from indexer.collection.maintenance.tuning import tune as tune_collection
from indexer.files.data_folder import KEEP
from models.errors import InputError


def tune(
    folder: Folder = None,
    *,
    data: MaybeData = None,
    recall: Annotated[float, typer.Option(help="Share of the nearest sentences to find, up to 1.")] = 0.98,
    queries: Annotated[
        int, typer.Option(help="Number of sentences of the collection to use as queries.", min=1, max=10_000)
    ] = N_QUERIES,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure only; change nothing.")] = False,
    device: Device = "auto",
    keep: Keep = KEEP,
) -> None:
    """Measure the recall of an approximate index and set the search effort that reaches --recall.

    The ground truth is an exact search with sampled sentences. The collection keeps the setting, also for
    papers added later.
    """
    with show_progress(stderr) as on_progress:
        tuned = tune_collection(
            data_folder(folder, data),
            recall=recall,
            n_queries=queries,
            device=device,
            keep=keep,
            store=not dry_run,
            on_progress=on_progress,
        )
    if not tuned.tries:
        stdout.print("Every search compares all sentences, so there is nothing to tune.")
        return
    table = Table("effort", f"recall@{K}", "a look-up", title="Times as hard as usual")
    for each in tuned.tries:
        table.add_row(f"{each.effort:g}", f"{each.recall:.1%}", f"{each.ms:.2f} ms")
    stdout.print(table)
    if tuned.chosen is None:
        raise InputError(
            f"No effort up to {tuned.tries[-1].effort:g} finds {recall:.1%}: nothing was changed. Lower "
            "--recall, or reindex the collection with another --backend."
        )
    if dry_run:
        stdout.print(f"{tuned.chosen.effort:g} times the usual effort is enough. Nothing was changed.")
        return
    stdout.print(
        f"Generation {tuned.manifest.generation} is searched {tuned.chosen.effort:g} times as hard as usual "
        "from now on."
    )
