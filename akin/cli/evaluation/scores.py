"""Display of the figures of systems: tables with intervals, and sentences on the differences."""

import math
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # their libraries take seconds to import, and `akin --help` does not need them
    from evaluation.collection import Collection as TestCollection
    from evaluation.measurement import Measurement
    from evaluation.statistics.bootstrap import Interval
    from evaluation.statistics.summary import Comparison, Row, Spread

_ALL = "all"
# Measures that fit on a terminal; --json and --report contain all.
_N_MEASURES = 2
_MAX_NAMED = 3
# With fewer query papers, bootstrap intervals are too narrow (evaluation/statistics/bootstrap.py).
_FEW_CLUSTERS = 20


def measurement_tables(measured: "Measurement") -> Group:
    """Render a table for each main measure: a line a system, best first, a column a facet, best ones bold."""
    return row_tables(measured.rows, measured.collection)


def row_tables(found: Sequence["Row"], collection: "TestCollection | None" = None) -> Group:
    """Render tables of any rows; with a collection, of its first measures and those that are no rankings."""
    from evaluation.statistics.summary import LOWER_IS_BETTER

    rows = [row for row in found if row.fold == _ALL]
    measures = list(dict.fromkeys(row.measure for row in rows))
    known = measures if collection is None else collection.measures
    main = [name for name in measures if name in known[:_N_MEASURES]]
    # Measures other than of rankings (classification) are not among the collection's measures.
    other = [name for name in measures if name not in known]
    heading = rows[0].set if collection is None else _heading(collection)
    first = {row.system: row.value for row in rows if (row.measure, row.facet) == (measures[0], _ALL)}
    shown: list[Text | Table] = []
    for measure in main + other:
        here = [row for row in rows if row.measure == measure]
        here.sort(
            key=lambda row: first.get(row.system, row.value), reverse=measures[0] not in LOWER_IS_BETTER
        )
        least = {row.facet for row in here} if measure in LOWER_IS_BETTER else ()
        lower = ", the lower the better" if least else ""
        title = f"{heading}: {measure}, percent{lower}"
        shown += [Text(title, style="bold"), measure_table(here, least=least)]
    return Group(*shown, Text("Below each value: its 95 % interval.", style="dim"))


def seed_table(spreads: Sequence["Spread"]) -> Group:
    """Render mean and standard deviation over seeds, of systems trained several times; empty without any."""
    if not spreads:
        return Group()
    measures = list(dict.fromkeys(spread.measure for spread in spreads))
    cells = {(spread.system, spread.measure): spread for spread in spreads}
    table = plain_table()
    table.add_column("system", overflow="fold")
    for heading in ("seeds", *measures):
        table.add_column(heading, justify="right", no_wrap=True)
    for system in dict.fromkeys(spread.system for spread in spreads):
        own = [cells[system, measure] for measure in measures]
        table.add_row(system, str(own[0].n_seeds), *(f"{one.mean:.1f} ± {one.deviation:.1f}" for one in own))
    return Group(Text("Over seeds: mean and standard deviation, percent", style="bold"), table)


