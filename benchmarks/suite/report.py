"""The table on a terminal, and the documentation page made from a file of rows.

``python -m benchmarks.suite.report docs/measured/performance.json`` writes page and chart next to that file.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from rich.table import Table

from benchmarks.suite.rows import ALL_SOLVED, STAGES, Row

_STYLE = "text{font:12px sans-serif;fill:#333}@media(prefers-color-scheme:dark){text{fill:#ddd}}"
_WIDTH, _NAMES, _BAR = 760.0, 330.0, 22.0


def number(value: float | None) -> str:
    """Format with three significant digits; a hyphen for ``None``."""
    if value is None:
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:.0e}"


def wanted(row: Row) -> str:
    """Return the goals of a row in words."""
    times = "x" if row.ratio is not None else ""
    bounds = (("", "at least", row.least), ("", "at most", row.most), ("in C ", "at least", row.in_c))
    return "; ".join(
        f"{where}{how} {number(bound)}{times}" for where, how, bound in bounds if bound is not None
    )


def times(row: Row) -> str:
    """Return the ratio in words, with its quartiles: Akin is so many times as fast, or takes as long."""
    if row.ratio is None:
        return ""
    kind = "as fast"
    if row.unit.endswith("a second"):
        kind = "as many"
    elif row.theirs and abs(row.ratio - row.ours / row.theirs) < abs(row.ratio - row.theirs / row.ours):
        kind = "as long"
    in_words = f"{number(row.ratio)}x {kind}"
    if row.spread is None:
        return in_words
    return f"{in_words} [{number(row.spread[0])}, {number(row.spread[1])}]"


# What is measured under each goal.
_TITLES: Final = {
    "P1": "Re-ranking, unit vectors",
    "P2": "Re-ranking, raw vectors",
    "P3": "Errors of scores",
    "P4": "Finding candidates",
    "P5": "Search by id",
    "P6": "Search by text",
    "P7": "Encoding and indexing",
    "P8": "Memory and disk",
    "": "Figures without a goal",
}
# The searches whose stages explain why a goal is missed.
_SEARCHES: Final = {"P5": ["search by id"], "P6": ["search of a pasted paper", "search by a typed sentence"]}
# Why a goal is missed: a reason is shown as long as one row of its table misses the goal.
_REASONS: Final = {
    "P1": "Each pair is solved separately, in float64, so that its score does not depend on the others. The "
    "table of stages below shows the shares of distances and plans. The bounds on other solvers are those "
    "for kernels that are compiled by numba; those in C, and that on the time of the distances, were set for "
    "a kernel that [Akin does not have](../decisions/measuring/no-kernel-in-c.md).",
    "P2": "Stored rows are also widened to float32, each when it is compared; the table of "
    "stages below shows the share of the distances. The goal is in milliseconds, so it depends on the "
    "processor.",
    "P4": "Most of a call is FAISS's scan of the codes in the lists that are probed "
    "([shares](two-million.md)). With fewer lists a search is faster and finds fewer: `akin tune` measures "
    "both.",
    "P5": "The bounds count candidates and transport alone, as the rows without words and explanation do, in "
    "a collection of 250,000 papers whose index finds 95 % of the nearest sentences. The usual effort finds "
    "more, for which FAISS scans the codes of more lists; `akin tune` chooses less. A whole search also "
    "finds papers by words and explains each result.",
    "P6": "After encoding, a search does what a search by id does: candidates, transport, and the "
    "explanation of 10 results. This takes about as long for a typed sentence as for an abstract, which "
    "takes much longer to encode. The larger the encoder, the less the rest counts.",
    "P7": "bfloat16 is computed by torch, which multiplies matrices faster in it, and little else ([number "
    "formats](../decisions/models/number-formats.md) has the shares). OpenVINO computes bfloat16 faster; it "
    "is not used for it, so that the vectors of a collection do not depend on which packages are installed.",
    "P8": "Each paper is a separate read of the disk. The row of bare reads shows what these take; the rest "
    "is mapping pages and widening to float32. The ratio to np.memmap depends on the disk: the goal was set "
    "on one where its read-ahead took 1,500 ms.",
}


# The pages with goals, by file; this page has none.
_PAGES: Final = {
    "": "here",
    "two-million": "[two million made-up rows](two-million.md)",
    "real-corpus": "[188,635 real papers](real-corpus.md)",
}
RATIOS: Final = (
    "A ratio is the median over the rounds, with its quartiles (of three rounds: the least and the largest): "
    "Akin is so many times *as fast*, or takes so many times *as long*. Compare ratios rather than times, "
    "which depend on the machine."
)
_PICTURE: Final = "![How many times as long others take, on a logarithmic scale](performance.svg)"
_MET = {True: "yes", False: "no", None: ""}


def table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    shown = Table("part", "what", "Akin", "compared with", "its figure", "ratio", "goal", "met")
    for row in rows:
        shown.add_row(*_cells(row))
    return shown


def _cells(row: Row) -> list[str]:
    ours = f"{number(row.ours)} {row.unit}".strip()
    theirs = number(row.theirs) if row.theirs is not None else ""
    met = [_MET[row.is_met], *([] if row.in_c is None else [f"in C: {_MET[row.is_met_in_c]}"])]
    return [
        row.goal,
        row.what,
        ours,
        row.beside,
        theirs,
        times(row),
        wanted(row),
        "; ".join(filter(None, met)),
    ]


def counted(rows: Sequence[Row]) -> str:
    """Return how many goals are met, and how many of those for a kernel in C, in words."""
    goals = [row.is_met for row in rows if row.is_met is not None]
    in_c = [row.is_met_in_c for row in rows if row.is_met_in_c is not None]
    stated = f"{sum(goals)} of {len(goals)} goals are met"
    if not in_c:
        return f"{stated}."
    return f"{stated}; of the {len(in_c)} for a kernel in C, which Akin does not have, {sum(in_c) or 'none'}."


def overview(apart: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return how many goals each page meets, by goal; ``apart`` has the rows of each page by its file."""
    lines = [f"| goal | {' | '.join(_PAGES[name] for name in apart)} |", f"|---|{'---|' * len(apart)}"]
    for goal, title in _TITLES.items():
        cells = []
        for rows in apart.values():
            met = [row.is_met for row in rows if row.goal == goal and row.is_met is not None]
            cells.append(f"{sum(met)} of {len(met)}" if met else "")
        if any(cells):
            lines.append(f"| {goal}: {title} | {' | '.join(cells)} |")
    every = [row for rows in apart.values() for row in rows]
    return [f"**On all pages, {counted(every)}**", "\n".join(lines)]


