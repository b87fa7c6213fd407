"""The report of an evaluation: one self-contained HTML page that needs no script and no network."""

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evaluation.collection import Collection
from evaluation.measures import per_query
from evaluation.report.charts import Dot, Point, dots, scatter, ticks
from evaluation.report.explained import ExplainedRanking, readable
from evaluation.run import Run
from evaluation.statistics.bootstrap import resamples_for
from evaluation.statistics.multiple import correct, n_pairs
from evaluation.statistics.summary import ALL, Comparison, Row, compare_each
from indexer.files.durable import replace_file, storage_errors

__all__ = ["ExplainedRanking", "write_report"]

# A page is for reading: more rankings are in the run files.
MAX_RANKINGS = 20

# The two measures a reader looks at first; the others are collapsed below them.
_N_MAIN_MEASURES = 2
# Characters forbidden in HTML text: control characters and unpaired surrogates, which ids may contain.
_FORBIDDEN = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Cell:
    """One figure of a table; NaN if there is none."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    best: bool = False


@dataclass(frozen=True, slots=True)
class _Table:
    """One measure over one fold: ``lines`` are systems with a cell for each facet, the best system first."""

    measure: str
    fold: str
    facets: tuple[tuple[str, int], ...]  # facet, number of queries
    lines: tuple[tuple[str, tuple[_Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class _SystemPair:
    """The best system against another: the chart, the number of queries each wins, the mean difference."""

    best: str
    other: str
    chart: Markup
    better: int
    worse: int
    equal: int
    comparison: Comparison


def write_report(
    path: Path,
    collection: Collection,
    runs: Sequence[Run],
    rows: Sequence[Row],
    *,
    explanations: Sequence[ExplainedRanking] = (),
    measured_on: dt.date | None = None,
    command: str | None = None,
) -> None:
    """Write the figures ``rows`` of ``runs`` on ``collection`` to one HTML file at ``path``, replacing it.

    ``measured_on`` defaults to today (UTC); ``command`` is the command line that repeats the measurement. At
    most MAX_RANKINGS of ``explanations`` are shown, with the first ten papers of each. Raises InputError if
    an explained query is not in the collection, and StorageError.
    """
    tables = _tables(collection, rows)
    main = [table for table in tables if table.fold == tables[0].fold][:_N_MAIN_MEASURES]
    page = _environment().get_template("report.html.jinja")
    html = page.render(
        collection=collection,
        clusters=len({query.cluster for query in collection.queries}),
        measured_on=measured_on or dt.datetime.now(tz=dt.UTC).date(),
        command=command,
        systems=[system for system, _ in tables[0].lines] if tables else [],
        main_tables=main,
        more_tables=[table for table in tables if table not in main],
        facet_charts=_facet_charts(tables[0]) if tables else [],
        duels=_system_pairs(collection, runs, tables[0]) if tables else [],
        rankings=[
            readable(collection, explained, name=f"ranking-{number}")
            for number, explained in enumerate(explanations[:MAX_RANKINGS])
        ],
        n_left_out=max(len(explanations) - MAX_RANKINGS, 0),
    )
    with storage_errors(path):
        replace_file(path, _FORBIDDEN.sub("\ufffd", html).encode())


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("evaluation", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["signed"] = lambda value: f"{value:+.1f}".replace("-", "−")
    environment.tests["finite"] = math.isfinite
    return environment


def _tables(collection: Collection, rows: Sequence[Row]) -> list[_Table]:
    """Make a table per measure and fold: the whole collection first, measures in its order."""
    measures = list(dict.fromkeys((*collection.measures, *(row.measure for row in rows))))
    folds = sorted(dict.fromkeys(row.fold for row in rows), key=lambda fold: fold != ALL)
    named = {(row.measure, row.fold, row.system, row.facet): row for row in rows}
    tables = []
    for fold in folds:
        for measure in measures:
            here = [row for row in rows if (row.measure, row.fold) == (measure, fold)]
            if here:
                tables.append(_table(measure, fold, _facets(collection, here), rows, named))
    return tables


def _facets(collection: Collection, rows: Sequence[Row]) -> list[tuple[str, int]]:
    """Return the facets of ``rows`` with their numbers of queries, in the collection's order, ALL last."""
    order = list(
        dict.fromkeys((*(query.facet for query in collection.queries), *(row.facet for row in rows)))
    )
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.facet] = max(counts.get(row.facet, 0), row.n)
    return [
        (facet, counts[facet]) for facet in sorted(order, key=lambda facet: facet == ALL) if facet in counts
    ]


