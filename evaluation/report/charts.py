"""Charts of the report as inline SVG: dots with intervals, two systems query by query, an alignment.

Each chart has a <title> and a <desc> that describe it in words, and takes its colours from report.css.
Nothing depends on colour alone: the best system is a diamond, a query lost is a ring, each cell of a heat map
has its number.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from markupsafe import Markup

# User units: about CSS pixels on a wide screen.
_WIDTH, _ROW_HEIGHT = 400.0, 42.0
_SIDE, _TOP = 16.0, 4.0
_SCATTER_SIDE, _PLOT_SIDE = 306.0, 244.0
_SCATTER_LEFT, _SCATTER_TOP = 46.0, 10.0
_CELL_WIDTH, _CELL_HEIGHT = 38.0, 22.0

# With more queries than this a scatter is one path: 1,000 titles for each of 20 systems are megabytes.
_MAX_LABELLED = 200
# Lighter cells of a heat map would show "0"; they get a dot instead.
_MIN_SHOWN = 0.005


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map of values from ``low`` to ``high`` to positions from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the position of ``value``."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Dot:
    """A system's figure with its interval, in percent; ``low`` and ``high`` are NaN without an interval."""

    label: str
    value: float
    low: float
    high: float
    best: bool

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval to draw."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def words(self) -> str:
        """The figure in words."""
        if not math.isfinite(self.value):
            return "no figure"
        return f"{self.value:.1f}" + (f" ({self.low:.1f} to {self.high:.1f})" if self.has_interval else "")


@dataclass(frozen=True, slots=True)
class Point:
    """One query: the values, in percent, of the systems on the horizontal and the vertical axis."""

    query_id: str
    across: float
    upwards: float


