"""Evaluation figures of a collection's encoder, if ``akin evaluate`` wrote some to the data folder."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, TypeAdapter, ValidationError

# Written by: akin evaluate SET FOLDER --data DATA --json DATA/evaluation.json
FILE: Final = "evaluation.json"
_MAX_BYTES: Final = 4 * 2**20
_ALL: Final = "all"
_BASELINE: Final = "bm25"
# Ways to use an encoder, as `akin evaluate` names them; the first is what the service does by default.
_SERVED: Final = (
    "ot:focus:tagged:words",
    "ot:focus:words",
    "ot:focus:tagged",
    "ot:focus",
    "ot:tagged",
    "ot",
    "ot:whole",
)
_UNREADABLE: Final = (
    f"The file {FILE} of the data folder was not written by `akin evaluate` with --json; write it again, or "
    "remove it."
)


class _RowIn(BaseModel):
    """The fields that are read from a row; ``low`` and ``high`` are null if there is only one paper."""

    set: str
    system: str
    facet: str
    fold: str
    measure: str
    value: float
    low: float | None
    high: float | None
    n: int


_ROWS: Final = TypeAdapter(list[_RowIn])


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a set over ``n`` queries, in percent, as text; ``baseline`` is BM25's value or empty."""

    set: str
    respect: str
    measure: str
    value: str
    interval: str
    baseline: str
    n: int


@dataclass(frozen=True, slots=True)
class FiguresView:
    """The figures of one system for the panel; ``note`` says why there are none."""

    system: str = ""
    figures: tuple[Figure, ...] = ()
    note: str = ""

    @property
    def has_baseline(self) -> bool:
        """Whether any figure has a BM25 value to compare with."""
        return any(figure.baseline for figure in self.figures)


def read_figures(data: Path, encoder: str) -> FiguresView:
    """Read the figures of ``encoder`` from the data folder: each set's main measure, next to BM25's.

    The file is read again only if it has changed.
    """
    path = data / FILE
    try:
        found = path.stat()
        return _read(path, encoder, found.st_size, found.st_mtime_ns)
    except FileNotFoundError:
        return FiguresView()
    except OSError:
        return FiguresView(note=_UNREADABLE)


@lru_cache(maxsize=1)
def _read(path: Path, encoder: str, size: int, _mtime_ns: int) -> FiguresView:
    """Return the figures of the file as it was at ``_mtime_ns``; raises OSError."""
    if size > _MAX_BYTES:
        return FiguresView(note=_UNREADABLE)
    try:
        rows = _ROWS.validate_json(path.read_bytes())
    except ValidationError:
        return FiguresView(note=_UNREADABLE)
    of_all = [row for row in rows if row.fold == _ALL]
    held = {row.system for row in of_all}
    served = [name for name in (f"{encoder}:{way}" for way in _SERVED) if name in held]
    if not served:
        return FiguresView(note=f"The file {FILE} of the data folder holds no figures of encoder {encoder}.")
    return FiguresView(system=served[0], figures=tuple(_figures(of_all, served[0])))


def _figures(rows: Sequence[_RowIn], system: str) -> Iterable[Figure]:
    main = {row.set: row.measure for row in reversed(rows)}  # the measure of each set's first row
    beside = {(row.set, row.facet, row.measure): row for row in rows if row.system == _BASELINE}
    for row in rows:
        if row.system == system and row.measure == main[row.set]:
            compared = beside.get((row.set, row.facet, row.measure))
            yield Figure(
                set=row.set,
                respect="all queries" if row.facet == _ALL else row.facet,
                measure=row.measure,
                value=f"{row.value:.1f}",
                interval="" if row.low is None or row.high is None else f"{row.low:.0f}–{row.high:.0f}",
                baseline="" if compared is None else f"{compared.value:.1f}",
                n=row.n,
            )