def page(figures: dict[str, Any], others: Mapping[str, dict[str, Any]] | None = None) -> str:
    """Return the documentation page, in Markdown; ``others`` are the figures of large collections by file."""
    rows = rows_of(figures)
    suite, only = figures["suite"], figures.get("only", [])
    title, command = "# Speed, compared with other software", f"python -m benchmarks --suite {suite}"
    if only:
        title, command = f"{title}: {', '.join(only)}", f"{command} --only {' '.join(only)}"
    parts = [
        title,
        made_by(command, figures["machine"]),
        (
            "Akin and what it is compared with took turns in the same process, on one thread each, except "
            f"over HTTP and where a row says otherwise. {RATIOS}"
        ),
        f"**{counted(rows)}**" if not others else f"Here, {counted(rows)}",
        *(overview({"": rows, **{name: rows_of(each) for name, each in others.items()}}) if others else []),
        *([] if only else [_PICTURE]),
        *goal_sections(rows),
    ]
    return "\n\n".join(parts) + "\n"


def made_by(command: str, machine: dict[str, Any]) -> str:
    """Return the paragraph about the command, the day, the commit and the machine of figures."""
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (
        f"`{command}` wrote this page on {machine['day']} at commit `{machine['commit']}`; no figure is "
        f"typed by hand. Machine: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}; {packages}."
    )


def goal_sections(rows: Sequence[Row]) -> list[str]:
    """Return a section for each goal, with the reason where a row misses it, and one of stages."""
    parts: list[str] = []
    stages = stages_section([row for row in rows if row.goal == STAGES])
    for what, grouped in groupby((row for row in rows if row.goal != STAGES), key=lambda row: row.goal):
        own = list(grouped)
        parts.append(f"## {_TITLES.get(what, what)}")
        lines = ["| what | Akin | compared with | its figure | ratio | goal | met |", f"|{'---|' * 7}"]
        notes = []
        for row in own:
            lines.append("| " + " | ".join(_cells(row)[1:]) + " |")
            if row.note:
                peer = f", compared with {row.beside}" if row.beside else ""
                notes.append(f"- {row.what}{peer}: {row.note}.")
        parts += ["\n".join(lines), *(["\n".join(notes)] if notes else [])]
        why = _REASONS.get(what, "")
        if why and any(row.is_met is False for row in own) and (stages or "below" not in why):
            parts.append(" ".join(["Why not all goals are met here:", why, *_shares(what, rows)]))
    return parts + stages


