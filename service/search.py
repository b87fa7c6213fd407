"""Search: one query paper in, ranked and explained papers out."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial

import numpy as np
from jaxtyping import Float32

from indexer.snapshot import Snapshot, open_snapshot
from models.encoder import Encoder, load_encoder
from models.errors import SentenceSelectionError
from models.language import language_of
from models.transport import SERVING, Scorer
from models.types import Filters, Paper, RankedPaper, Unit
from service.aspect import Aspect, focused, select_sentences
from service.candidates import find_candidates
from service.rerank import default_tau, rerank
from service.settings import Settings

# Single match hands the re-ranking at least this many papers for each result asked for.
_CANDIDATES_PER_RESULT = 5


class Reason(StrEnum):
    """Why an answer holds no paper."""

    FILTERED_OUT = "filtered_out"
    NOTHING_ELSE_INDEXED = "nothing_else_indexed"
    NO_SENTENCE_OF_THAT_FACET = "no_sentence_of_that_facet"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What to search for: a paper (``paper_id`` of an indexed one, or ``paper``) and what of it matters.

    ``limit`` counts papers; ``tau`` is the temperature of the marginals (``None``: what suits
    the encoder).
    """

    paper_id: str | None = None
    paper: Paper | None = None
    aspect: Aspect = field(default_factory=Aspect)
    filters: Filters = field(default_factory=Filters)
    scorer: Scorer = Scorer.OT
    tau: float | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Ranked papers, best first, and what the query was taken to be.

    ``selected`` are the query sentences that took part; ``dropped_sentences`` of the query's lie past the
    encoder's token limit. ``reason`` is set when there are no results. ``took_ms`` is wall time.
    """

    query: Paper
    selected: tuple[int, ...]
    dropped_sentences: int
    results: tuple[RankedPaper, ...]
    generation: str
    reason: Reason | None
    warnings: tuple[str, ...]
    took_ms: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query resolved: its paper, one vector a kept sentence (or one in all), and who may answer."""

    paper: Paper
    vectors: Float32[np.ndarray, "n_query dim"]
    filters: Filters
    dropped_sentences: int
    warnings: tuple[str, ...]


class SearchEngine:
    """Answers queries from one snapshot; safe to share between threads."""

    def __init__(self, snapshot: Snapshot, load_encoder: Callable[[], Encoder], *, n_candidates: int) -> None:
        self.snapshot = snapshot
        self._load_encoder = load_encoder
        self._n_candidates = n_candidates

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of the snapshot, loaded when first needed; raises EncoderMismatchError for another."""
        encoder = self._load_encoder()
        self.snapshot.expect_encoder(encoder.spec)
        return encoder

    def warm_up(self) -> None:
        """Load the encoder and answer one query, so that the first user does not pay for it."""
        first = self.snapshot.paper(0)
        self.search(SearchQuery(paper=first, limit=1))

    def search(self, query: SearchQuery) -> SearchAnswer:
        """Rank the collection by kinship to ``query``.

        Raises PaperNotFoundError, SentenceSelectionError.
        """
        started = time.perf_counter()
        asked = self._resolve(query)
        unit = self.snapshot.manifest.encoder.unit
        selected = select_sentences(query.aspect, asked.paper, n_vectors=len(asked.vectors), unit=unit)
        results, reason = self._rank(query, asked, selected)
        unconverged = sum(not result.converged for result in results)
        return SearchAnswer(
            query=asked.paper,
            selected=selected,
            dropped_sentences=asked.dropped_sentences,
            results=results,
            generation=self.snapshot.generation,
            reason=reason,
            warnings=asked.warnings + ((f"not_converged:{unconverged}",) if unconverged else ()),
            took_ms=(time.perf_counter() - started) * 1000,
        )

    def _resolve(self, query: SearchQuery) -> _Asked:
        """The query paper, its vectors, and the filters that keep it out of its own answer."""
        if query.paper_id is not None:
            position = self.snapshot.position(query.paper_id)
            paper, vectors = self.snapshot.paper(position), self.snapshot.vectors(position)
            filters = replace(query.filters, exclude_ids=query.filters.exclude_ids | {query.paper_id})
            by_sentence = self.snapshot.manifest.encoder.unit is Unit.SENTENCE
            return _Asked(
                paper, vectors, filters, len(paper.sentences) - len(vectors) if by_sentence else 0, ()
            )
        if query.paper is None:
            raise SentenceSelectionError("The query names no paper; give an id, or a title and abstract.")
        (encoded,) = self.encoder.encode([query.paper])
        language = language_of(query.paper.abstract)
        warnings = () if language == "en" else (f"abstract_not_english:{language}",)
        return _Asked(query.paper, encoded.sentences, query.filters, encoded.dropped_sentences, warnings)

    def _rank(
        self,
        query: SearchQuery,
        asked: _Asked,
        selected: tuple[int, ...],
    ) -> tuple[tuple[RankedPaper, ...], Reason | None]:
        if not selected:
            return (), Reason.NO_SENTENCE_OF_THAT_FACET
        segment = self.snapshot.segment
        encoder = self.snapshot.manifest.encoder
        chosen = asked.vectors
        if encoder.unit is Unit.SENTENCE:
            chosen = focused(chosen, selected, focus=query.aspect.turn)
        candidates = find_candidates(
            segment,
            chosen,
            n_papers=max(self._n_candidates, query.limit * _CANDIDATES_PER_RESULT),
            allowed=segment.allowed_papers(asked.filters),
        )
        if not candidates:
            only_self = replace(query.filters, exclude_ids=frozenset()) == Filters()
            return (), Reason.NOTHING_ELSE_INDEXED if only_self else Reason.FILTERED_OUT
        results = rerank(
            segment,
            chosen,
            candidates,
            query_sentences=selected,
            limit=query.limit,
            scorer=query.scorer,
            settings=replace(SERVING, tau=query.tau or default_tau(encoder)),
            unit=encoder.unit,
        )
        return tuple(results), None


def open_engine(settings: Settings) -> SearchEngine:
    """An engine over the served generation of ``settings.data``.

    Raises SnapshotMissingError, SnapshotCorruptError.
    """
    snapshot = open_snapshot(settings.data, device=settings.device)
    name = settings.encoder or snapshot.manifest.encoder.name
    load = partial(load_encoder, name, device=settings.device)
    return SearchEngine(snapshot, load, n_candidates=settings.candidates)
