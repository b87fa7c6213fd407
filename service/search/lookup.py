"""Lookup of papers by title, by the words typed so far, by name, and page by page."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from indexer.snapshot.snapshot import Snapshot
from models.types import Filters, Paper, Unit
from service.resolve.embedding import PaperVectors, vectors_of
from service.resolve.filter_names import no_such_name
from service.search.engine import SearchEngine
from service.search.query import FIRST_PAGE, REASON_DETAILS, Page, Reason

_NONE_LIKE = (
    "No paper of the collection has a similar title, or one with these words. Give more of the title, "
    "or search for papers about what it says."
)
_NONE_BEGINNING = (
    "No title of the collection contains words that begin like this, or has a similar beginning. If you "
    "know the title, use /v1/papers?title=."
)


@dataclass(frozen=True, slots=True)
class Listing:
    """A request for ``limit`` papers that pass ``filters``, after the first ``page.offset``."""

    filters: Filters = field(default_factory=Filters)
    limit: int = 10
    page: Page = FIRST_PAGE


@dataclass(frozen=True, slots=True)
class ListedPapers:
    """A page of papers, the start of the next page, and the ``total`` of papers on all pages.

    ``detail`` says why filters leave none, and names a name that no paper has.
    """

    papers: tuple[Paper, ...]
    next_page: Page | None
    total: int
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class FoundTitle:
    """A paper and the similarity of its title to the requested one (0 to 1, 1: the same words)."""

    paper: Paper
    similarity: float


@dataclass(frozen=True, slots=True)
class TitleAnswer:
    """Papers in the order of ``Titles.find``; ``reason`` and ``detail`` say why there are none."""

    results: tuple[FoundTitle, ...]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: float


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Papers whose titles contain the typed words or begin like them, or why there are none."""

    results: tuple[Paper, ...]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: float


def find_titles(engine: SearchEngine, title: str, *, limit: int) -> TitleAnswer:
    """Return papers by a title that may be misspelt or shortened; raises QueryError without a word."""
    started = time.perf_counter()
    snapshot = engine.snapshot
    found = tuple(
        FoundTitle(snapshot.paper(match.position), match.similarity)
        for match in engine.names.titles.find(title, limit=limit)
    )
    return TitleAnswer(
        results=found,
        generation=snapshot.generation,
        reason=None if found else Reason.NO_SUCH_TITLE,
        detail=None if found else _NONE_LIKE,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def suggest_titles(engine: SearchEngine, prefix: str, *, limit: int) -> Suggestions:
    """Return at most ``limit`` papers for a typed ``prefix``; if no title contains its words, similar ones.

    Raises QueryError if the prefix has no word.
    """
    started = time.perf_counter()
    snapshot, titles = engine.snapshot, engine.names.titles
    positions = titles.beginning(prefix, limit=limit) or titles.opening_like(prefix, limit=limit)
    found = tuple(map(snapshot.paper, positions))
    return Suggestions(
        results=found,
        generation=snapshot.generation,
        reason=None if found else Reason.NO_SUCH_TITLE,
        detail=None if found else _NONE_BEGINNING,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def fetch_papers(engine: SearchEngine, names: Sequence[str]) -> list[Paper | None]:
    """Return the papers with these names, in order; ``None`` for each unknown name. Raises DeadlineError."""
    positions = engine.names.positions(names)
    return [None if position is None else engine.snapshot.paper(position) for position in positions]


def nearest_papers(engine: SearchEngine, name: str, *, limit: int) -> list[Paper]:
    """Return at most ``limit`` papers that an unknown ``name`` may mean; raises DeadlineError."""
    return list(map(engine.snapshot.paper, engine.names.near(name, limit=limit)))


def list_papers(engine: SearchEngine, listing: Listing) -> ListedPapers:
    """Return a page of the papers that pass the filters, in the order in which they were added."""
    snapshot, start = engine.snapshot, listing.page.offset
    positions = np.flatnonzero(snapshot.allowed_papers(listing.filters))
    stop = min(start + listing.limit, len(positions))
    return ListedPapers(
        papers=tuple(map(snapshot.paper, positions[start:stop].tolist())),
        next_page=Page(stop) if stop < len(positions) else None,
        total=len(positions),
        detail=None if len(positions) else _why_none(snapshot, listing.filters),
    )


def _why_none(snapshot: Snapshot, filters: Filters) -> str | None:
    unknown = no_such_name(snapshot, filters)
    return unknown or (None if filters == Filters() else REASON_DETAILS[Reason.FILTERED_OUT])


def paper_vectors(engine: SearchEngine, position: int) -> PaperVectors:
    """Return the vectors of the paper at ``position``: the indexed ones, and that of the whole paper.

    If sentences are indexed, the vector of the whole paper is computed now. Raises EncoderMismatchError.
    """
    snapshot = engine.snapshot
    paper, stored = snapshot.paper(position), snapshot.vectors(position)
    dropped = snapshot.dropped_sentences(position)
    if snapshot.manifest.encoder.unit is Unit.DOCUMENT:
        return PaperVectors(paper, stored[:0], stored[0], dropped)
    return PaperVectors(paper, stored, vectors_of(engine.annotator.encoder, paper).document, dropped)