def ticks(values: Sequence[float], *, most: int = 6) -> list[float]:
    """Return at most ``most`` round numbers that span the finite ``values``; the outer ones end the axis."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 100.0]
    low, high = min(finite), max(finite)
    for step in (1, 2, 5, 10, 20, 25, 50):
        first, last = math.floor(low / step), math.ceil(high / step)
        last += first == last
        if last - first < most:
            return [float(step * i) for i in range(first, last + 1)]
    return [low, high]


def dots(systems: Sequence[Dot], axis: Sequence[float], *, name: str, title: str) -> Markup:
    """Draw each system's figure as a dot on its interval, over ``axis`` (its ticks), in the order given.

    ``name`` makes the ids of the page unique. Dots instead of bars: a bar has to start at 0, so twenty
    systems that differ by a few points are twenty nearly equal bars, and the bar hides half of the interval.
    The name is above its line, so that a long one fits on a phone.
    """
    height = _TOP + _ROW_HEIGHT * len(systems) + 24
    bottom = height - 22
    scale = Scale(axis[0], axis[-1], _SIDE, _WIDTH - _SIDE)
    words = "; ".join(f"{dot.label} {dot.words}" for dot in systems) or "no figures"
    svg = _svg(_WIDTH, height, name=name, title=title, words=f"From top to bottom: {words}.")
    for tick in axis:
        x = _number(scale(tick))
        _add(svg, "line", x1=x, x2=x, y1=_TOP, y2=bottom, cls="grid")
        _add(svg, "text", x=x, y=height - 7, cls="tick", text=f"{tick:g}")
    for row, dot in enumerate(systems):
        _add_dot(svg, dot, scale, _TOP + _ROW_HEIGHT * row)
    return _markup(svg)


def scatter(
    points: Sequence[Point], axis: Sequence[float], *, name: str, title: str, across: str, upwards: str
) -> Markup:
    """Plot two systems query by query, both over ``axis`` (its ticks), with the diagonal of equal values.

    Queries above the diagonal are dots, below it rings, on it crosses; if there are many, each group is one
    path of dots.
    """
    left, top, side = _SCATTER_LEFT, _SCATTER_TOP, _PLOT_SIDE
    x, y = Scale(axis[0], axis[-1], left, left + side), Scale(axis[0], axis[-1], top + side, top)
    above = [point for point in points if point.upwards > point.across]
    below = [point for point in points if point.upwards < point.across]
    equal = [point for point in points if point.upwards == point.across]
    words = (
        f"Of {len(points)} queries, {upwards} is better on {len(above)}, {across} on {len(below)}; "
        f"{len(equal)} are equal."
    )
    svg = _svg(_SCATTER_SIDE, _SCATTER_SIDE, name=name, title=title, words=words)
    for tick in axis:
        at, up = _number(x(tick)), _number(y(tick))
        _add(svg, "path", d=f"M{at} {top}v{side}M{left} {up}h{side}", cls="grid")
        _add(svg, "text", x=at, y=top + side + 16, cls="tick", text=f"{tick:g}")
        _add(svg, "text", x=left - 6, y=y(tick) + 4, cls="tick end", text=f"{tick:g}")
    _add(svg, "path", d=f"M{left} {top + side}l{side} {-side}", cls="diagonal")
    for cls, group in (("equal", equal), ("lost", below), ("won", above)):
        _add_points(svg, group, cls, x=x, y=y, crowded=len(points) > _MAX_LABELLED)
    _add(svg, "text", x=left + 8, y=top + 18, cls="count", text=f"{len(above)} better")
    _add(svg, "text", x=left + side - 8, y=top + side - 10, cls="count end", text=f"{len(below)} worse")
    middle = _number(top + side / 2)
    _add(svg, "text", x=left + side / 2, y=_SCATTER_SIDE - 8, cls="axis", text=_shortened(across))
    turned = _add(svg, "text", x=13, y=middle, cls="axis", text=_shortened(upwards))
    turned.set("transform", f"rotate(-90 13 {middle})")
    return _markup(svg)


def heat_map(
    cells: Mapping[tuple[int, int], tuple[float, float]],
    rows: Sequence[int],
    columns: Sequence[int],
    *,
    name: str,
    title: str,
) -> Markup:
    """Draw an alignment: ``cells[sentence, query sentence]`` is (weight, distance), weights shown in percent.

    Sentences of the paper run down, next to its abstract, and the few of the query across, so thirty
    sentences need no horizontal scrolling. Shades are relative to the heaviest cell, numbers are not.
    """
    left, top = 34.0, 34.0
    # One or two columns are narrower than their heading.
    width, height = max(left + _CELL_WIDTH * len(columns) + 2, 96.0), top + _CELL_HEIGHT * len(rows) + 2
    most = max((weight for weight, _ in cells.values()), default=0.0)
    heaviest = sorted(cells, key=lambda cell: (-cells[cell][0], cell))[:5]
    words = "; ".join(
        f"sentence {row} with query sentence {column}, {cells[row, column][0]:.0%}"
        for row, column in heaviest
    )
    svg = _svg(width, height, name=name, title=title, words=f"Heaviest: {words or 'none'}.")
    svg.set("width", _number(width))
    svg.set("height", _number(height))
    _add(svg, "text", x=2, y=12, cls="axis start", text="query sentence")
    for j, column in enumerate(columns):
        _add(svg, "text", x=left + _CELL_WIDTH * (j + 0.5), y=28, cls="tick", text=str(column))
    light: list[str] = []
    for i, row in enumerate(rows):
        y = top + _CELL_HEIGHT * i
        _add(svg, "text", x=left - 8, y=y + 15, cls="tick end", text=str(row))
        for j, column in enumerate(columns):
            weight, distance = cells.get((row, column), (0.0, math.nan))
            if weight >= _MIN_SHOWN:
                cell = _add_cell(svg, left + _CELL_WIDTH * j, y, weight, most=most)
                words = f"sentence {row} with query sentence {column}: {weight:.1%}, distance {distance:.3f}"
                _add(cell, "title", text=words)
            else:
                light.append(f"M{_number(left + _CELL_WIDTH * (j + 0.5))} {_number(y + _CELL_HEIGHT / 2)}h0")
    _add(svg, "path", d="".join(light), cls="light")
    return _markup(svg)


def _add_dot(svg: ET.Element, dot: Dot, scale: Scale, top: float) -> None:
    y = top + 25
    group = _add(svg, "g", cls="best" if dot.best else "")
    _add(group, "line", x1=scale.start, x2=scale.end, y1=y, y2=y, cls="lane")
    _add(group, "text", x=_SIDE, y=top + 13, cls="name", text=_shortened(dot.label, 48))
    if not math.isfinite(dot.value):
        _add(group, "text", x=_WIDTH - _SIDE, y=top + 13, cls="value", text="no figure")
        return
    _add(group, "text", x=_WIDTH - _SIDE, y=top + 13, cls="value", text=f"{dot.value:.1f}")
    if dot.has_interval:
        low, high = _number(scale(dot.low)), _number(scale(dot.high))
        _add(group, "path", d=f"M{low} {y}H{high}M{low} {y - 4}v8M{high} {y - 4}v8", cls="whisker")
    x = _number(scale(dot.value))
    mark = (
        _add(group, "path", d=f"M{x} {y - 7}l7 7l-7 7l-7 -7z", cls="dot")
        if dot.best
        else _add(group, "circle", cx=x, cy=y, r=4.5, cls="dot")
    )
    _add(mark, "title", text=f"{dot.label}: {dot.words}")


def _add_points(
    svg: ET.Element, points: Sequence[Point], cls: str, *, x: Scale, y: Scale, crowded: bool
) -> None:
    places = [(_number(x(point.across)), _number(y(point.upwards))) for point in points]
    if crowded:
        # A line of length zero with round ends is a dot.
        _add(svg, "path", d="".join(f"M{across} {up}h0" for across, up in places), cls=f"{cls} crowd")
        return
    for point, (across, up) in zip(points, places, strict=True):
        if cls == "equal":
            mark = _add(svg, "path", d=f"M{across} {up}m-3 -3l6 6m0 -6l-6 6", cls=cls)
        else:
            mark = _add(svg, "circle", cx=across, cy=up, r=4, cls=cls)
        words = f"{point.query_id}: {point.upwards:.1f} against {point.across:.1f}"
        _add(mark, "title", text=words)


def _add_cell(svg: ET.Element, x: float, y: float, weight: float, *, most: float) -> ET.Element:
    group = _add(svg, "g")
    box = _add(
        group, "rect", x=x + 1, y=y + 1, width=_CELL_WIDTH - 2, height=_CELL_HEIGHT - 2, rx=3, cls="cell"
    )
    box.set("style", f"--share:{weight / most:.2f}")
    _add(group, "text", x=x + _CELL_WIDTH / 2, y=y + 15, cls="weight", text=f"{100 * weight:.0f}")
    return group


def _svg(width: float, height: float, *, name: str, title: str, words: str) -> ET.Element:
    svg = ET.Element("svg", viewBox=f"0 0 {_number(width)} {_number(height)}", role="img")
    svg.set("aria-labelledby", f"{name}-title {name}-words")
    _add(svg, "title", id=f"{name}-title", text=title)
    _add(svg, "desc", id=f"{name}-words", text=words)
    return svg


def _add(
    parent: ET.Element,
    tag: str,
    *,
    cls: str = "",
    text: str = "",
    **attributes: str | int | float,  # noqa: PYI041  # at run time an int is no float
) -> ET.Element:
    """Add a child to ``parent``; ``attributes`` are those of the SVG element."""
    written = {
        key: value if isinstance(value, str) else _number(float(value)) for key, value in attributes.items()
    }
    element = ET.SubElement(parent, tag, written)
    if cls:
        element.set("class", cls)
    if text:
        element.text = text
    return element


def _markup(svg: ET.Element) -> Markup:
    """Return the SVG as text; ElementTree has escaped all ids and titles."""
    return Markup(ET.tostring(svg, encoding="unicode"))  # noqa: S704  # escaped by the serialiser


def _number(position: float) -> str:
    return f"{position:.2f}".rstrip("0").rstrip(".")


def _shortened(name: str, most: int = 36) -> str:
    """Cut out the middle of ``name``: names of systems often begin alike and differ at the end."""
    head = most // 3
    return name if len(name) <= most else f"{name[:head]}…{name[head + 1 - most :]}"
