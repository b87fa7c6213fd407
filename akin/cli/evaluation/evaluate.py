"""``akin evaluate``: measure systems on a test collection, compare two runs, check the candidate stage."""

import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from akin.cli.consoles import stderr, stdout
from akin.cli.evaluation.scores import (
    candidate_table,
    comparison_row,
    comparison_table,
    facet_tables,
    item_tables,
    measurement_tables,
    reviewer_tables,
    verdicts,
)
from akin.cli.options import Device
from akin.cli.progress import make_room_for, show_progress
from evaluation.collection import SETS
from indexer.files.durable import replace_file, storage_errors
from models.errors import InputError
from models.transport import Scorer
from service.settings import settings_of

# What a system's name may hold and a file's had better not.
_FILE_NAME = re.compile(r"[^\w.]+")
_DEMO = Path(__file__).parents[2] / "demo"

app = typer.Typer(
    help="Measure relevance: on a test collection, between two runs, or of the candidate stage.",
    no_args_is_help=True,
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the figures here.", dir_okay=False)]


def _set_command(name: str, default: Any) -> Callable[..., None]:
    """The command that measures the collection ``name``; all collections have the same options."""

    def measure(
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
            float | None, typer.Option(min=1e-3, help="Temperature of the marginals; default: the service's.")
        ] = None,
        words: Annotated[
            float | None,
            typer.Option(min=0, help="What shared words weigh in systems :words; default: the service's."),
        ] = None,
        specificity: Annotated[
            float | None,
            typer.Option(
                min=0,
                help="How much more specific sentences count in systems :words; default: the service's.",
            ),
        ] = None,
        data: Annotated[
            Path | None, typer.Option(help="Take vectors from this data folder's snapshot.", file_okay=False)
        ] = None,
        cache: Annotated[
            Path | None, typer.Option(help="Keep vectors here between runs.", file_okay=False)
        ] = None,
        device: Device = "auto",
        limit_queries: Annotated[int | None, typer.Option(min=1, help="A quick look at so many.")] = None,
        functions: Annotated[
            list[Path] | None,
            typer.Option(
                help="Weights of a function encoder, for the set functions; repeatable.", dir_okay=False
            ),
        ] = None,
        json_file: Json = None,
        runs: Annotated[
            Path | None, typer.Option(help="Write one TREC run file a system here.", file_okay=False)
        ] = None,
        report: Annotated[
            Path | None, typer.Option(help="Write an HTML report with charts here.", dir_okay=False)
        ] = None,
    ) -> None:
        if system and (encoder or scorer):
            raise InputError("--system names encoder and scorer itself; leave out --encoder and --scorer.")
        make_room_for(json_file, report)
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
            limit_queries=limit_queries,
            functions=tuple(functions or ()),
        )
        with show_progress(stderr) as on_progress:
            measured = measurement.measure(name, path, request, on_progress=on_progress)
        stdout.print(measurement_tables(measured))
        stdout.print(verdicts(measured))
        _write(measured, json_file=json_file, runs=runs, report=report)

    return measure


for _name in SETS:
    app.command(_name, help=f"Measure systems on {_name}; a folder without it tells where to get it.")(
        _set_command(_name, _DEMO if _name == "demo" else ...)
    )


@app.command()
def facets(
    path: Annotated[Path, typer.Argument(help="CSAbstruct's folder, or one file of it.")],
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    tagger: Annotated[
        Path | None, typer.Option(help="Facet weights of your own (akin train facets).", dir_okay=False)
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep the train side's vectors here between runs.", file_okay=False)
    ] = None,
    device: Device = "auto",
    json_file: Json = None,
) -> None:
    """Measure the facet tagger against what people said of each sentence, and against simple baselines.

    Reads test.jsonl of the folder, else dev.jsonl; the baselines are trained on train.jsonl, if it is there.
    """
    make_room_for(json_file)
    from models.encoder import load_encoder

    loaded = load_encoder(encoder, device=device)
    with show_progress(stderr) as on_progress:
        from evaluation.tasks.facets import measure_facets

        measured = measure_facets(path, loaded, tagger=tagger, cache=cache, on_progress=on_progress)
    stdout.print(facet_tables(measured))
    _write_json(json_file, [asdict(row) for row in measured.rows])


@app.command()
def reviewers(
    path: Annotated[
        Path, typer.Argument(help="The gold standard's folder; one without it tells where to get it.")
    ],
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    datasets: Annotated[
        str, typer.Option(help="Which of its datasets: those whose names begin so.")
    ] = "d_20_",
    data: Annotated[
        Path | None,
        typer.Option(help="Keep the papers encoded in this folder between runs.", file_okay=False),
    ] = None,
    device: Device = "auto",
    json_file: Json = None,
) -> None:
    """Measure how well affinities order the papers that researchers rated, beside published predictions.

    The gold standard of Stelmakh et al.; each paper is encoded once, whatever the datasets.
    """
    make_room_for(json_file)
    from models.annotator import load_annotator

    annotator = load_annotator(encoder, device=device)
    with show_progress(stderr) as on_progress:
        from evaluation.tasks.reviewers import measure_reviewers

        measured = measure_reviewers(
            path, annotator, data=data, datasets=datasets, device=device, on_progress=on_progress
        )
    stdout.print(reviewer_tables(measured))
    _write_json(json_file, [asdict(row) for row in measured.rows])


