"""The results by the year they appeared in, as they are drawn: one column for a stretch of years."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.counts import counted
from service.api.schemas.base import PaperOut
from service.web.views.results.years import stretch_in_words, stretch_length

# As many columns as fit a telephone; beyond, a column holds several years.
_MOST_COLUMNS = 10
# CSS pixels: from a column to the next, from a dot to the one above it, around the drawing, for the years.
_PITCHES = ((7, 44.0), (_MOST_COLUMNS, 33.0))
_RISE, _MARGIN, _FOOT = 24.0, 4.0, 24.0
_RADIUS = 10.5
# Dots of one column; of the others their number is told.
_MOST_DOTS = 10

LinkFn = Callable[[int, int], str]


@dataclass(frozen=True, slots=True)
class Dot:
    """A result: its rank and what it is, in words; ``x`` and ``y`` (CSS pixels) its middle."""

    rank: int
    words: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Column:
    """A stretch of years and its results, best lowest; ``label`` is short, ``words`` are whole.

    ``href`` leads to the same search within these years, if a link was asked for. ``more`` results have no
    dot. ``above`` is where their number stands.
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
    """What the templates draw; ``columns`` of years without results have no dots.

    ``summary`` says in words what is drawn; all else is empty where no result states its year.
    """

    columns: tuple[Column, ...]
    n_undated: int
    summary: str
    width: float
    height: float
    base: float
    pitch: float = 0.0
    radius: float = _RADIUS


def draw_timeline(
    papers: Sequence[PaperOut], *, ranks: Sequence[int] | None = None, link: LinkFn | None = None
) -> TimelineView:
    """The results of a page by year, the best first in each column.

    Their ``ranks`` count from 1 unless they are given; ``link`` gives the address of the same search within
    years (both included).
    """
    given = range(1, len(papers) + 1) if ranks is None else ranks
    ranked = sorted(zip(given, papers, strict=True), key=lambda each: each[0])
    years = [paper.year for paper in papers if paper.year is not None]
    n_undated = len(ranked) - len(years)
    if not years:
        return TimelineView((), n_undated, "None of these papers has a year", 0.0, 0.0, 0.0)
    length = stretch_length(min(years), max(years), most=_MOST_COLUMNS)
    of_stretch: dict[int, list[tuple[int, PaperOut]]] = defaultdict(list)
    for rank, paper in ranked:
        if paper.year is not None:
            of_stretch[paper.year // length * length].append((rank, paper))
    starts = range(min(of_stretch), max(of_stretch) + 1, length)
    pitch = next(pitch for most, pitch in _PITCHES if len(starts) <= most)
    tallest = min(max(map(len, of_stretch.values())), _MOST_DOTS)
    base = _MARGIN + tallest * _RISE + (14.0 if any(len(o) > _MOST_DOTS for o in of_stretch.values()) else 0)
    columns = tuple(
        _column(start, length, of_stretch[start], at=_MARGIN + pitch * (i + 0.5), base=base, link=link)
        for i, start in enumerate(starts)
    )
    return TimelineView(
        columns=columns,
        n_undated=n_undated,
        summary=_summary(years, n_undated, length),
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
        for place, (rank, paper) in enumerate(ranked[:_MOST_DOTS])
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
