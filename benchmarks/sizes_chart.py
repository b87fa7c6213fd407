"""Costs against size as an SVG file: one panel a kind of figure, both axes by powers of ten."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

_WIDTH, _PANEL, _LEFT, _RIGHT, _GAP = 720.0, 260.0, 56.0, 300.0, 56.0
_ROW = 15.0  # between names
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd}.name{stroke:#bbb}path,.name{fill:none}"
    "path{stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}"
)
_COLOURS = (
    "#1f5fa8",
    "#b4510f",
    "#2a7f3f",
    "#8a3fa0",
    "#a8861f",
    "#c2375a",
    "#3f8f9a",
    "#666",
    "#5a6fd0",
    "#7a4a2a",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure at several sizes."""

    name: str
    points: Sequence[tuple[int, float]]


def chart(panels: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """The panels, each with its title, one below the other."""
    height = len(panels) * (_PANEL + _GAP)
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH:g} {height:g}", role="img"
    )
    ET.SubElement(svg, "title").text = "What commands cost against the size of the collection"
    told = [
        f"{title}: "
        + "; ".join(f"{line.name} " + ", ".join(f"{y:.3g}" for _, y in line.points) for line in lines)
        for title, lines in panels
    ]
    ET.SubElement(svg, "desc").text = ". ".join(told) + "."
    ET.SubElement(svg, "style").text = _STYLE
    for number, (title, lines) in enumerate(panels):
        _panel(svg, title, lines, top=24 + number * (_PANEL + _GAP))
    return ET.tostring(svg, encoding="unicode") + "\n"


def _panel(svg: ET.Element, title: str, lines: Sequence[Line], *, top: float) -> None:
    sizes = [size for line in lines for size, _ in line.points]
    values = [value for line in lines for _, value in line.points if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(min(sizes)), max(math.log10(max(sizes)), math.log10(min(sizes)) + 1)

    def across(size: float) -> float:
        return _LEFT + (math.log10(size) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return top + _PANEL - (math.log10(value) - low) / max(high - low, 1) * _PANEL

    ET.SubElement(svg, "text", x=f"{_LEFT:g}", y=f"{top - 8:g}").text = f"{title}, by papers"
    for power in range(low, high + 1):
        y = f"{up(10.0**power):.1f}"
        ET.SubElement(svg, "line", {"class": "grid"}, x1=f"{_LEFT:g}", x2=f"{_WIDTH - _RIGHT:g}", y1=y, y2=y)
        ET.SubElement(svg, "text", x="6", y=y).text = f"{10.0**power:g}"
    for size in sorted(set(sizes)):
        place = {"text-anchor": "middle", "x": f"{across(size):.1f}", "y": f"{top + _PANEL + 16:g}"}
        ET.SubElement(svg, "text", place).text = f"{size:,}"
    below = -math.inf
    for colour, line in sorted(
        zip(_COLOURS, lines, strict=False), key=lambda each: up(each[1].points[-1][1])
    ):
        places = [(across(size), up(value)) for size, value in line.points if value > 0]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        ET.SubElement(svg, "path", d=f"M{path}", stroke=colour)
        below = max(places[-1][1] + 4, below + _ROW)
        x, y = places[-1]
        ET.SubElement(
            svg,
            "line",
            {"class": "name"},
            x1=f"{x + 3:.1f}",
            y1=f"{y:.1f}",
            x2=f"{x + 18:.1f}",
            y2=f"{below - 4:.1f}",
        )
        ET.SubElement(svg, "text", {"fill": colour}, x=f"{x + 20:.1f}", y=f"{below:.1f}").text = line.name
