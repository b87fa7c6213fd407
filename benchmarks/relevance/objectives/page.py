"""The documentation page made from the figures of ``benchmarks.relevance.objectives``.

``python -m benchmarks.relevance.objectives.page docs/measured/objectives.json`` writes the page next to that
file.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEGUN_WITH = "minilm"
_STRICT = "Strict pairs are those that two citing papers or more cite in one sentence. "
_TRIPLETS = (
    "Rows of citation triplets learn from as many citations instead, each with two hard and three random "
    "negatives. "
)
_SETS = {
    "held-out": "Held-out co-citations: {queries} pairs, each positive among all of them",
    "citations": "Reference lists: {queries} papers, each with one of its references among those of all",
    "contexts": "Citing sentences: {queries}, each with the paper that it cites among those of all",
    "csfcube": "CSFCube's development fold, {queries} query-facets",
    "scifact": "SciFact in part: {queries} claims, {papers} abstracts",
    "demo": "The demo grid of {papers} invented papers, {queries} query-facets",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over queries, in percent; ``difference`` from the initial encoder, with its interval."""

    row: str
    set: str
    system: str
    measure: str
    value: float
    difference: float
    low: float
    high: float

    @property
    def resolvable(self) -> bool:
        """Whether zero lies outside the 95 % interval."""
        return self.low > 0 or self.high < 0


def page(results: Mapping[str, Any]) -> str:
    """Return the page, in Markdown."""
    machine, steps = results["machine"], results["steps"]
    place = f"Machine: {machine['processor']}, one thread"
    if results["gpu"] is not None:
        place = f"Trained on an {results['gpu']}, measured on: {machine['processor']}"
        if here := [f"`{row['name']}`" for row in results["rows"] if "objective" in row and not row["gpu"]]:
            place += f", which also trained {', '.join(here)}"
    figures = [Figure(**own) for own in results["figures"]]
    parts = [
        "# Every training objective on the same data",
        (
            f"`python -m benchmarks.relevance.objectives` made this page on {machine['day']} at commit "
            f"`{machine['commit']}`: nothing on it is typed. {place}. "
            "[Training](../how-to/training.md) says what each objective is, and what we conclude."
        ),
        (
            f"Each row begins with `{results['encoder']}` and learns from the same {results['examples']:,} "
            f"co-cited pairs for {steps['n_steps']} steps of {steps['batch']}: low-rank changes of rank 16, "
            f"rate {steps['learning_rate']:g}, {steps['max_tokens']} tokens of a text, tau {steps['tau']:g}, "
            f"seed {steps['seed']}. Rows that are mixed take a quarter of their examples from as many "
            "sentences that cite one paper, by three ways of mixing. "
            f"{_STRICT * any('strict' in row['name'] for row in results['rows'])}"
            f"{_TRIPLETS * any('triplets' in row['name'] for row in results['rows'])}"
            "Papers of CSFCube, of SciFact and of held-out pairs are in none of them. What is learnt in so "
            "few steps tells objectives apart, and is not what any of them reaches in the end."
        ),
        (
            "Figures are in percent. The first row of a table is the encoder begun with; below it stands by "
            "how much each objective exceeds it, with the 95 % interval of the difference, paired by query "
            "and resampled by paper. **Bold**: zero lies outside. Of twenty intervals one does by chance. An "
            "objective that a table lacks was not measured there."
        ),
    ]
    for name, title in _SETS.items():
        own = [figure for figure in figures if figure.set == name]
        for measure in dict.fromkeys(figure.measure for figure in own):
            parts.append(f"## {title.format(**results['sets'][name])}: {measure}")
            parts.append(_table([figure for figure in own if figure.measure == measure]))
    trained = [row for row in results["rows"] if "objective" in row]
    parts.append("## Time and memory")
    parts += [
        _costs([row for row in trained if row["gpu"] == gpu], gpu)
        for gpu in dict.fromkeys(row["gpu"] for row in trained)
    ]
    return "\n\n".join(parts) + "\n"


def _table(figures: list[Figure]) -> str:
    systems = list(dict.fromkeys(figure.system for figure in figures))
    found = {(figure.row, figure.system): figure for figure in figures}
    head = ["objective", *(f"`{system}`" for system in systems)]
    names = dict.fromkeys(figure.row for figure in figures)
    rows = [[f"`{name}`", *(_cell(found[name, system]) for system in systems)] for name in names]
    return "\n".join(_lines([head, *rows]))


def _cell(figure: Figure) -> str:
    if figure.row == BEGUN_WITH:
        return f"{figure.value:.1f}"
    text = f"{figure.difference:+.1f} [{figure.low:.1f}, {figure.high:.1f}]"
    return f"**{text}**" if figure.resolvable else text


def _costs(trained: list[dict[str, Any]], gpu: str | None) -> str:
    """Return papers a second, peak memory and both ends of the loss, of rows trained on one device."""
    least = min(row["peak_before_mib"] for row in trained)
    losses_note = "the loss, mean of the first and of the last tenth of the steps."
    text = (
        "Training on one thread: papers a second of processor time, forwards and backwards; the most memory "
        f"that the process held, of which {least:,.0f} MiB and more are libraries, data and the encoder; "
        f"{losses_note} Other work ran beside on the machine, which moves a speed by a fifth."
    )
    if gpu is not None:
        text = (
            f"Training on an {gpu}, one row at a time: papers a second, forwards and backwards (the first "
            "row also waits for the GPU's libraries to start); the most memory of the GPU that tensors took, "
            f"of which {least:,.0f} MiB and more are the encoder; {losses_note}"
        )
    table = [["objective", "papers a second", "peak, MiB", "loss, first", "last"]]
    for row in trained:
        losses = (f"{row['first_loss']:.2f}", f"{row['last_loss']:.2f}")
        table.append(
            [f"`{row['name']}`", f"{row['papers_a_second']:.1f}", f"{row['peak_mib']:,.0f}", *losses]
        )
    return text + "\n\n" + "\n".join(_lines(table))


def _lines(rows: list[list[str]]) -> Iterator[str]:
    head, *rest = rows
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rest:
        yield "| " + " | ".join(row) + " |"


def write_page(file: Path) -> None:
    """Write the page next to the file of figures."""
    results = json.loads(file.read_text(encoding="utf-8"))
    file.with_suffix(".md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
