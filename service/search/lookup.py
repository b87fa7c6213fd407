"""Lookup: papers by their titles, by the words one has begun to type, by names, and all of them in turn."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from models.errors import QueryError
from models.types import Filters, Paper, Unit
from service.context import check_deadline
from service.resolve.embedding import PaperVectors, vectors_of
from service.resolve.near_ids import near_ids
from service.search.engine import SearchEngine
from service.search.query import FIRST_PAGE, Page, Reason

_NONE_LIKE = (
    "No paper of the collection has a similar title. Give more of the title, or search for papers about what "
    "it says."
)
_NONE_BEGINNING = (
    "No title of the collection contains words that begin like this, or has a similar beginning. If you "
    "know the title, use /v1/papers?title=."
)


@dataclass(frozen=True, slots=True)
class Listing:
    """The papers that pass ``filters``: ``limit`` of them, after the first ``page.offset``."""

    filters: Filters = field(default_factory=Filters)
    limit: int = 10
    page: Page = FIRST_PAGE


@dataclass(frozen=True, slots=True)
class ListedPapers:
    """A page of papers, where the next one begins, and how many papers ``total`` all pages have."""

    papers: tuple[Paper, ...]
    next_page: Page | None
    total: int


@dataclass(frozen=True, slots=True)
class FoundTitle:
    """A paper and how much its title is like the one asked for (0 to 1, 1: the same words)."""

    paper: Paper
    similarity: float


@dataclass(frozen=True, slots=True)
class TitleAnswer:
    """Papers, the most alike first; ``reason`` and ``detail`` say why where there are none."""

    results: tuple[FoundTitle, ...]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: float


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Papers whose titles hold the words begun, or open like them; ``reason`` and ``detail`` tell of none."""

    results: tuple[Paper, ...]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: float


def find_titles(engine: SearchEngine, title: str, *, limit: int) -> TitleAnswer:
    """At most ``limit`` papers by a title that may be misspelt; raises QueryError for one without a word."""
    started = time.perf_counter()
    snapshot = engine.snapshot
    found = tuple(
        FoundTitle(snapshot.paper(match.position), match.similarity)
        for match in engine.names.titles.like(title, limit=limit)
    )
    return TitleAnswer(
        results=found,
        generation=snapshot.generation,
        reason=None if found else Reason.NO_SUCH_TITLE,
        detail=None if found else _NONE_LIKE,
        took_ms=(time.perf_counter() - started) * 1000,
    )


def suggest_titles(engine: SearchEngine, prefix: str, *, limit: int) -> Suggestions:
    """At most ``limit`` papers for what someone has typed so far, mistyped where no title holds its words.

    Raises QueryError where it is no word.
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
    """The papers with these names, in order; ``None`` for each that is not there. Raises DeadlineError."""
    positions = engine.names.positions(names)
    return [None if position is None else engine.snapshot.paper(position) for position in positions]


def nearest_papers(engine: SearchEngine, name: str, *, limit: int) -> list[Paper]:
    """At most ``limit`` papers that an unknown ``name`` may have meant: by an id or else a title like it.

    All ids, and then all titles, are looked at. Raises DeadlineError.
    """
    check_deadline()
    snapshot = engine.snapshot
    positions = near_ids(snapshot.column("id"), name, limit=limit)
    near = [position for position in positions if snapshot.living[position]]
    if not near:
        try:
            near = [match.position for match in engine.names.titles.like(name, limit=limit)]
        except QueryError:  # a name without a letter or digit
            return []
    return list(map(snapshot.paper, near))


def list_papers(engine: SearchEngine, listing: Listing) -> ListedPapers:
    """A page of the papers that pass the filters, in the order in which they came."""
    snapshot, start = engine.snapshot, listing.page.offset
    positions = np.flatnonzero(snapshot.allowed_papers(listing.filters))
    stop = min(start + listing.limit, len(positions))
    return ListedPapers(
        papers=tuple(map(snapshot.paper, positions[start:stop].tolist())),
        next_page=Page(stop) if stop < len(positions) else None,
        total=len(positions),
    )


def paper_vectors(engine: SearchEngine, position: int) -> PaperVectors:
    """The vectors of the paper at ``position``: those of its sentences as they are indexed.

    Where they are of sentences, that of the whole is computed now. Raises EncoderMismatchError.
    """
    snapshot = engine.snapshot
    paper, stored = snapshot.paper(position), snapshot.vectors(position)
    dropped = snapshot.dropped_sentences(position)
    if snapshot.manifest.encoder.unit is Unit.DOCUMENT:
        return PaperVectors(paper, stored[:0], stored[0], dropped)
    return PaperVectors(paper, stored, vectors_of(engine.annotator.encoder, paper).document, dropped)
