"""The documentation page made from the lines of ``benchmarks.gpu``.

``python -m benchmarks.on_device.page docs/measured/gpu.json`` writes the page next to that file.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HEADINGS = {
    "transport": "Transport of one query to every paper, without candidates",
    "indexes": "Indexes",
    "encoding": "Encoding",
}


def page(results: Mapping[str, Any]) -> str:
    """Return the page, in Markdown."""
    machine = results["machine"]
    wrong = [row["what"] for own in results["rows"].values() for row in own if row["is_right"] is False]
    parts = [
        "# On a GPU",
        (
            f"`python -m benchmarks.gpu` measured this on {machine['day']} at commit `{machine['commit']}`: "
            f"nothing on this page is typed. Device: {results['device']}, {results['gib']:g} GiB. "
            f"Beside it its machine's processor: {machine['processor']}, {machine['cores']} cores. "
            f"torch {results['torch']}, FAISS {results['faiss']}. "
            "[Measured once](measurements.md#one-gpu-2026-11-26) has what was done "
            "there besides."
        ),
        (
            "Each line that can be is compared with the processor: the same best 20, and scores that differ "
            "by no more than 1e-5 (vectors in half precision: 1 - cosine of no more than 1e-3). "
            + (f"**Wrong: {', '.join(wrong)}.**" if wrong else "All of them are right.")
        ),
    ]
    for section, rows in results["rows"].items():
        parts += [f"## {HEADINGS[section]}", "\n".join(_table(rows))]
    return "\n\n".join(parts) + "\n"


def _table(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "| what | unit | GPU | processor | largest difference | same best 20 | |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for row in rows:
        cells = [row["what"], row["unit"], _number(row["value"]), _number(row["on_cpu"])]
        cells += ["" if row["error"] is None else f"{row['error']:.1g}"]
        cells += ["" if row["top"] is None else f"{row['top']:.0%}", row["note"]]
        yield f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    """Format with three significant digits and without an exponent."""
    if value is None:
        return ""
    return f"{float(f'{value:.3g}'):,.10g}"


if __name__ == "__main__":
    written = Path(sys.argv[1])
    content = page(json.loads(written.read_text(encoding="utf-8")))
    written.with_suffix(".md").write_text(content, encoding="utf-8")