def _table(
    measure: str,
    fold: str,
    facets: Sequence[tuple[str, int]],
    rows: Sequence[Row],
    named: Mapping[tuple[str, str, str, str], Row],
) -> _Table:
    columns: list[dict[str, _Cell]] = []
    systems = list(dict.fromkeys(row.system for row in rows))
    for facet, _ in facets:
        found = {
            system: named[measure, fold, system, facet]
            for system in systems
            if (measure, fold, system, facet) in named
        }
        # Compare figures as shown: two systems that read 53.9 are both best. A single system is never best.
        figures = [round(row.value, 1) for row in found.values() if math.isfinite(row.value)]
        best = max(figures) if len(figures) > 1 else None
        columns.append(
            {
                system: _Cell(row.value, row.low, row.high, best=round(row.value, 1) == best)
                for system, row in found.items()
            }
        )
    lines = [(system, tuple(column.get(system, _Cell()) for column in columns)) for system in systems]
    # The last column is the whole collection if there is one; a system without a figure goes last.
    lines.sort(key=lambda line: math.inf if math.isnan(line[1][-1].value) else -line[1][-1].value)
    return _Table(measure, fold, tuple(facets), tuple(lines))


def _facet_charts(table: _Table) -> list[tuple[str, int, Markup]]:
    """Return each facet with its number of queries and its chart; all charts share systems and axis."""
    cells = [cell for _, line in table.lines for cell in line]
    axis = ticks([figure for cell in cells for figure in (cell.value, cell.low, cell.high)])
    charts = []
    for number, (facet, n_queries) in enumerate(table.facets):
        of_facet = [
            Dot(system, line[number].value, line[number].low, line[number].high, line[number].best)
            for system, line in table.lines
        ]
        chart = dots(of_facet, axis, name=f"facet-{number}", title=f"{table.measure}, facet {facet}")
        charts.append((facet, n_queries, chart))
    return charts


def _system_pairs(collection: Collection, runs: Sequence[Run], table: _Table) -> list[_SystemPair]:
    """Compare the best system of ``table`` that has a run with each other one, in the table's order.

    Twenty systems make 190 pairs, which nobody reads; the question is whether the best one is better.
    """
    by_system = {run.system: run for run in runs}
    ordered = [by_system[system] for system, _ in table.lines if system in by_system]
    # Comparing computes measures, so keep only the measure that is shown.
    shown = replace(collection, measures=(table.measure,))
    values = {run.system: per_query(shown, run)[table.measure] for run in ordered}
    axis = ticks([value for of_system in values.values() for value in of_system.values()])
    if not ordered:
        return []
    best, *others = ordered
    n_family = n_pairs(len(ordered))
    compared = compare_each(shown, best, others, facet=ALL, n_resamples=resamples_for(n_family))
    corrected = correct([comparison for (comparison,) in compared], n_family=n_family)
    return [
        _system_pair(shown, best, other, found, values=values, axis=axis, name=f"duel-{number}")
        for number, (other, found) in enumerate(zip(others, corrected, strict=True))
    ]


def _system_pair(
    collection: Collection,
    best: Run,
    other: Run,
    comparison: Comparison,
    *,
    values: Mapping[str, Mapping[str, float]],
    axis: Sequence[float],
    name: str,
) -> _SystemPair:
    """Show the ``comparison`` of ``best``, the best system, with ``other``, query by query."""
    upwards, across = values[best.system], values[other.system]
    points = [Point(query.id, across[query.id], upwards[query.id]) for query in collection.queries]
    better = sum(point.upwards > point.across for point in points)
    worse = sum(point.upwards < point.across for point in points)
    return _SystemPair(
        best=best.system,
        other=other.system,
        chart=scatter(
            points,
            axis,
            name=name,
            title=f"{collection.measures[0]} of each query: {best.system} against {other.system}",
            across=other.system,
            upwards=best.system,
        ),
        better=better,
        worse=worse,
        equal=len(points) - better - worse,
        comparison=comparison,
    )
