"""The drawing of a result's alignment: which of its sentences match which of the query's."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from models.counts import counted
from models.types import Facet, Sentence
from service.api.schemas.search.recommendations import SeedAlignmentOut
from service.api.schemas.search.results import AlignmentOut, OmittedOut, ResultOut

# The most pairs written out next to the drawing, and their least weight relative to the heaviest.
_MAX_PAIRS = 3
_MIN_SHARE_OF_HEAVIEST = 0.1
# The most rows or columns, and the side of a cell (CSS pixels) for them; wider drawings scroll.
_SIDES = ((8, 32.0), (14, 24.0), (1_000, 18.0))
# Space for the numbers of rows and of columns, and between rows to be like and rows to be unlike.
_LEFT, _WIDE_LEFT, _TOP, _GAP = 44.0, 62.0, 40.0, 12.0
# The radius of the lightest disc that can still be seen.
_MIN_RADIUS = 1.2


@dataclass(frozen=True, slots=True)
class Source:
    """A paper or text of the query; ``seed`` and ``negative`` identify it as in alignments.

    ``own`` is true for the query's own paper, whose sentences can be chosen, and false for further ones.
    """

    title: str
    sentences: tuple[Sentence, ...]
    seed: int = 0
    negative: bool = False
    own: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """A row or a column: one sentence with its middle ``at`` (CSS pixels).

    ``number`` counts sentences from 0, as answers do; ``label`` is shown and counts from 1. ``source`` is
    the title of the sentence's paper if the query has several; ``own`` if this is the query's own paper.
    ``unlike`` rows count against the result.
    """

    number: int
    label: str
    text: str
    facet: Facet | None
    at: float
    source: str = ""
    seed: int = 0
    unlike: bool = False
    own: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """A pair of sentences: a disc with an area proportional to its weight, relative to the heaviest one.

    ``weight`` is negative if the pair counts against the result; ``share`` and ``distance`` are text.
    """

    row: Line
    column: Line
    radius: float
    weight: float
    share: str
    distance: str

    @property
    def unlike(self) -> bool:
        """Whether the pair counts against the paper."""
        return self.weight < 0


@dataclass(frozen=True, slots=True)
class AlignmentView:
    """The drawing of an alignment; ``cells`` come heaviest first.

    ``pairs`` are the heaviest cells with each sentence in one of them, to be read first. ``summary`` says in
    words what is drawn, ``left_out`` what is not. If the encoder has one vector per paper there are no
    cells, and ``summary`` says so. ``side`` (of a cell), ``width`` and ``height`` are CSS pixels.
    """

    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    cells: tuple[Cell, ...]
    pairs: tuple[Cell, ...]
    left_out: tuple[str, ...]
    summary: str
    side: float
    width: float
    height: float

    @property
    def facets(self) -> tuple[Facet, ...]:
        """The facets of the sentences drawn, in the order of Facet."""
        held = {line.facet for line in (*self.rows, *self.columns)}
        return tuple(facet for facet in Facet if facet in held)


def draw_alignment(result: ResultOut, sources: Sequence[Source]) -> AlignmentView:
    """Draw the alignment of ``result`` with ``sources``, the papers of its query."""
    cells = [cell for cell in result.alignments if cell.sentence is not None]
    if not cells:
        return _whole_papers(result)
    row_keys = sorted({_row_key(cell) for cell in cells})
    numbers = sorted({cell.sentence for cell in cells if cell.sentence is not None})
    side = next(side for most, side in _SIDES if max(len(row_keys), len(numbers)) <= most)
    several = len(sources) > 1
    left = _WIDE_LEFT if several or any(unlike for unlike, *_ in row_keys) else _LEFT
    rows = _rows(row_keys, {(each.negative, each.seed): each for each in sources}, side, several=several)
    columns = {number: _column(result, number, left + side * (i + 0.5)) for i, number in enumerate(numbers)}
    heaviest = max(abs(cell.weight) for cell in cells) or 1.0
    drawn = sorted(
        (_cell(cell, rows[_row_key(cell)], columns[cell.sentence or 0], side, heaviest) for cell in cells),
        key=lambda cell: -abs(cell.weight),
    )
    bottom = max(row.at for row in rows.values()) + side / 2
    return AlignmentView(
        rows=tuple(rows.values()),
        columns=tuple(columns.values()),
        cells=tuple(drawn),
        pairs=_pairs(drawn),
        left_out=tuple(_left_out(result.omitted)),
        summary=_summary(drawn[0], len(rows), len(columns)),
        side=side,
        width=left + side * len(columns) + 1,
        height=round(bottom, 1) + 1,
    )


def share_in_words(weight: float) -> str:
    """Return a weight as a percentage: "31 %", "under 1 %", with a minus sign if it is negative."""
    sign = "−" if weight < 0 else ""
    share = abs(weight) * 100
    return f"{sign}under 1\u00a0%" if share < 0.5 else f"{sign}{share:.0f}\u00a0%"


_RowKey = tuple[bool, bool, int, int]


def _row_key(cell: AlignmentOut) -> _RowKey:
    """Return the key that identifies and sorts rows: those to be like first."""
    negative, seed = False, 0
    if isinstance(cell, SeedAlignmentOut):
        negative, seed = cell.negative, cell.seed
    return cell.weight < 0, negative, seed, cell.query_sentence or 0


def _rows(
    keys: Sequence[_RowKey], sources: dict[tuple[bool, int], Source], side: float, *, several: bool
) -> dict[_RowKey, Line]:
    """Return the rows from top to bottom, with a gap before those that count against the result."""
    gaps = [0.0] + [_GAP if later[0] != earlier[0] else 0.0 for earlier, later in pairwise(keys)]
    rows: dict[_RowKey, Line] = {}
    top = _TOP
    for key, gap in zip(keys, gaps, strict=True):
        unlike, negative, seed, number = key
        source = sources[negative, seed]
        sentence = source.sentences[number]
        rows[key] = Line(
            number=number,
            label=f"{'−' if negative else ''}{seed + 1}.{number + 1}" if several else str(number + 1),
            text=sentence.text,
            facet=sentence.facet,
            at=top + gap + side / 2,
            source=source.title if several else "",
            seed=seed,
            unlike=unlike,
            own=source.own,
        )
        top += gap + side
    return rows


def _column(result: ResultOut, number: int, at: float) -> Line:
    paper = result.paper
    sentence = paper.sentences[number]
    text = paper.abstract[sentence.start : sentence.end]
    return Line(number=number, label=str(number + 1), text=text, facet=sentence.facet, at=at)


def _cell(cell: AlignmentOut, row: Line, column: Line, side: float, heaviest: float) -> Cell:
    largest = side / 2 - 1.5
    radius = max(largest * math.sqrt(abs(cell.weight) / heaviest), _MIN_RADIUS)
    return Cell(
        row=row,
        column=column,
        radius=round(radius, 2),
        weight=cell.weight,
        share=share_in_words(cell.weight),
        distance=f"{cell.distance:.2f}",
    )


def _pairs(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the heaviest cells for the paper, each sentence once, and the heaviest cell against it."""
    chosen: list[Cell] = []
    # If the query is a single sentence, it may be in several pairs.
    alone = len({cell.row.label for cell in cells if not cell.unlike}) == 1
    for cell in cells:
        taken = any((cell.row is other.row and not alone) or cell.column is other.column for other in chosen)
        heavy = cell.weight >= _MIN_SHARE_OF_HEAVIEST * cells[0].weight
        if len(chosen) < _MAX_PAIRS and heavy and not cell.unlike and not taken:
            chosen.append(cell)
    return (*chosen, *[cell for cell in cells if cell.unlike][:1])


