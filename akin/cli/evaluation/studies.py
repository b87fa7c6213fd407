"""The ``akin evaluate`` commands that measure one stage or one task."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from akin.cli.consoles import stderr
from akin.cli.evaluation.study_scores import candidate_table, facet_tables, item_tables, reviewer_tables
from akin.cli.evaluation.tables import FigureFormat, Format, Json, show, write_json
from akin.cli.options import Data, Device
from akin.cli.progress import create_parent_folders, show_progress
from service.settings import settings_of

app = typer.Typer()


@app.command()
def facets(
    path: Annotated[
        Path, typer.Argument(help="The folder of CSAbstruct or PubMed RCT, or one of its files.")
    ],
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    tagger: Annotated[
        Path | None,
        typer.Option(help="Weights of your own facet tagger (akin train facets).", dir_okay=False),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Cache the vectors of the training sentences in this folder.", file_okay=False),
    ] = None,
    device: Device = "auto",
    form: Format = FigureFormat.TABLE,
    json_file: Json = None,
) -> None:
    """Measure the facet tagger on labelled sentences, next to simple baselines.

    Reads the first of test, dev and train in the folder (.jsonl, else .txt). The baselines are trained on
    train.jsonl, if it is there and not measured itself.
    """
    create_parent_folders(json_file)
    from models.encoder import load_encoder

    loaded = load_encoder(encoder, device=device)
    with show_progress(stderr) as on_progress:
        from evaluation.tasks.facets import measure_facets

        measured = measure_facets(path, loaded, tagger=tagger, cache=cache, on_progress=on_progress)
    show(facet_tables(measured), measured.rows, measured.compared, form=form, notes=measured.notes)
    write_json(json_file, [asdict(row) for row in measured.rows])


@app.command()
def reviewers(
    path: Annotated[
        Path,
        typer.Argument(
            help="The folder of the gold standard. If it is not there, the error says where to download it."
        ),
    ],
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    datasets: Annotated[
        str, typer.Option(help="Measure only the datasets whose names begin with this.")
    ] = "d_20_",
    data: Annotated[
        Path | None,
        typer.Option(help="Cache the encoded papers in this folder.", file_okay=False),
    ] = None,
    device: Device = "auto",
    form: Format = FigureFormat.TABLE,
    json_file: Json = None,
) -> None:
    """Measure reviewer affinities on papers that researchers rated, next to published predictions.

    Uses the gold standard of Stelmakh et al.
    """
    create_parent_folders(json_file)
    from models.annotator import load_annotator

    annotator = load_annotator(encoder, device=device)
    with show_progress(stderr) as on_progress:
        from evaluation.tasks.reviewers import measure_reviewers

        measured = measure_reviewers(
            path, annotator, data=data, datasets=datasets, device=device, on_progress=on_progress
        )
    show(reviewer_tables(measured), measured.rows, measured.compared, form=form, notes=measured.notes)
    write_json(json_file, [asdict(row) for row in measured.rows])


@app.command()
def authors(
    path: Annotated[Path, typer.Argument(help="A corpus file with years and authors.", dir_okay=False)],
    split: Annotated[int, typer.Option(help="Profiles hold the papers before this year.")] = 2019,
    n_authors: Annotated[int, typer.Option("--authors", min=2, help="Number of authors to sample.")] = 150,
    encoder: Annotated[str, typer.Option(help="A checkpoint's name or folder.")] = "minilm",
    data: Annotated[
        Path | None,
        typer.Option(help="Cache the encoded papers in this folder.", file_okay=False),
    ] = None,
    device: Device = "auto",
    form: Format = FigureFormat.TABLE,
    json_file: Json = None,
) -> None:
    """Compare ways to compute an author's affinity to a paper from the author's earlier papers.

    The papers to rank are later papers of the author, of co-authors, of their co-authors, and of others.
    """
    create_parent_folders(json_file)
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
    tables = reviewer_tables(measured, name="authors")
    show(tables, measured.rows, measured.compared, form=form, notes=measured.notes)
    write_json(json_file, [asdict(row) for row in measured.rows])


@app.command()
def candidates(
    data: Data,
    backend: Annotated[
        list[str] | None, typer.Option(help="Also build and measure this index backend; repeatable.")
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="Number of papers to sample as queries.")] = 50,
    seed: Annotated[int, typer.Option(help="Random seed of the sample.")] = 0,
    tau: Annotated[float | None, typer.Option(min=1e-3, help="Temperature of the marginals.")] = None,
    device: Device = "cpu",
    form: Format = FigureFormat.TABLE,
    json_file: Json = None,
) -> None:
    """Measure the candidate stage's recall at each depth, against exact search and full re-ranking."""
    create_parent_folders(json_file)
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
    write_json(json_file, [asdict(row) for row in found])
    show(candidate_table(found), stage.figure_rows(found), [], form=form)


@app.command()
def items(
    data: Data,
    questions: Annotated[
        Path | None,
        typer.Option(help="A file of questions: paper id, tab, question on each line.", dir_okay=False),
    ] = None,
    titles: Annotated[
        int, typer.Option(min=1, help="Without --questions: number of papers to sample and search by title.")
    ] = 500,
    seed: Annotated[int, typer.Option(help="Random seed of the sample.")] = 0,
    device: Device = "cpu",
    form: Format = FigureFormat.TABLE,
    json_file: Json = None,
) -> None:
    """Measure how often a known paper is found by its title, or by questions of your own.

    Reports how often the paper is first or among the first ten, with and without shared words.
    """
    create_parent_folders(json_file)
    with show_progress(stderr) as on_progress:
        from evaluation.tasks.known_items import measure_items

        measured = measure_items(
            settings_of(data=data, device=device, ray=""),
            questions=questions,
            n_titles=titles,
            seed=seed,
            on_progress=on_progress,
        )
    show(item_tables(measured), measured.figures, [], form=form)
    write_json(json_file, [asdict(row) for row in measured.rows])
