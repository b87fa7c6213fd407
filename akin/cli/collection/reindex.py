"""``akin reindex``: encoding of a collection again, comparison of old and new answers, and switch-over."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from akin.cli.collection.agreement import Agreement, compare
from akin.cli.collection.index import Dtype, absolute, quarantined_papers
from akin.cli.consoles import stderr, stdout
from akin.cli.options import (
    CatalogUrl,
    Device,
    Folder,
    FunctionsFile,
    Keep,
    MaybeData,
    NumberFormat,
    TaggerFile,
    catalog_place,
    chosen_precision,
    data_folder,
)
from akin.cli.progress import show_progress
from indexer.catalog.catalog import Catalog
from indexer.catalog.database import expect_existing
from indexer.collection.reindex import PreparedCollection, prepare, publish_prepared, reindex_lock
from indexer.encoding.arguments import BuildArguments, built_with, load_models
from indexer.encoding.on_devices import encoding
from indexer.files.data_folder import KEEP
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.counts import counted
from models.errors import SnapshotCorruptError, SnapshotMissingError
from models.types import Precision, ProgressFn
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.settings import settings_of


def reindex(
    folder: Folder = None,
    data: MaybeData = None,
    encoder: Annotated[
        str, typer.Option(help="A checkpoint's name, or a model folder; empty: the collection's.")
    ] = "",
    tagger: TaggerFile = None,
    functions: FunctionsFile = None,
    precision: NumberFormat = None,
    dtype: Annotated[Dtype | None, typer.Option(help="How vectors are stored (auto).")] = None,
    backend: Annotated[
        str, typer.Option(help="auto (by size), exact, flat, hnsw, ivfpq or ivfsq; empty: the collection's.")
    ] = "",
    device: Device = "auto",
    sample: Annotated[
        int, typer.Option(min=0, max=10_000, help="Number of papers to compare answers for; 0: none.")
    ] = 50,
    compare_only: Annotated[
        bool,
        typer.Option(
            "--compare-only",
            help="Compare only, and keep what was encoded: the same command without this "
            "option switches over.",
        ),
    ] = False,
    catalog: CatalogUrl = "",
    keep: Keep = KEEP,
) -> None:
    """Encode every paper again, compare the new answers with the old ones, and switch over.

    Needs no corpus. The old generation answers searches until the new one is complete; papers added
    meanwhile are included. If the command is interrupted, run it again to resume.
    """
    data = data_folder(folder, data)
    given = BuildArguments(
        encoder=encoder,
        backend=backend,
        dtype=dtype.value if dtype else "auto",
        device=device,
        precision=chosen_precision(precision, device) or Precision.FLOAT32,
        tagger=absolute(tagger),
        functions=absolute(functions),
    )
    place = catalog_place(data, catalog)
    expect_existing(place)
    arguments = _completed(given, _usual(data, encoder), keeps_precision=precision is None)
    annotator = load_models(arguments)
    # A model folder by its absolute name, so that the service finds it from any working directory.
    arguments = replace(arguments, encoder=annotator.encoder.spec.name)
    with show_progress(stderr) as on_progress, reindex_lock(data), Catalog.open_existing(place) as papers:
        prepared = prepare(
            data,
            annotator,
            papers,
            arguments=arguments,
            on_progress=on_progress,
            encode=encoding(annotator, arguments),
        )
        comparison = _compared(data, prepared.snapshot, annotator, sample, on_progress)
        manifest = None
        if not compare_only:
            manifest = publish_prepared(data, prepared, annotator, papers, keep=keep)
    _report(data, prepared, comparison, manifest)


def _report(
    data: Path, prepared: PreparedCollection, comparison: Table | str, manifest: Manifest | None
) -> None:
    if prepared.reused_papers:
        reused = counted(prepared.reused_papers, "paper was", "papers were")
        stdout.print(f"{reused} encoded by an earlier run and reused.")
    stderr.print(quarantined_papers(prepared.quarantined))
    stdout.print(comparison)
    if manifest is None:
        stdout.print(
            f"{counted(len(prepared.snapshot), 'paper is', 'papers are')} prepared; nothing was switched "
            "over. To serve them, run the same command without --compare-only."
        )
        return
    stdout.print(
        f"Generation {manifest.generation} with {counted(manifest.n_papers, 'paper')} is served from now on "
        f"(encoder {manifest.encoder.name})."
    )
    stdout.print(f"Undo it with: akin snapshot rollback --data {data}", soft_wrap=True)


def _usual(data: Path, encoder: str) -> BuildArguments | None:
    """Return the collection's settings; ``None`` without any, or if they are lost and ``encoder`` is given.

    Raises SnapshotCorruptError or SnapshotMissingError if they are damaged or lost and no encoder is given.
    """
    try:
        return built_with(data)
    except SnapshotMissingError:
        if encoder:
            return None
        raise
    except SnapshotCorruptError as error:
        if encoder:
            return None
        raise SnapshotCorruptError(
            "The settings of the collection cannot be read: name its encoder with --encoder, and give the "
            f"other options that it was created with. ({error})"
        ) from error


def _completed(
    given: BuildArguments, usual: BuildArguments | None, *, keeps_precision: bool
) -> BuildArguments:
    """Fill in missing options from the collection's settings; those of its encoder only if it is kept."""
    if usual is None:
        return replace(given, encoder=given.encoder or "minilm", backend=given.backend or "auto")
    completed = replace(given, encoder=given.encoder or usual.encoder, backend=given.backend or usual.backend)
    if completed.encoder != usual.encoder:
        return completed
    return replace(
        completed,
        precision=usual.precision if keeps_precision else given.precision,
        tagger=given.tagger or usual.tagger,
        functions=given.functions or usual.functions,
    )