@app.command()
def authors(
    path: Annotated[Path, typer.Argument(help="A corpus with years and authors.", dir_okay=False)],
    split: Annotated[int, typer.Option(help="Profiles are of papers before this year.")] = 2019,
    n_authors: Annotated[int, typer.Option("--authors", min=2, help="How many are drawn.")] = 150,
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    data: Annotated[
        Path | None,
        typer.Option(help="Keep the papers encoded in this folder between runs.", file_okay=False),
    ] = None,
    device: Device = "auto",
    json_file: Json = None,
) -> None:
    """Measure ways to sum up how near an author's earlier papers are to later ones, by who wrote these.

    What affinities were chosen on: later papers of the author, of co-authors, of theirs, and of anybody.
    """
    make_room_for(json_file)
    from models.annotator import load_annotator

    annotator = load_annotator(encoder, device=device)
    with show_progress(stderr) as on_progress:
        from evaluation.tasks.authors import measure_authors

        measured = measure_authors(
            path,
            annotator,
            split=split,
            n_authors=n_authors,
            data=data,
            device=device,
            on_progress=on_progress,
        )
    stdout.print(reviewer_tables(measured, name="authors"))
    _write_json(json_file, [asdict(row) for row in measured.rows])


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A run in the TREC format.", dir_okay=False)],
    b: Annotated[Path, typer.Argument(help="Another run over the same queries.", dir_okay=False)],
    name: Annotated[str, typer.Option("--set", help=f"The test collection: {', '.join(SETS)}.")],
    path: Annotated[Path | None, typer.Option(help="The folder that holds it.")] = None,
    json_file: Json = None,
) -> None:
    """Say whether the difference of two runs can be told from chance: A minus B, paired by query.

    Runs are what `akin evaluate SET PATH --runs DIR` writes, or any other program.
    """
    from evaluation import measurement

    collection = measurement.load_collection(name, path or (_DEMO if name == "demo" else Path()))
    first, second = measurement.read_run(a, collection), measurement.read_run(b, collection)
    names = (first.system, second.system) if first.system != second.system else (a.stem, b.stem)
    from evaluation.statistics.summary import compare

    found = compare(collection, first, second)
    stdout.print(comparison_table(names[0], names[1], found, collection))
    identity = {"set": collection.name, "a": names[0], "b": names[1]}
    _write_json(json_file, [{**identity, **comparison_row(comparison)} for comparison in found])


@app.command()
def candidates(
    data: Annotated[Path, typer.Option(help="The data folder.", file_okay=False)],
    backend: Annotated[
        list[str] | None, typer.Option(help="Also build and measure this index; repeatable.")
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="Papers drawn as queries.")] = 50,
    seed: Annotated[int, typer.Option(help="Which papers are drawn.")] = 0,
    tau: Annotated[float | None, typer.Option(min=1e-3, help="Temperature of the marginals.")] = None,
    device: Device = "cpu",
    json_file: Json = None,
) -> None:
    """Recall of the candidate stage at each depth, against exact search and against re-ranking everything."""
    from evaluation.tasks import candidates as stage

    with show_progress(stderr) as on_progress:
        found = stage.measure_candidates(
            data,
            backends=tuple(backend or ()),
            n_queries=queries,
            seed=seed,
            tau=tau,
            device=device,
            on_progress=on_progress,
        )
    _write_json(json_file, [asdict(row) for row in found])
    stdout.print(candidate_table(found))


@app.command()
def items(
    data: Annotated[Path, typer.Option(help="The data folder.", file_okay=False)],
    questions: Annotated[
        Path | None,
        typer.Option(help="Ask these: a line each, the paper's id, a tab, the question.", dir_okay=False),
    ] = None,
    titles: Annotated[int, typer.Option(min=1, help="Else so many papers, drawn, by their titles.")] = 500,
    seed: Annotated[int, typer.Option(help="Which papers are drawn.")] = 0,
    device: Device = "cpu",
    json_file: Json = None,
) -> None:
    """Ask for known papers as the service is asked: by their titles, or by questions of your own.

    How often the paper is first, or among the first ten, with what the service counts and without.
    """
    make_room_for(json_file)
    with show_progress(stderr) as on_progress:
        from evaluation.tasks.known_items import measure_items

        measured = measure_items(
            settings_of(data=data, device=device),
            questions=questions,
            n_titles=titles,
            seed=seed,
            on_progress=on_progress,
        )
    stdout.print(item_tables(measured))
    _write_json(json_file, [asdict(row) for row in measured.rows])


def _write(measured: Any, *, json_file: Path | None, runs: Path | None, report: Path | None) -> None:
    """Write the files that were asked for."""
    _write_json(json_file, [asdict(row) for row in measured.rows])
    if runs is not None:
        with storage_errors(runs):
            runs.mkdir(parents=True, exist_ok=True)
        for run in measured.runs:
            # The format has no name of several words, and an encoder's folder may have one.
            tagged = replace(run, system="_".join(run.system.split()))
            from evaluation.run import write_trec

            write_trec(tagged, runs / f"{_FILE_NAME.sub('-', run.system)}.run")
    if report is not None:
        from evaluation.report.report import write_report

        write_report(
            report,
            measured.collection,
            measured.runs,
            measured.rows,
            explanations=measured.explanations,
            command=shlex.join(["akin", *sys.argv[1:]]),
        )


def _write_json(path: Path | None, rows: list[dict[str, Any]]) -> None:
    if path is not None:
        with storage_errors(path):
            replace_file(path, orjson.dumps(rows, option=orjson.OPT_INDENT_2))
