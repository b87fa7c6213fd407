"""Figures and comparisons as tables for documents: Markdown for a page, LaTeX for a paper."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

from evaluation.statistics.bootstrap import Interval
from evaluation.statistics.summary import ALL, LOWER_IS_BETTER, Comparison, Row, SystemComparison

_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
    }
)
# The text below a table of comparisons.
LEGEND = (
    "In brackets the 95 % interval, paired by query. yes: holds after correction for all comparisons of the "
    "table in that measure (Holm); alone: its own interval excludes zero, but it does not hold after the "
    "correction; no: consistent with chance."
)


@dataclass(frozen=True, slots=True)
class TextTable:
    """A heading, the names of columns, and lines of text; the first ``n_names`` columns hold names."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    n_names: int = 1

    def markdown(self) -> str:
        """Return only the table, with names in backticks."""

        def line(cells: Sequence[str]) -> str:
            return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

        named = [tuple(f"`{c}`" if i < self.n_names else c for i, c in enumerate(row)) for row in self.lines]
        rule = "|" + "---|" * len(self.columns)
        return "\n".join([line(self.columns), rule, *map(line, named)])

    def latex(self) -> str:
        """Return a ``tabular`` with rules of the package booktabs, and the caption above it as a comment."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

        columns = "l" * self.n_names + "r" * (len(self.columns) - self.n_names)
        return "\n".join(
            [
                f"% {self.title}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                line(self.columns),
                r"\midrule",
                *map(line, self.lines),
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )


FORMATS: Mapping[str, Callable[[TextTable], str]] = MappingProxyType(
    {
        "markdown": lambda table: f"**{table.title}**\n\n{table.markdown()}",
        "latex": TextTable.latex,
    }
)


def figure_tables(rows: Sequence[Row]) -> Iterator[TextTable]:
    """Yield the figures over all folds: a table per measure if facets differ, else one with all measures.

    A measure that only single facets have (F1 of each) counts as one with facets. Best system first.
    """
    whole = [row for row in rows if row.fold == ALL]
    for named, group in groupby(sorted(whole, key=attrgetter("set")), key=attrgetter("set")):
        of_set = list(group)
        measures = list(dict.fromkeys(row.measure for row in of_set))
        plain = [m for m in measures if {row.facet for row in of_set if row.measure == m} == {ALL}]
        if plain:
            yield _figures(named, [row for row in of_set if row.measure in plain], attrgetter("measure"))
        for measure in measures:
            if measure not in plain:
                here = [row for row in of_set if row.measure == measure]
                yield _figures(f"{named}: {measure}", here, attrgetter("facet"))


def _figures(title: str, rows: Sequence[Row], column: Callable[[Row], str]) -> TextTable:
    columns = sorted(dict.fromkeys(map(column, rows)), key=lambda name: name == ALL)
    cells = {(row.system, column(row)): row for row in rows}
    main = ALL if ALL in columns else columns[0]
    systems = list(dict.fromkeys(row.system for row in rows))
    sign = {row.measure: 1 if row.measure in LOWER_IS_BETTER else -1 for row in rows if column(row) == main}

    def place(system: str) -> float:
        found = cells.get((system, main))
        return math.inf if found is None else sign[found.measure] * found.value

    systems.sort(key=place)
    lines = [(system, *(_figure(cells.get((system, name))) for name in columns)) for system in systems]
    return TextTable(f"{title}, percent", ("system", *columns), tuple(lines))


def comparison_table(compared: Sequence[SystemComparison]) -> TextTable:
    """Make a line for each pair of systems and facet, and a column for each measure."""
    measures = list(dict.fromkeys(each.comparison.measure for each in compared))
    facets = len({each.comparison.facet for each in compared}) > 1
    cells = {(each.key, each.comparison.measure): each.comparison for each in compared}
    lines = []
    for a, b, facet in dict.fromkeys(each.key for each in compared):
        found = (cells.get(((a, b, facet), measure)) for measure in measures)
        lines.append((a, b, *([facet] if facets else []), *map(_difference, found)))
    columns = ("first", "second", *(["facet"] if facets else []), *measures)
    return TextTable("The first minus the second, percentage points", columns, tuple(lines), n_names=2)


def _figure(row: Row | None) -> str:
    return "" if row is None else f"{row.value:.1f}{_bounds(row.low, row.high)}"


def _difference(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    found: Interval = comparison.difference
    return f"{found.value:+.1f}{_bounds(found.low, found.high)}, {comparison.verdict}"


def _bounds(low: float, high: float) -> str:
    return "" if math.isnan(low) else f" [{low:.1f}, {high:.1f}]"
