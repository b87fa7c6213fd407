"""Costs by size as an SVG file: one panel for each kind of figure, both axes logarithmic."""

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
    "#2ab08a",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure at several sizes."""

    name: str
    points: Sequence[tuple[int, float]]


def chart(
    panels: Sequence[tuple[str, Sequence[Line]]],
    *,
    title: str = "What commands cost against the size of the collection",
    of: str = "papers",
) -> str:
    """Draw the panels, each with its title, one below the other; ``of`` is the unit of the sizes."""
    height = len(panels) * (_PANEL + _GAP)
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH:g} {height:g}", role="img"
    )
    ET.SubElement(svg, "title").text = title
    descriptions = [
        f"{name}: "
        + "; ".join(f"{line.name} " + ", ".join(f"{y:.3g}" for _, y in line.points) for line in lines)
        for name, lines in panels
    ]
    ET.SubElement(svg, "desc").text = ". ".join(descriptions) + "."
    ET.SubElement(svg, "style").text = _STYLE
    for number, (name, lines) in enumerate(panels):
        _panel(svg, f"{name}, by {of}", lines, top=24 + number * (_PANEL + _GAP))
    return ET.tostring(svg, encoding="unicode") + "\n"


def _panel(svg: ET.Element, title: str, lines: Sequence[Line], *, top: float) -> None:
    sizes = sorted({size for line in lines for size, _ in line.points})
    values = [value for line in lines for _, value in line.points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(sizes[0]), max(math.log10(sizes[-1]), math.log10(sizes[0]) + 1)

    def across(size: float) -> float:
        return _LEFT + (math.log10(size) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return top + _PANEL - (math.log10(value) - low) / max(high - low, 1) * _PANEL

    _text(svg, _LEFT, top - 8, title)
    for power in range(low, high + 1):
        _line(svg, "grid", (_LEFT, up(10.0**power)), (_WIDTH - _RIGHT, up(10.0**power)))
        _text(svg, 6, up(10.0**power) + 4, f"{10.0**power:g}")
    for size in sizes:
        _text(
            svg, across(size), top + _PANEL + 16, f"{size:,}", anchor="end" if size == sizes[-1] else "middle"
        )
    ends = []
    for colour, line in zip(_COLOURS, lines, strict=False):
        places = [(across(size), up(value)) for size, value in line.points]
        ET.SubElement(svg, "path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places), stroke=colour)
        ends.append((places[-1], line.name))
    ends.sort(key=lambda end: end[0][1])
    for ((x, y), name), beside in zip(ends, _apart([y for (_, y), _ in ends], top + _PANEL), strict=True):
        _line(svg, "name", (x + 3, y), (x + 18, beside))
        _text(svg, x + 20, beside + 4, name)


def _apart(heights: Sequence[float], lowest: float) -> list[float]:
    """Move ascending heights so that names fit between them; none is below ``lowest``."""
    moved: list[float] = []
    for height in heights:
        moved.append(max([height, *(above + _ROW for above in moved[-1:])]))
    for place in range(len(moved) - 1, -1, -1):
        moved[place] = min(moved[place], lowest - (len(moved) - 1 - place) * _ROW)
    return moved


def _text(svg: ET.Element, x: float, y: float, text: str, *, anchor: str = "start") -> None:
    ET.SubElement(svg, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}).text = text


def _line(svg: ET.Element, kind: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    places = zip(("x1", "y1", "x2", "y2"), (*start, *end), strict=True)
    ET.SubElement(svg, "line", {"class": kind, **{name: f"{value:.1f}" for name, value in places}})
