"""The loss curve of a run as SVG."""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from evaluation.report.charts import Scale, ticks
from models.training.loop import History

_WIDTH, _PANEL, _LEFT, _GAP = 640.0, 180.0, 52.0, 46.0
_SMOOTH = 0.05  # the weight of a step in the running mean
_MAX_POINTS = 600
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd}.loss{stroke:#1f5fa8}.held{stroke:#b4510f}"
    "path{fill:none;stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}"
)

Points = Sequence[tuple[float, float]]


def curve(history: History) -> str:
    """Draw ``history``: the loss at the top, and below it the first held-out figure, in percent."""
    mean, smooth = None, []
    for step, loss in enumerate(history.losses, start=1):
        mean = loss if mean is None else (1 - _SMOOTH) * mean + _SMOOTH * loss
        smooth.append((float(step), mean))
    held = [(float(step), next(iter(figures.values()))) for step, figures in history.measured if figures]
    name = next((next(iter(figures)) for _, figures in history.measured if figures), "")
    height = _PANEL + _GAP + (_PANEL + _GAP if held else 0)
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH:g} {height:g}", role="img"
    )
    ET.SubElement(svg, "title").text = "Loss and held-out figure of a training run, by step"
    last = f"{smooth[-1][1]:.3f} after step {len(smooth):,}" if smooth else "no step yet"
    note = (
        f"; {name} held out: " + ", ".join(f"{value:.1f} at {step:g}" for step, value in held) if held else ""
    )
    ET.SubElement(svg, "desc").text = f"Running mean of the loss: {last}{note}."
    ET.SubElement(svg, "style").text = _STYLE
    n_steps = max([1.0, *(step for step, _ in [*smooth, *held])])
    _panel(svg, smooth[:: max(1, len(smooth) // _MAX_POINTS)], n_steps, top=24, title="loss", cls="loss")
    if held:
        title = f"held-out {name}: mean reciprocal rank, percent"
        _panel(svg, held, n_steps, top=24 + _PANEL + _GAP, title=title, cls="held")
    return ET.tostring(svg, encoding="unicode") + "\n"


def _panel(svg: ET.Element, points: Points, n_steps: float, *, top: float, title: str, cls: str) -> None:
    values = [value for _, value in points] or [0.0]
    axis = ticks(values)
    x, y = Scale(0, n_steps, _LEFT, _WIDTH - 12), Scale(axis[0], axis[-1], top + _PANEL, top)
    ET.SubElement(svg, "text", x=f"{_LEFT:g}", y=f"{top - 8:g}").text = title
    for tick in axis:
        up = f"{y(tick):.1f}"
        ET.SubElement(svg, "line", {"class": "grid"}, x1=f"{_LEFT:g}", x2=f"{_WIDTH - 12:g}", y1=up, y2=up)
        ET.SubElement(svg, "text", x="6", y=f"{y(tick) + 4:.1f}").text = f"{tick:g}"
    for step in (0.0, n_steps):
        place = {"text-anchor": "middle", "x": f"{x(step) - (12 if step else 0):.1f}"}
        ET.SubElement(svg, "text", place, y=f"{top + _PANEL + 16:g}").text = f"{step:,.0f}"
    if points:
        path = "L".join(f"{x(step):.1f} {y(value):.1f}" for step, value in points)
        ET.SubElement(svg, "path", {"class": cls}, d=f"M{path}")