def _shares(goal: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield which parts of the searches of a goal take longest."""
    for kind in _SEARCHES.get(goal, ()):
        own = [row for row in rows if row.goal == STAGES and row.what.startswith(f"{kind}: ")]
        parts = {row.what.split(": ")[1]: row.ratio or 0.0 for row in own if "measured" not in row.what}
        longest = sorted(parts, key=lambda part: -parts[part])[:3]
        if longest:
            yield f"Of a {kind}, {', '.join(f'{part} takes {100 * parts[part]:.0f} %' for part in longest)}."


def stages_section(rows: Sequence[Row]) -> list[str]:
    """Return the section on where the time of a whole goes, if it was measured."""
    if not rows:
        return []
    lines = [
        "| what | time | of the whole |",
        "|---|---|---|",
        *(f"| {row.what} | {number(row.ours)} {row.unit} | {100 * (row.ratio or 0):.0f} % |" for row in rows),
    ]
    lead = (
        "Medians. The parts of a search are measured during it, except where it says before or after, and "
        "what a page adds as a share of its search. Those of encoding are measured during it, other parts "
        "separately, in turns."
    )
    return ["## Where the time goes", lead, "\n".join(lines)]


def rows_of(figures: dict[str, Any]) -> list[Row]:
    """Return the rows of a file grouped by goal, those without a goal last."""
    kept = [{name: value for name, value in row.items() if name != "is_met"} for row in figures["rows"]]
    rows = [Row(**{**row, "spread": row["spread"] and tuple(row["spread"])}) for row in kept]
    return sorted(rows, key=lambda row: row.goal or "~")


def picture(figures: dict[str, Any]) -> str:
    """Draw an SVG bar for each other solver, on a logarithmic scale: how many times as long it takes."""
    rows = [
        row
        for row in rows_of(figures)
        if row.goal in {"P1", "P2"} and "as fast" in times(row) and row.beside != ALL_SOLVED
    ]
    height = _BAR * len(rows) + 30
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH:g} {height:g}", role="img"
    )
    ET.SubElement(
        svg, "title"
    ).text = "How many times as long others take to re-rank 1,000 papers, logarithmic"
    ET.SubElement(svg, "style").text = _STYLE
    largest = max((row.ratio or 0 for row in rows), default=1)
    for place, row in enumerate(rows):
        top = place * _BAR + 6
        kind = "unit" if row.goal == "P1" else "raw"
        best = ", the first 20" if "the first 20" in row.what else ""
        ET.SubElement(svg, "text", x="4", y=f"{top + 14:g}").text = f"{row.beside} ({kind} vectors{best})"
        width = math.log(max(row.ratio or 0, 1)) / math.log(max(largest, 2)) * (_WIDTH - _NAMES - 70)
        place_and_size = {"x": f"{_NAMES:g}", "y": f"{top + 2:g}", "width": f"{width:.1f}", "height": "15"}
        ET.SubElement(svg, "rect", {**place_and_size, "fill": "#1f5fa8" if kind == "unit" else "#b4510f"})
        ET.SubElement(svg, "text", x=f"{_NAMES + width + 6:.1f}", y=f"{top + 14:g}").text = times(row).split(
            " "
        )[0]
    return ET.tostring(svg, encoding="unicode") + "\n"


def read_others(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of large collections in a folder, by the names of their files."""
    files = {name: folder / f"{name}.json" for name in _PAGES if name}
    return {
        name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()
    }


def write_report(file: Path) -> None:
    """Write the page and its chart next to the file of rows."""
    figures = json.loads(file.read_text(encoding="utf-8"))
    others = {} if figures.get("only") else read_others(file.parent)
    file.with_suffix(".md").write_text(page(figures, others), encoding="utf-8")
    if not figures.get("only"):
        file.with_suffix(".svg").write_text(picture(figures), encoding="utf-8")


if __name__ == "__main__":
    write_report(Path(sys.argv[1]))
