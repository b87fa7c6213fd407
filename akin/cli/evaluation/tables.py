"""Output of figures as tables, Markdown, LaTeX or JSON, and the files of a measurement."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import RenderableType

from akin.cli.consoles import stdout
from indexer.files.durable import replace_file, storage_errors

# Characters that a system's name may have, but a file's name should not.
_FILE_NAME = re.compile(r"[^\w.]+")

if TYPE_CHECKING:  # takes seconds to import, and `akin --help` does not need it
    from evaluation.statistics.summary import Row, SystemComparison


class FigureFormat(StrEnum):
    """The formats in which figures are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    LATEX = "latex"
    JSON = "json"


Json = Annotated[
    Path | None, typer.Option("--json", help="Write the figures to this JSON file.", dir_okay=False)
]
Format = Annotated[FigureFormat, typer.Option("--format", help="Print tables, Markdown, LaTeX or JSON.")]


def show(
    tables: RenderableType,
    rows: Sequence["Row"],
    compared: Sequence["SystemComparison"],
    *,
    form: FigureFormat,
    notes: Sequence[str] = (),
) -> None:
    """Print the figures in the format ``form``; ``tables`` are those for the terminal, with their notes."""
    if form is FigureFormat.TABLE:
        stdout.print(tables)
        return
    if form is FigureFormat.JSON:
        print_json(as_json(rows, compared, notes))
        return
    from evaluation.report.tables import FORMATS, LEGEND, comparison_table, figure_tables

    written = [*figure_tables(rows), *([comparison_table(compared)] if compared else [])]
    comment = "% " if form is FigureFormat.LATEX else ""
    remarks = [f"{comment}{LEGEND}"] * bool(compared) + [f"{comment}Note: {note}" for note in notes]
    text = "\n\n".join([*(FORMATS[form](table) for table in written), *remarks])
    stdout.print(text, soft_wrap=True)


def as_json(
    rows: Sequence["Row"], compared: Sequence["SystemComparison"], notes: Sequence[str]
) -> dict[str, Any]:
    """Return figures as an object of JSON."""
    return {
        "rows": [asdict(row) for row in rows],
        "comparisons": [asdict(each) for each in compared],
        "notes": list(notes),
    }


def print_json(figures: dict[str, Any]) -> None:
    """Print an object of JSON."""
    stdout.print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode(), soft_wrap=True)


def write_json(path: Path | None, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows to a file as a JSON list of objects, unless ``path`` is ``None``."""
    if path is not None:
        with storage_errors(path):
            replace_file(path, orjson.dumps(list(rows), option=orjson.OPT_INDENT_2))


def write_files(measured: Any, *, json_file: Path | None, runs: Path | None, report: Path | None) -> None:
    """Write the requested files of a measurement; raises StorageError."""
    write_json(json_file, [asdict(row) for row in measured.rows])
    if runs is not None:
        with storage_errors(runs):
            runs.mkdir(parents=True, exist_ok=True)
        for run in measured.runs:
            # The format allows no spaces in a name, but the path of an encoder may have some.
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
