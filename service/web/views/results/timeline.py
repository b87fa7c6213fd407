"""The drawing of results by year: one column for each year or range of years."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.counts import counted
from service.api.schemas.base import PaperOut
from service.web.views.results.years import stretch_in_words, stretch_length

# The most columns that fit a phone's screen; with more years, a column holds several.
_MAX_COLUMNS = 10
# CSS pixels: pitch of columns (by their number), rise from dot to dot, margin of the drawing, room for years.
_PITCHES = ((7, 44.0), (_MAX_COLUMNS, 33.0))
_RISE, _MARGIN, _FOOT = 24.0, 4.0, 24.0
_RADIUS = 10.5
# The most dots of a column; further papers are only counted.
_MAX_DOTS = 10

LinkFn = Callable[[int, int], str]


@dataclass(frozen=True, slots=True)
class Dot:
    """A result with its rank and description; ``x`` and ``y`` (CSS pixels) are its middle."""

    rank: int
    words: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Column:
    """A range of years and its results, best lowest; ``label`` is its first year, ``words`` describe it.

    ``href`` links to the same search within these years, if links were requested. ``more`` results have no
    dot; their number is drawn at the height ``above``.
    """

    label: str
    words: str
    at: float
    dots: tuple[Dot, ...]
    more: int = 0
    above: float = 0.0
    href: str = ""


@dataclass(frozen=True, slots=True)
class TimelineView:
    """The drawing of a timeline; ``columns`` of years without results have no dots.

    ``summary`` says in words what is drawn; without any year, ``columns`` is empty and sizes are 0.
    """

    columns: tuple[Column, ...]
    summary: str
    width: float
    height: float
    base: float
    pitch: float = 0.0
    radius: float = _RADIUS


def draw_timeline(
    papers: Sequence[PaperOut], *, ranks: Sequence[int] | None = None, link: LinkFn | None = None
) -> TimelineView:
    """Draw the results of a page by year, the best first in each column.

    The ``ranks`` default to 1, 2, ...; ``link`` returns the address of the same search within two years
    (both included).
    """
    given = range(1, len(papers) + 1) if ranks is None else ranks
    ranked = sorted(zip(given, papers, strict=True), key=lambda each: each[0])
    years = [paper.year for paper in papers if paper.year is not None]
    if not years:
        return TimelineView((), "None of these papers has a year", 0.0, 0.0, 0.0)
    length = stretch_length(min(years), max(years), most=_MAX_COLUMNS)
    of_stretch: dict[int, list[tuple[int, PaperOut]]] = defaultdict(list)
    for rank, paper in ranked:
        if paper.year is not None:
            of_stretch[paper.year // length * length].append((rank, paper))
    starts = range(min(of_stretch), max(of_stretch) + 1, length)
    pitch = next(pitch for most, pitch in _PITCHES if len(starts) <= most)
    tallest = min(max(map(len, of_stretch.values())), _MAX_DOTS)
    base = _MARGIN + tallest * _RISE + (14.0 if any(len(o) > _MAX_DOTS for o in of_stretch.values()) else 0)
    columns = tuple(
        _column(start, length, of_stretch[start], at=_MARGIN + pitch * (i + 0.5), base=base, link=link)
        for i, start in enumerate(starts)
    )
    return TimelineView(
        columns=columns,
        summary=_summary(years, len(ranked) - len(years), length),
        width=2 * _MARGIN + pitch * len(columns),
        height=base + _FOOT,
        base=base,
        pitch=pitch,
    )


def _column(
    start: int,
    length: int,
    ranked: Sequence[tuple[int, PaperOut]],
    *,
    at: float,
    base: float,
    link: LinkFn | None,
) -> Column:
    dots = tuple(
        Dot(rank, f"{rank}. {paper.title} ({paper.year})", at, base - _RISE * (place + 0.5))
        for place, (rank, paper) in enumerate(ranked[:_MAX_DOTS])
    )
    n_papers = counted(len(ranked), "paper") if ranked else "no paper"
    return Column(
        label=str(start),
        words=f"{stretch_in_words(start, length)}: {n_papers}",
        at=at,
        dots=dots,
        more=len(ranked) - len(dots),
        above=base - _RISE * len(dots) - 4,
        href=link(start, start + length - 1) if link and ranked else "",
    )


def _summary(years: Sequence[int], n_undated: int, length: int) -> str:
    first, last = min(years), max(years)
    span = f"in {first}" if first == last else f"from {first} to {last}"
    n_papers = counted(len(years), "paper")
    undated = f", {n_undated} more without a year" if n_undated else ""
    columns = f", {length} years per column" if length > 1 else ""
    return f"{n_papers} {span}{undated}{columns}"
