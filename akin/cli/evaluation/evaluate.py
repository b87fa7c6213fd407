"""``akin evaluate``: measurement of systems on a test collection, and comparison of runs."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from akin.cli.consoles import stderr
from akin.cli.evaluation import studies
from akin.cli.evaluation.scores import (
    comparison_row,
    comparison_table,
    measurement_tables,
    note_lines,
    reservations,
    row_tables,
    seed_table,
    verdicts,
)
from akin.cli.evaluation.tables import (
    FigureFormat,
    Format,
    Json,
    as_json,
    print_json,
    show,
    write_files,
    write_json,
)
from akin.cli.options import Device, chosen_precision, refuse_options
from akin.cli.progress import create_parent_folders, show_progress
from evaluation.collection import DESCRIPTIONS, SETS
from models.errors import InputError
from models.transport import Scorer
from models.types import Precision

if TYPE_CHECKING:  # takes seconds to import, and `akin --help` does not need it
    from evaluation.collection import Collection as TestCollection
    from evaluation.run import Run

_DEMO = Path(__file__).parents[2] / "demo"
# Added to a collection's description; the list of commands shows the description alone.
_WHERE_FROM = "\n\nIf PATH does not hold the collection, the error says where it comes from."

# Options that do not apply to labelled sentences, which rank no papers and are encoded anew.
_OF_RANKINGS = ("scorer", "tau", "words", "specificity", "cache", "runs")

app = typer.Typer(
    help="Measure relevance on a test collection, compare runs, or evaluate the candidate stage.",
    no_args_is_help=True,
)
app.add_typer(studies.app)


def _set_command(name: str, default: Any) -> Callable[..., None]:
    """Return the command that measures the collection ``name``; all collections have the same options."""

    def measure(
        context: typer.Context,
        path: Annotated[Path, typer.Argument(help="The folder that holds the collection.")] = default,
        encoder: Annotated[
            list[str] | None,
            typer.Option(help="A checkpoint or model folder; repeatable. Default: all on this machine."),
        ] = None,
        scorer: Annotated[list[Scorer] | None, typer.Option(help="Only this scorer; repeatable.")] = None,
        system: Annotated[
            list[str] | None, typer.Option(help="Only this system, by exact name; repeatable.")
        ] = None,
        tau: Annotated[
            float | None, typer.Option(min=1e-3, help="Temperature of the marginals. Default: the service's.")
        ] = None,
        words: Annotated[
            float | None,
            typer.Option(
                min=0, help="Weight of shared words in systems with :words. Default: the service's."
            ),
        ] = None,
        specificity: Annotated[
            float | None,
            typer.Option(
                min=0,
                help="Extra weight of specific sentences in systems with :words. Default: the service's.",
            ),
        ] = None,
        data: Annotated[
            Path | None, typer.Option(help="Take vectors from this data folder's snapshot.", file_okay=False)
        ] = None,
        cache: Annotated[
            Path | None, typer.Option(help="Cache vectors in this folder.", file_okay=False)
        ] = None,
        device: Device = "auto",
        precision: Annotated[
            Precision, typer.Option(help="Number format of the encoders; auto: the device's own.")
        ] = Precision.FLOAT32,
        limit_queries: Annotated[
            int | None, typer.Option(min=1, help="Measure only this many queries.")
        ] = None,
        functions: Annotated[
            list[Path] | None,
            typer.Option(
                help="Weights of a function encoder (only for functions); repeatable.", dir_okay=False
            ),
        ] = None,
        form: Format = FigureFormat.TABLE,
        json_file: Json = None,
        runs: Annotated[
            Path | None,
            typer.Option(help="Write one TREC run file per system into this folder.", file_okay=False),
        ] = None,
        report: Annotated[
            Path | None, typer.Option(help="Write an HTML report with charts to this file.", dir_okay=False)
        ] = None,
    ) -> None:
        unread = _OF_RANKINGS if name == "functions" else ("functions",)
        refuse_options(context, unread, f"akin evaluate {name} does not use {{given}}; leave it out.")
        if system and (encoder or scorer):
            raise InputError("--system names encoder and scorer; leave out --encoder and --scorer.")
        if data and precision is not Precision.FLOAT32:
            raise InputError("--data uses stored vectors; leave out --precision, or --data.")
        if precision is Precision.AUTO:
            precision = chosen_precision(precision, device) or precision
        create_parent_folders(json_file, report)
        from evaluation import measurement

        request = measurement.Request(
            systems=tuple(system or ()),
            encoders=tuple(encoder or ()),
            scorers=tuple(scorer or Scorer),
            tau=tau,
            words=words,
            specificity=specificity,
            data=data,
            cache=cache,
            device=device,
            precision=precision,
            limit_queries=limit_queries,
            functions=tuple(functions or ()),
        )
        with show_progress(stderr) as on_progress:
            measured = measurement.measure(name, path, request, on_progress=on_progress)
        from evaluation.statistics.summary import SystemComparison, over_seeds

        best = measured.best
        compared = [SystemComparison(best, other, found) for other, found in measured.against_best]
        seeds = seed_table(over_seeds(measured.rows))
        shown = Group(measurement_tables(measured), seeds, verdicts(measured))
        show(shown, measured.rows, compared, form=form, notes=reservations(measured.collection))
        write_files(measured, json_file=json_file, runs=runs, report=report)

    return measure


for _name, _description in DESCRIPTIONS.items():
    app.command(_name, help=f"{_description}{_WHERE_FROM * (_name != 'demo')}")(
        _set_command(_name, _DEMO if _name == "demo" else ...)
    )


Set = Annotated[str, typer.Option("--set", help=f"The test collection: {', '.join(SETS)}.")]
SetFolder = Annotated[Path | None, typer.Option("--path", help="The folder of the test collection.")]


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A run in the TREC format.", dir_okay=False)],
    b: Annotated[
        list[Path], typer.Argument(help="Runs to compare with A, over the same queries.", dir_okay=False)
    ],
    name: Set,
    path: SetFolder = None,
    form: Format = FigureFormat.TABLE,
    json_file: Json = None,
) -> None:
    """Test whether the difference between runs is significant: A minus B, paired by query.

    Each B is compared with A; p-values are corrected for the number of comparisons (Holm). Write runs with
    `akin evaluate SET PATH --runs DIR` or any other program.
    """
    create_parent_folders(json_file)
    from evaluation.statistics.bootstrap import resamples_for
    from evaluation.statistics.multiple import correct
    from evaluation.statistics.summary import ALL, SystemComparison
    from evaluation.statistics.summary import compare as compare_runs

    collection, runs = _runs(name, path, (a, *b))
    first, *others = (run.system for run in runs)
    n_facets = len({query.facet for query in collection.queries} | {ALL})
    n_resamples = resamples_for(len(b) * n_facets)
    apart = [compare_runs(collection, runs[0], other, n_resamples=n_resamples) for other in runs[1:]]
    found = iter(correct([each for of_run in apart for each in of_run]))
    corrected = [[next(found) for _ in of_run] for of_run in apart]
    beside = list(zip(others, corrected, strict=True))
    compared = [SystemComparison(first, other, each) for other, of_run in beside for each in of_run]
    tables = [comparison_table(first, other, of_run, collection) for other, of_run in beside]
    notes = reservations(collection)
    show(Group(*tables, *note_lines(notes)), [], compared, form=form, notes=notes)
    rows = [{"a": each.a, "b": each.b, **comparison_row(each.comparison)} for each in compared]
    rows = [{"set": collection.name, **row} for row in rows]
    write_json(json_file, rows)


@app.command()
def runs(
    files: Annotated[list[Path], typer.Argument(help="Runs in the TREC format.", dir_okay=False)],
    name: Set,
    path: SetFolder = None,
    mean: Annotated[
        bool, typer.Option("--mean", help="Also show their mean, for example of several training runs.")
    ] = False,
    form: Format = FigureFormat.TABLE,
    json_file: Json = None,
) -> None:
    """Measure runs of any program on a test collection, and their mean over the runs."""
    create_parent_folders(json_file)
    from evaluation.statistics.summary import summarise

    collection, read = _runs(name, path, files)
    rows = summarise(collection, read, with_mean=mean)
    notes = reservations(collection)
    show(Group(row_tables(rows, collection), *note_lines(notes)), rows, [], form=form, notes=notes)
    write_json(json_file, [asdict(row) for row in rows])


@app.command()
def suite(
    folder: Annotated[
        Path,
        typer.Argument(help="A folder with one subfolder per test collection.", exists=True, file_okay=False),
    ],
    json_file: Annotated[
        Path, typer.Option("--json", help="The JSON file to write or update.", dir_okay=False)
    ],
    pages: Annotated[
        list[Path] | None,
        typer.Option(help="Update the tables of this document from the file; repeatable.", dir_okay=False),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Measure only this part; repeatable.")] = None,
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    cache: Annotated[Path | None, typer.Option(help="Cache vectors in this folder.", file_okay=False)] = None,
    device: Device = "auto",
    limit_queries: Annotated[int | None, typer.Option(min=1, help="Measure only this many queries.")] = None,
    form: Format = FigureFormat.TABLE,
) -> None:
    """Measure every test collection in FOLDER and write one file; parts without a collection are kept.

    Subfolders: csfcube, scifact, cocitations, csabstruct, pubmed-rct, communicative-functions, relish,
    treccovid, scidocs, iclr2022, doris-mae, beir, reviewers, and collection, a data folder of `akin index`;
    and a file, authors.jsonl.gz. The demo grid is always measured.
    """
    from evaluation.suite.figures import read_sections
    from evaluation.suite.page import fill
    from evaluation.suite.running import run_suite
    from evaluation.tasks.task import TaskOptions

    create_parent_folders(json_file)
    words = ["akin evaluate suite FOLDER", *(["--encoder", encoder] if encoder != "minilm" else [])]
    words += [] if limit_queries is None else ["--limit-queries", str(limit_queries)]
    with show_progress(stderr) as on_progress:
        options = TaskOptions(encoder, cache, device, limit_queries, on_progress)
        ran = run_suite(
            folder,
            json_file,
            options,
            command=" ".join(words),
            only=tuple(only or ()),
            elsewhere={"demo": _DEMO},
            on_part=lambda name: stderr.print(f"{name}:"),
        )
    measured = {name: read_sections(json_file)[name].figures for name in ran.measured}
    if form is FigureFormat.JSON:
        print_json({name: as_json(each.rows, each.compared, each.notes) for name, each in measured.items()})
    for figures in measured.values() if form is not FigureFormat.JSON else ():
        tables = Group(row_tables(figures.rows), *note_lines(figures.notes))
        show(tables, figures.rows, figures.compared, form=form, notes=figures.notes)
    for name, reason in ran.left.items():
        stderr.print(f"{name} stays as it was: {reason}.")
    fill(tuple(pages or ()), json_file)


def _runs(name: str, path: Path | None, files: Sequence[Path]) -> "tuple[TestCollection, list[Run]]":
    """Return the collection and its runs; if system names are not unique, runs get file names or paths."""
    from evaluation import measurement

    collection = measurement.load_collection(name, path or (_DEMO if name == "demo" else Path()))
    read = [measurement.read_run(file, collection) for file in files]
    for names in ([run.system for run in read], [file.stem for file in files], [str(file) for file in files]):
        if len(set(names)) == len(read):
            break
    named = [replace(run, system=each) for run, each in zip(read, names, strict=True)]
    return measurement.with_unanswered(collection, named, read=named), named