def _compared(
    data: Path, snapshot: Snapshot, annotator: Annotator, n_questions: int, on_progress: ProgressFn
) -> Table | str:
    """Return a table of both generations side by side to decide by, or why there is none."""
    if not n_questions:
        return "Nothing was compared."
    # The collection's encoder, whatever AKIN_ENCODER is; in this process, whatever AKIN_RAY is.
    settings = settings_of(data=data, encoder="", ray="")
    try:
        served = open_engine(settings)
    except SnapshotMissingError:
        return "There is no served generation to compare with."
    except SnapshotCorruptError as error:
        return f"The served generation is damaged, so nothing was compared. ({error})"
    new = SearchEngine(snapshot, lambda: annotator, n_candidates=settings.candidates)
    agreement = compare(served, new, n_questions=n_questions, on_progress=on_progress)
    return _table(agreement, served.snapshot, snapshot)


def _table(agreement: Agreement, served: Snapshot, new: Snapshot) -> Table:
    table = Table("", f"served ({served.generation})", "new")
    table.add_row("encoder", served.manifest.encoder.name, new.manifest.encoder.name)
    table.add_row("papers", f"{len(served):,}", f"{len(new):,}")
    table.add_row("vectors", f"{served.n_rows:,}", f"{new.n_rows:,}")
    table.add_row("on disk", _mib(served), _mib(new))
    one, other = agreement.one, agreement.other
    table.add_row("search by id, median", _ms(one.by_id_ms), _ms(other.by_id_ms))
    table.add_row("search by a pasted paper", _ms(one.pasted_ms), _ms(other.pasted_ms), end_section=True)
    n_queries = f"of {counted(agreement.n_papers, 'paper')}"
    table.add_row("first 10 in common", n_queries, _share(agreement.first_10))
    table.add_row("first 20 in common", "", _share(agreement.first_20))
    table.add_row(
        "order of those (Kendall's tau)", "", "-" if agreement.tau is None else f"{agreement.tau:.2f}"
    )
    return table


def _mib(snapshot: Snapshot) -> str:
    return f"{sum(segment.size_bytes for segment in snapshot.segments) / 2**20:,.1f} MiB"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:,.1f} ms"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
