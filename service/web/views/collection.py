"""The view of a collection: size, years, models, and examples to try."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexer.snapshot.snapshot import Snapshot
from models.facets import matching_facets
from models.types import Facet, Paper, Unit
from service.api.schemas.search.filters import MAX_NAME_CHARS
from service.web.views.results.years import stretch_in_words, stretch_length

# The most venues, and the most fields, that are listed.
_MAX_NAMES: Final = 12
# The most papers tried for one example, and the title and number of sentences of one easy to read.
_LOOKED_AT: Final = 60
_MAX_TITLE_CHARS: Final = 90
_SENTENCES: Final = range(4, 11)
# Characters of a sentence used as an example of a short query.
_TEXT: Final = range(40, 111)
# CSS pixels: the chart of years, and the widest bar in it.
_CHART_WIDTH, _CHART_HEIGHT, _WIDEST_BAR = 320.0, 56.0, 16.0
_MAX_BARS = 64

_SEEN: "WeakKeyDictionary[Snapshot, CollectionView]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Example:
    """A search to try first: papers similar to ``paper_id`` or ``text``; ``words`` say in which respect."""

    words: str
    title: str
    paper_id: str = ""
    text: str = ""
    facet: Facet | None = None
    unlike: Facet | None = None


@dataclass(frozen=True, slots=True)
class NameCount:
    """A venue or a field, and how many papers have it; ``linked`` if a filter may name it."""

    name: str
    n_papers: int
    linked: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """The papers of a stretch of years; ``x``, ``width`` and ``height`` are CSS pixels."""

    words: str
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class CollectionView:
    """The panel's view of a collection; ``created`` is the minute (UTC) when its generation was published.

    ``years`` are the first and the last year, ``None`` if no paper has a year; ``bars`` show the number of
    papers per year. ``venues`` and ``fields`` are the most frequent ones.
    """

    n_papers: int
    n_sentences: int
    encoder: str
    dim: int
    backend: str
    generation: str
    created: str
    years: tuple[int, int] | None
    n_undated: int
    bars: tuple[Bar, ...]
    venues: tuple[NameCount, ...]
    fields: tuple[NameCount, ...]
    examples: tuple[Example, ...]
    chart_height: float = _CHART_HEIGHT

    @property
    def chart_width(self) -> float:
        """The width of all bars, in CSS pixels."""
        return self.bars[-1].x + self.bars[-1].width if self.bars else 0.0


def describe_collection(snapshot: Snapshot) -> CollectionView:
    """Describe ``snapshot``; cached for each, and takes hundredths of a second for 200,000 papers."""
    seen = _SEEN.get(snapshot)
    if seen is None:
        seen = _SEEN[snapshot] = _describe(snapshot)
    return seen


def _describe(snapshot: Snapshot) -> CollectionView:
    manifest = snapshot.manifest
    years = _counts(snapshot, "year")
    span = (min(years), max(years)) if years else None
    return CollectionView(
        n_papers=len(snapshot),
        n_sentences=len(_values(snapshot, "starts")),
        encoder=manifest.encoder.name,
        dim=manifest.encoder.dim,
        backend=", ".join(sorted({segment.backend for segment in manifest.segments})) or "none",
        generation=manifest.generation,
        created=f"{datetime.fromisoformat(manifest.created):%Y-%m-%d %H:%M} UTC",
        years=span,
        n_undated=len(snapshot) - sum(years.values()),
        bars=_bars(years, *span) if span else (),
        venues=_most_frequent(_counts(snapshot, "venue")),
        fields=_most_frequent(_counts(snapshot, "fields")),
        examples=tuple(_examples(snapshot)),
    )


def _values(snapshot: Snapshot, name: str) -> pa.ChunkedArray:
    """Return all values of a column that are not null, with lists flattened."""
    column = pc.drop_null(snapshot.column(name))
    return pc.list_flatten(column) if pa.types.is_list(column.type) else column


def _counts(snapshot: Snapshot, name: str) -> dict[Any, int]:
    """Return the number of papers with each value of a column."""
    counted = pc.value_counts(_values(snapshot, name)).to_pylist()
    return {each["values"]: each["counts"] for each in counted}


def _most_frequent(counts: dict[str, int]) -> tuple[NameCount, ...]:
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        NameCount(name, n_papers, len(name) <= MAX_NAME_CHARS) for name, n_papers in best[:_MAX_NAMES] if name
    )


def _bars(years: dict[int, int], first: int, last: int) -> tuple[Bar, ...]:
    """Return a bar for each year, or range of years if there are many; years without papers have none."""
    length = stretch_length(first, last, most=_MAX_BARS)
    begin = first // length
    papers = np.zeros(last // length - begin + 1, dtype=int)
    for year, n_papers in years.items():
        papers[year // length - begin] += n_papers
    pitch = min(_CHART_WIDTH / len(papers), _WIDEST_BAR)
    return tuple(
        Bar(
            f"{stretch_in_words((begin + i) * length, length)}: {n_papers:,}",
            round(i * pitch, 2),
            round(pitch * 0.8, 2),
            round(max(_CHART_HEIGHT * n_papers / int(papers.max()), 1.0), 2),
        )
        for i, n_papers in enumerate(papers.tolist())
        if n_papers
    )


def _examples(snapshot: Snapshot) -> Iterator[Example]:
    """Yield examples: papers with the facets required, spread over the collection; deterministic."""
    wishes: list[tuple[str, Facet | None, Facet | None]] = [
        ("The same method on another problem as", Facet.METHOD, Facet.BACKGROUND),
        ("The same problem as", Facet.BACKGROUND, None),
        ("Findings like those of", Facet.RESULT, None),
    ]
    if snapshot.manifest.encoder.unit is Unit.DOCUMENT:
        wishes = [("Papers similar to", None, None)]
    for number, (words, facet, unlike) in enumerate(wishes):
        wanted = [each for each in (facet, unlike) if each is not None]
        found = _first(snapshot, (number + 0.5) / len(wishes), partial(_reads_well, wanted=wanted))
        for paper in found:
            yield Example(words, paper.title, paper_id=paper.id, facet=facet, unlike=unlike)
    for paper in _first(snapshot, 0.3, _opens_shortly):
        text = paper.sentences[0].text
        yield Example("Your own words, such as", text, text=text)


def _first(snapshot: Snapshot, place: float, fits: Callable[[Paper], bool]) -> Sequence[Paper]:
    """Return the first paper near ``place`` (0: first of all, 1: last) that fits, or nothing if none does."""
    start = int(place * len(snapshot))
    papers = (snapshot.paper(int(at)) for at in snapshot.positions[start : start + _LOOKED_AT])
    return [paper for paper in papers if fits(paper)][:1]


def _reads_well(paper: Paper, *, wanted: Sequence[Facet]) -> bool:
    held = Counter(sentence.facet for sentence in paper.sentences)
    return (
        0 < len(paper.title) <= _MAX_TITLE_CHARS
        and len(paper.sentences) in _SENTENCES
        # One sentence rarely says what a paper does, so each facet needs at least two.
        and all(sum(held[each] for each in matching_facets(facet)) > 1 for facet in wanted)
    )


def _opens_shortly(paper: Paper) -> bool:
    """Return whether a paper begins with a short background sentence, which reads like a query."""
    return bool(paper.sentences) and (
        paper.sentences[0].facet is Facet.BACKGROUND and len(paper.sentences[0].text) in _TEXT
    )
