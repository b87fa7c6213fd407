"""Display of the figures of one stage or task: facets, reviewers, candidates, known items."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from akin.cli.evaluation.scores import measure_table, note_lines, plain_table, signed
from models.counts import counted
from models.types import Facet

if TYPE_CHECKING:  # their libraries take seconds to import, and `akin --help` does not need them
    from evaluation.statistics.bootstrap import Interval
    from evaluation.tasks.candidates import CandidateRow
    from evaluation.tasks.facets import FacetMeasurement
    from evaluation.tasks.known_items import ItemMeasurement
    from evaluation.tasks.reviewers import ReviewerMeasurement

_ALL = "all"
_VERDICTS = {
    "yes": "resolvable",
    "alone": "resolvable alone, not after correction for all comparisons",
    "no": "not resolvable",
}
_MAX_MISSED = 10  # the most queries shown, for each way to search, that do not find their paper first


def facet_tables(measured: "FacetMeasurement") -> Group:
    """Render every system's figures, the tagger's confusion matrix, and whether it beats the others."""
    overall = [row for row in measured.rows if row.facet == _ALL]
    single = [row for row in measured.rows if row.facet != _ALL]
    shown: list[Text | Table] = [
        Text(
            f"facets ({overall[0].n:,} sentences of {measured.n_papers:,} abstracts), percent", style="bold"
        ),
        measure_table(overall, columns="measure"),
        Text("F1 of each facet, percent", style="bold"),
        measure_table(single),
        Text("Below each value: its 95 % interval, abstracts resampled.", style="dim"),
        Text(f"Facets by {measured.tagger} against labels, number of sentences", style="bold"),
        _confusion_table(measured),
    ]
    for system, found in measured.differences:
        role = ", the best baseline" if system == measured.best_baseline else ""
        verdict = _VERDICTS[found.verdict]
        line = f"{measured.tagger} − {system}{role}: {found.measure} {signed(found)} ({verdict})"
        shown.append(Text(line, style="bold" if role else ""))
    return Group(*shown, *note_lines(measured.notes))


def reviewer_tables(measured: "ReviewerMeasurement", *, name: str = "reviewers") -> Group:
    """Render loss, easy and hard of Akin and of published predictions, and the differences of losses."""
    heading = f"{name} ({measured.n_ratings:,} ratings of {measured.n_reviewers:,} researchers), percent"
    shown: list[Text | Table] = [
        Text(heading, style="bold"),
        measure_table(measured.rows, columns="measure", least={"loss"}),
        Text(
            "For the loss, lower is better. Below each value: its 95 % interval, researchers resampled.",
            "dim",
        ),
    ]
    for system, found in measured.differences:
        shown.append(Text(f"akin − {system}: {found.measure} {signed(found)} ({_VERDICTS[found.verdict]})"))
    return Group(*shown, *note_lines(measured.notes))


def _confusion_table(measured: "FacetMeasurement") -> Table:
    facets = [facet.value for facet in Facet]
    table = plain_table()
    table.add_column("labelled \\ tagged")
    for facet in facets:
        table.add_column(facet, justify="right")
    for i, (facet, counts) in enumerate(zip(facets, measured.confusion.tolist(), strict=True)):
        cells = [Text(f"{count:,}", style="bold" if i == j else "") for j, count in enumerate(counts)]
        table.add_row(facet, *cells)
    return table


def candidate_table(rows: Sequence["CandidateRow"]) -> Group:
    """Render a line for each backend and depth."""
    measures = sorted({row.measure for row in rows})
    table = plain_table()
    table.add_column("backend")
    table.add_column("depth", justify="right")
    for measure in measures:
        table.add_column(measure, justify="right")
    cells = {(row.backend, row.depth, row.measure): row for row in rows}
    for backend, depth in dict.fromkeys((row.backend, row.depth) for row in rows):
        found = [cells.get((backend, depth, measure)) for measure in measures]
        shown = ("" if row is None else _bounded(row) for row in found)
        table.add_row(backend, f"{depth}", *shown)
    explained = Text(
        "recall: of the papers that the exact index finds; top@20: of the first 20 when every paper is "
        "re-ranked (at most half at depth 10).",
        style="dim",
    )
    heading = f"Candidates of {counted(rows[0].n, 'query', 'queries')}, percent"
    return Group(Text(heading, style="bold"), table, explained)


def item_tables(measured: "ItemMeasurement") -> Group:
    """Render a line for each way to search and the default's lead over it, then queries not found first."""
    measures = list(dict.fromkeys(row.measure for row in measured.rows))
    table = plain_table()
    for column in ("", *measures):
        table.add_column(column, justify="right" if column else "left")
    cells = {(row.way, row.measure): row for row in measured.rows}
    for way in dict.fromkeys(row.way for row in measured.rows):
        rows = [cells[way, measure] for measure in measures]
        table.add_row(way, *(_bounded(row.found) for row in rows))
        if all(row.difference is not None for row in rows):
            table.add_row(
                Text("  the default minus this", style="dim"),
                *(_bounded(row.difference, sign="+") for row in rows if row.difference is not None),
            )
    shown: list[Text | Table] = [
        Text(
            f"{counted(measured.rows[0].found.n, 'known paper')} among {measured.n_papers:,}, percent",
            style="bold",
        ),
        table,
    ]
    for way, missed in measured.missed.items():
        named = [f"  {'not found' if rank is None else rank}: {text}" for text, rank in missed[:_MAX_MISSED]]
        if named:
            shown.append(Text("\n".join([f"Not found first, {way} (with its rank):", *named]), style="dim"))
    return Group(*shown)


def _bounded(found: "Interval | CandidateRow", *, sign: str = "") -> str:
    """Return a figure with its interval, which a single query does not have."""
    bounds = "" if math.isnan(found.low) else f" ({found.low:.1f}–{found.high:.1f})"
    return f"{found.value:{sign}.1f}{bounds}"
