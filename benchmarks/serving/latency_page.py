"""The documentation page of the figures of ``benchmarks.serving.latency``."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from benchmarks.suite.report import RATIOS, counted, goal_sections, made_by, rows_of

_KINDS: Final = {
    "by id": "by id",
    "by text": "by text (a title)",
    "pasted": "pasted title and abstract",
    "by id, exact search": "by id, compared with every sentence",
}
_SHARES: Final = {
    "of the first 20": "of the first 20 papers of exact search, found",
    "of 200 sentences": "of the 200 sentences nearest to any of a paper's, found",
}
_PERCENTILES: Final = ("p50", "p95", "p99")


def page(figures: Mapping[str, Any]) -> str:
    """Return the page, in Markdown: percentiles by state of the collection, then the goals."""
    options, states = figures["options"], figures["states"]
    n_papers = states["as indexed"]["size"]["papers"]
    given = " ".join(f"--{name} {value}" for name, value in options.items() if value)
    rows = rows_of(dict(figures))
    if any(row.goal == "P7" for row in rows):
        given += " --indexing FIGURES.json"
    goals = (
        f"**{counted(rows)}** They are those of [the suite](performance.md). What is compared took turns in "
        f"the same process: searches with every core, FAISS Flat with one thread. {RATIOS}"
    )
    below = (
        part.replace("## ", "### ", 1) if part.startswith("## ") else part for part in goal_sections(rows)
    )
    parts = [
        f"# Speed, {n_papers:,} real papers",
        made_by(f"python -m benchmarks.serving.latency DATA {given}", figures["machine"]),
        f"{figures['about']} Encoded with `{figures['encoder']}`{_precision(figures)}.".strip(),
        "## How long a search takes",
        " ".join(_how(figures)),
        "\n".join(_table(states)),
        *(["\n".join(_changes(figures["seconds"]))] if figures.get("seconds") else []),
        "## Goals",
        goals,
        *below,
    ]
    return "\n\n".join(parts) + "\n"


def _precision(figures: Mapping[str, Any]) -> str:
    """Return the number format of the encoder, which figures state since 2026-12-01."""
    return f" in {figures['precision']}" if "precision" in figures else ""


def _how(figures: Mapping[str, Any]) -> Iterable[str]:
    """Yield what was searched, and the states of the collection that the columns are for."""
    options = figures["options"]
    yield (
        f"{options['queries']:,} papers drawn at random were searched for one after another in one process, "
        "20 results each."
    )
    if options["tune"] and figures.get("effort"):
        yield f"`akin tune --recall {options['tune']:g}` chose {figures['effort']:g} of the usual effort."
    if figures.get("seconds"):
        yield (
            f"For the last column, {options['add']:,} papers were added (papers of the collection with other "
            f"ids and titles) and {options['delete']:,} deleted, one by one; each was published immediately, "
            "and segments were merged when due."
        )


def _table(states: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterable[str]:
    """Yield a column for each state of the collection, a row for each kind of search."""
    yield f"| | {' | '.join(states)} |"
    yield f"|---|{'---:|' * len(states)}"
    for kind, said in _KINDS.items():
        cells = [" / ".join(f"{each[kind][part]:.1f}" for part in _PERCENTILES) for each in states.values()]
        yield f"| {said}: {' / '.join(_PERCENTILES)}, ms | {' | '.join(cells)} |"
    for part, said in _SHARES.items():
        cells = [f"{each['found'][part]:.2%}" for each in states.values()]
        yield f"| {said} | {' | '.join(cells)} |"
    for part in ("papers", "segments"):
        cells = [f"{each['size'][part]:,.0f}" for each in states.values()]
        yield f"| {part} | {' | '.join(cells)} |"


def _changes(seconds: Mapping[str, float]) -> Iterable[str]:
    """Yield a table of the medians of additions and deletions."""
    yield "| change | median, ms |"
    yield "|---|---:|"
    for name, own in seconds.items():
        yield f"| {name} | {1000 * own:.0f} |"
