"""Seeds: papers to start from, each with its own aspect, and why some of them cannot be used."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float32

from indexer.near_ids import near_ids
from indexer.snapshot import Snapshot
from models.errors import SentenceSelectionError
from models.types import Paper, Unit
from service.context import check_deadline, stage
from service.resolve.pasted import read_pasted
from service.search.aspect import Aspect, facets_missing, focused, select_sentences
from service.search.engine import SearchEngine
from service.search.reasons import limit_warnings

_SUGGESTIONS = 3
# Looking for what was meant reads every id of the collection, so a list of strangers gets no more than this.
_MOST_SUGGESTED_FOR = 16
# A name with a space is taken for a title; shorter ones stand in too many.
_SHORTEST_TITLE = 8


class SeedReason(StrEnum):
    """Why a seed is left out."""

    NOT_INDEXED = "not_indexed"
    NO_SENTENCE_OF_THAT_FACET = "no_sentence_of_that_facet"
    SELECTION_IMPOSSIBLE = "selection_impossible"


@dataclass(frozen=True, slots=True)
class Seed:
    """A paper (``paper_id`` of an indexed one, or ``paper``) and what of it matters.

    ``weight`` (over 0) is how much it counts beside the other seeds of its list.
    """

    paper_id: str | None = None
    paper: Paper | None = None
    aspect: Aspect = field(default_factory=Aspect)
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ResolvedSeed:
    """Seed number ``number``, from 0, of its list, and what it was taken to be.

    ``selected[i]`` is the number of the sentence behind ``vectors[i]``. ``position`` is ``None`` for a pasted
    paper.
    """

    number: int
    negative: bool
    paper: Paper
    position: int | None
    selected: tuple[int, ...]
    dropped_sentences: int
    vectors: Float32[np.ndarray, "n_query dim"]
    weight: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A paper that an unknown id may have meant."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class UnresolvedSeed:
    """Seed number ``number``, from 0, of its list, left out; ``detail`` says why in words."""

    number: int
    negative: bool
    reason: SeedReason
    detail: str
    did_you_mean: tuple[Suggestion, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """A paper with its vectors, before anything is chosen of it."""

    paper: Paper
    position: int | None
    vectors: Float32[np.ndarray, "n_sentence dim"]
    dropped_sentences: int
    warnings: tuple[str, ...] = ()


def resolve_seeds(
    engine: SearchEngine, seeds: Sequence[Seed], negatives: Sequence[Seed]
) -> tuple[list[ResolvedSeed], list[UnresolvedSeed]]:
    """The seeds and then the negatives that can be used, in order, and those that cannot.

    Raises DeadlineError.
    """
    given = [(number, False, seed) for number, seed in enumerate(seeds)]
    given += [(number, True, seed) for number, seed in enumerate(negatives)]
    pasted = _encode(engine, [seed.paper for _, _, seed in given if seed.paper is not None])
    unit = engine.snapshot.manifest.encoder.unit
    resolved: list[ResolvedSeed] = []
    unresolved: list[UnresolvedSeed] = []
    for number, negative, seed in given:
        check_deadline()
        known = next(pasted) if seed.paper is not None else _indexed(engine, seed.paper_id or "")
        if known is None:
            suggest = sum(lost.reason is SeedReason.NOT_INDEXED for lost in unresolved) < _MOST_SUGGESTED_FOR
            unresolved.append(
                _unknown(engine, seed.paper_id or "", number=number, negative=negative, suggest=suggest)
            )
            continue
        chosen = _choose(known, seed, number=number, negative=negative, unit=unit)
        if isinstance(chosen, ResolvedSeed):
            resolved.append(chosen)
        else:
            unresolved.append(chosen)
    return resolved, unresolved


def _encode(engine: SearchEngine, papers: Sequence[Paper]) -> Iterator[_Known]:
    for given in papers:
        check_deadline()
        paper, warnings = read_pasted(given)
        # One at a time: on processors that is as fast as together, and as precise to stop as it gets.
        with stage("encode"):
            (annotated,) = engine.annotator.annotate([paper])
        encoded = annotated.encoded
        yield _Known(annotated.paper, None, encoded.sentences, encoded.dropped_sentences, warnings)


def _indexed(engine: SearchEngine, paper_id: str) -> _Known | None:
    snapshot = engine.snapshot
    position = engine.identifiers.position(paper_id)
    if position is None:
        return None
    return _Known(
        snapshot.paper(position),
        position,
        snapshot.vectors(position),
        snapshot.dropped_sentences(position),
    )


def _choose(
    known: _Known, seed: Seed, *, number: int, negative: bool, unit: Unit
) -> ResolvedSeed | UnresolvedSeed:
    n_vectors = len(known.vectors)
    try:
        selected = select_sentences(seed.aspect, known.paper, n_vectors=n_vectors, unit=unit).like
    except SentenceSelectionError as error:
        return UnresolvedSeed(number, negative, SeedReason.SELECTION_IMPOSSIBLE, str(error))
    if not selected:
        detail = facets_missing(seed.aspect, known.paper, n_vectors=n_vectors)
        return UnresolvedSeed(number, negative, SeedReason.NO_SENTENCE_OF_THAT_FACET, detail)
    # What to keep away from keeps its topic: it is not turned.
    turn = 0.0 if negative or unit is Unit.DOCUMENT else seed.aspect.turn
    kept = selected if unit is Unit.SENTENCE else (0,)
    return ResolvedSeed(
        number=number,
        negative=negative,
        paper=known.paper,
        position=known.position,
        selected=selected,
        dropped_sentences=known.dropped_sentences,
        vectors=focused(known.vectors, kept, focus=turn),
        weight=seed.weight,
        warnings=(*known.warnings, *limit_warnings(seed.aspect, n_vectors)),
    )


def _unknown(
    engine: SearchEngine, paper_id: str, *, number: int, negative: bool, suggest: bool
) -> UnresolvedSeed:
    snapshot = engine.snapshot
    near = tuple(_suggestions(snapshot, paper_id)) if suggest else ()
    detail = "No paper of this collection has this id" + (
        "; did_you_mean lists what comes near." if near else "."
    )
    return UnresolvedSeed(number, negative, SeedReason.NOT_INDEXED, detail, near)


def _suggestions(snapshot: Snapshot, given: str) -> Iterator[Suggestion]:
    positions = near_ids(snapshot.column("id"), given, limit=_SUGGESTIONS)
    title = " ".join(given.split())
    if not positions and " " in title and len(title) >= _SHORTEST_TITLE:
        found = pc.match_substring(snapshot.column("title"), title, ignore_case=True)
        positions = np.flatnonzero(pc.fill_null(found, False))[:_SUGGESTIONS].tolist()
    for position in positions:
        if snapshot.living[position]:
            paper = snapshot.paper(position)
            yield Suggestion(paper.id, paper.title)