def _left_out(omitted: Sequence[OmittedOut]) -> Iterator[str]:
    """Yield how many pairs of each side are not drawn."""
    for unlike in (False, True):
        if side := [each for each in omitted if (each.weight < 0) is unlike]:
            count = sum(each.count for each in side)
            pairs = "One smaller pair is" if count == 1 else f"{count} smaller pairs are"
            share = share_in_words(sum(each.weight for each in side))
            yield f"{pairs} not shown; together they make up {share}."


def _summary(heaviest: Cell, n_rows: int, n_columns: int) -> str:
    sentences = f"{counted(n_rows, 'sentence')} of the query"
    held = counted(n_columns, "sentence")
    return (
        f"{sentences} against {held} of this paper. The largest pair is sentence {heaviest.row.label} of the "
        f"query with sentence {heaviest.column.label} here: {heaviest.share} of the match, "
        f"at distance {heaviest.distance}."
    )


def _whole_papers(result: ResultOut) -> AlignmentView:
    distances = " and ".join(f"{cell.distance:.2f}" for cell in result.alignments[:3]) or "unknown"
    summary = (
        "The encoder of this collection reads each abstract as a whole, so no sentences can be compared; the "
        f"distance is {distances}."
    )
    return AlignmentView((), (), (), (), (), summary, 0.0, 0.0, 0.0)
