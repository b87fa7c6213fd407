"""The documentation page of an hour of mixed load: the readings of ``tests/trials/test_soak.py``.

``python -m benchmarks.serving.soak docs/measured/soak.json`` writes page and chart next to that file.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import numpy as np

from benchmarks.suite.report import made_by

_COMMAND: Final = (
    "AKIN_SOAK_JSON=docs/measured/soak.json pytest -m trial --timeout 0 tests/trials/test_soak.py"
)
_PANELS: Final = ("memory of its own, MiB", "open files and sockets", "threads")
_WIDTH, _LEFT, _PANEL, _GAP = 720.0, 56.0, 120.0, 44.0
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}path{fill:none;stroke:#1f5fa8}line{stroke:#ddd}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}line{stroke:#444}}"
)


def page(figures: Mapping[str, Any]) -> str:
    """Return the page, in Markdown: what was sent, the chart, and medians by tenth of the time."""
    held = np.array(figures["held"])
    lead = (
        f"{figures['readers']} readers and one writer used a service over {figures['papers']:,} papers, with "
        f"the default encoder, for {figures['seconds']:,.0f} s: {len(held):,} rounds of two papers added "
        "and two deleted, a query saved and read, and a batch; meanwhile searches of every kind, each with a "
        f"new connection. Of {figures['requests']:,} requests, {figures['wrong']:,} were answered wrongly. "
        "The cache of answers fills in the first minutes. Over the second half of the time, memory has a "
        f"slope of {figures['slope_mib_an_hour']:.1f} MiB an hour (Theil-Sen)."
    )
    parts = [
        "# An hour under mixed load",
        made_by(_COMMAND, figures["machine"]),
        lead,
        "![Memory, open files and threads of the service over the time](soak.svg)",
        "\n".join(_table(held)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(held: np.ndarray) -> Iterator[str]:
    """Yield a row of medians for each tenth of the rounds, (n_rounds, 4)."""
    yield f"| to second | {' | '.join(_PANELS)} |"
    yield f"|---:|{'---:|' * len(_PANELS)}"
    for part in np.array_split(held, min(10, len(held))):
        memory, files, threads = np.median(part[:, 1:], axis=0)
        yield f"| {part[-1, 0]:,.0f} | {memory:.1f} | {files:.0f} | {threads:.0f} |"


def picture(figures: Mapping[str, Any]) -> str:
    """Draw an SVG panel for each resource over the time."""
    held = np.array(figures["held"])
    height = len(_PANELS) * (_PANEL + _GAP)
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH:g} {height:g}", role="img"
    )
    ET.SubElement(svg, "title").text = "Resources of a service during an hour of mixed load"
    ET.SubElement(svg, "style").text = _STYLE
    for number, name in enumerate(_PANELS):
        _panel(svg, name, held[:, 0], held[:, number + 1], top=24 + number * (_PANEL + _GAP))
    return ET.tostring(svg, encoding="unicode") + "\n"


def _panel(svg: ET.Element, name: str, seconds: Sequence[float], values: np.ndarray, *, top: float) -> None:
    """Draw ``values`` over ``seconds``, from 0 up, so that flat looks flat."""
    most = float(values.max())
    across = _LEFT + np.asarray(seconds) / max(float(np.max(seconds)), 1.0) * (_WIDTH - _LEFT - 12)
    up = top + _PANEL * (1 - values / max(most, 1.0))
    ET.SubElement(svg, "text", x="4", y=f"{top - 8:g}").text = name
    for share in (0.0, 0.5, 1.0):
        y = top + _PANEL * (1 - share)
        ends = {"x1": f"{_LEFT:g}", "x2": f"{_WIDTH - 12:g}", "y1": f"{y:g}", "y2": f"{y:g}"}
        ET.SubElement(svg, "line", ends)
        ET.SubElement(svg, "text", x="4", y=f"{y + 4:g}").text = f"{share * most:.0f}"
    points = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(across, up, strict=True))
    ET.SubElement(svg, "path", d=f"M{points}")


def write_page(file: Path) -> None:
    """Write the page and its chart next to the file of readings."""
    figures = json.loads(file.read_text(encoding="utf-8"))
    file.with_suffix(".md").write_text(page(figures), encoding="utf-8")
    file.with_suffix(".svg").write_text(picture(figures), encoding="utf-8")


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