def measure_table(rows: Sequence["Row"], *, columns: str = "facet", least: Collection[str] = ()) -> Table:
    """Return a table with a line a system, and a column for each value of the field ``columns`` of rows.

    The best figure of a column is the largest, or the smallest in the columns ``least``.
    """
    column = attrgetter(columns)
    headings = sorted(dict.fromkeys(column(row) for row in rows), key=lambda heading: heading == _ALL)
    cells = {(row.system, column(row)): row for row in rows}
    best = {
        heading: (min if heading in least else max)(row.value for row in rows if column(row) == heading)
        for heading in headings
    }
    table = plain_table()
    table.add_column("system", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for system in dict.fromkeys(row.system for row in rows):
        table.add_row(system, *(_cell(cells.get((system, heading)), best[heading]) for heading in headings))
    return table


def verdicts(measured: "Measurement") -> Group:
    """Render in words which system is first, and from which others these queries separate it."""
    lines = note_lines(reservations(measured.collection))
    if measured.against_best:
        measure = measured.against_best[0][1].measure
        others, best = {name for name, _ in measured.against_best}, measured.best
        n = len(measured.collection.queries)
        lines.append(Text(f"First by {measure} over all {n} queries: {best}.", style="bold"))
        unclear = [f"{name} ({signed(c)})" for name, c in measured.against_best if not c.resolvable]
        holding = [name for name, c in measured.against_best if c.holds]
        alone = [name for name, c in measured.against_best if c.resolvable and not c.holds]
        if unclear:
            lines.append(
                Text(
                    f"These queries do not separate it from {', '.join(unclear)} (in brackets: its lead and "
                    "the 95 % interval, paired by query)."
                )
            )
        if holding:
            lines.append(Text(f"Its lead over {_over(holding, len(others))} is resolvable."))
        if alone:
            n_pairs = len(others) * (len(others) + 1) // 2
            lines.append(
                Text(
                    f"Its lead over {_over(alone, len(others))} is resolvable by itself, but does not hold "
                    f"after correction for all {n_pairs} pairs of systems (Holm)."
                )
            )
    return Group(*lines)


def _over(names: Sequence[str], n_others: int) -> str:
    """Return a few names, or how many of the other systems they are."""
    if len(names) <= _MAX_NAMED:
        return ", ".join(names)
    return f"the other {n_others} systems" if len(names) == n_others else f"{len(names)} other systems"


def comparison_table(
    first: str, second: str, comparisons: Sequence["Comparison"], collection: "TestCollection"
) -> Group:
    """Render the differences of two runs, and in words whether the main one can be told from chance."""
    columns = ("facet", "measure", "difference", "95 % interval", "resolvable", "p, corrected")
    table = Table(*columns, title=f"{first} − {second}")
    for found in comparisons:
        difference = found.difference
        table.add_row(
            found.facet,
            found.measure,
            f"{difference.value:+.2f}",
            _bounds(difference, digits=2),
            "yes" if found.resolvable else "no",
            "" if math.isnan(found.p_corrected) else f"{found.p_corrected:.4f}",
            style="bold" if found.resolvable else "",
        )
    main = next(c for c in comparisons if (c.facet, c.measure) == (_ALL, collection.measures[0]))
    better, worse = (first, second) if main.difference.value > 0 else (second, first)
    n = main.difference.n
    if main.holds:
        verdict = f"Resolvable: {better} is better than {worse} in {main.measure} over all {n} queries."
    else:
        verdict = f"Not resolvable: in {main.measure}, {n} queries do not separate {first} from {second}."
    if main.resolvable and not main.holds:
        verdict += " Its own interval excludes zero; corrected for all comparisons (Holm), it does not hold."
    heading = Text(f"{first} − {second}, percentage points", style="bold")
    return Group(heading, table, Text(verdict, style="bold"))


def reservations(collection: "TestCollection") -> tuple[str, ...]:
    """Return the notes of a collection, and one about intervals if there are few query papers."""
    n_clusters = len({query.cluster for query in collection.queries})
    if not 0 < n_clusters < _FEW_CLUSTERS:
        return collection.notes
    from evaluation.statistics.bootstrap import HOLDING

    caution = (
        f"Intervals from {n_clusters} query papers are too narrow, and those of one facet more so. In "
        f"simulation, 95 % intervals contain the true value in {HOLDING[17]} of 100 cases with 17 query "
        f"papers, in {HOLDING[8]} with 8."
    )
    return (*collection.notes, caution)


def note_lines(notes: Sequence[str]) -> list[Text]:
    """Render notes on figures, a line each."""
    return [Text(f"Note: {note}", style="yellow") for note in notes]


def _bounds(difference: "Interval", *, digits: int) -> str:
    """Return the interval of a difference as text; a single paper has no interval."""
    if math.isnan(difference.low):
        return "one paper only"
    return f"{difference.low:+.{digits}f} to {difference.high:+.{digits}f}"


def comparison_row(comparison: "Comparison") -> dict[str, Any]:
    """Return a comparison as one flat dictionary."""
    difference = comparison.difference
    return {
        "measure": comparison.measure,
        "facet": comparison.facet,
        "value": difference.value,
        "low": difference.low,
        "high": difference.high,
        "n": difference.n,
        "resolvable": comparison.resolvable,
        "p": _or_null(difference.p),
        "p_corrected": _or_null(comparison.p_corrected),
    }


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value


def plain_table() -> Table:
    """Return a table without vertical lines, so that five facets with intervals fit into 80 columns."""
    return Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)


def _heading(collection: "TestCollection") -> str:
    papers, queries = len(collection.papers), len(collection.queries)
    return f"{collection.name} ({queries:,} queries, {papers:,} papers)" if queries else collection.name


def _cell(row: "Row | None", best: float) -> Text:
    if row is None:
        return Text("")
    # Compare rounded values: two systems shown as 53.9 are both the best.
    style = "bold green" if round(row.value, 1) == round(best, 1) else ""
    interval = "" if math.isnan(row.low) else f"\n{row.low:.1f}–{row.high:.1f}"
    return Text.assemble((f"{row.value:.1f}", style), (interval, "dim"))


def signed(comparison: "Comparison") -> str:
    """Return a difference with its interval as text."""
    difference = comparison.difference
    return f"{difference.value:+.1f}, {_bounds(difference, digits=1)}"
