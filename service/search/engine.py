"""Search: one query paper in, ranked and explained papers out."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Thread

import numpy as np
from jaxtyping import Float32

from indexer.snapshot import Snapshot
from models.annotator import Annotator
from models.errors import SentenceSelectionError
from models.transport import SERVING, Scorer
from models.types import Facet, Filters, Paper, RankedPaper
from service.cache.digests import generation_digest
from service.context import stage
from service.resolve.identifiers import Identifiers
from service.resolve.pasted import read_pasted
from service.resolve.text_query import text_paper, text_warnings
from service.resolve.titles import Titles
from service.search.aspect import Aspect, Selection, facets_missing, select_sentences
from service.search.candidates import depth_for, list_candidates
from service.search.paging import FIRST_PAGE, LONGEST_LIST, Page, stretches
from service.search.reasons import (
    DETAILS,
    Reason,
    facet_warnings,
    health_warnings,
    limit_warnings,
    none_allowed,
)
from service.search.rerank import default_tau, query_parts, rerank

_NOTHING_TO_CHOOSE = (
    "A query by text counts as one sentence without a facet, so there is nothing to choose in it: leave out "
    "sentences, facet, unlike and focus, or give the text as an abstract."
)


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What to search for: a paper (``paper_id`` of an indexed one, or ``paper``), or ``text``; what matters.

    ``text`` is a claim or a few words, of which no part can be chosen.
    ``limit`` counts papers, those after ``page.offset`` of the ranked list; ``tau`` is the temperature of the
    marginals (``None``: what suits the encoder).
    """

    paper_id: str | None = None
    paper: Paper | None = None
    text: str | None = None
    aspect: Aspect = field(default_factory=Aspect)
    filters: Filters = field(default_factory=Filters)
    scorer: Scorer = Scorer.OT
    tau: float | None = None
    limit: int = 10
    page: Page = FIRST_PAGE


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Ranked papers, best first, and what the query was taken to be.

    ``selected`` are the query sentences that papers should be like, ``unlike`` those they should be unlike;
    ``dropped_sentences`` of the query's lie past the encoder's token limit. ``reason``, and ``detail``, which
    tells a person, are set when there are no results. ``next_page`` is ``None`` at the end of the list.
    ``took_ms`` is wall time.
    """

    query: Paper
    selected: tuple[int, ...]
    unlike: tuple[int, ...]
    dropped_sentences: int
    results: tuple[RankedPaper, ...]
    next_page: Page | None
    generation: str
    reason: Reason | None
    detail: str | None
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

    @property
    def present_facets(self) -> frozenset[Facet | None]:
        """The facets of the sentences that were read."""
        return frozenset(sentence.facet for sentence in self.paper.sentences[: len(self.vectors)])


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The papers of one page and where the next one begins; or why there are none.

    ``cut_at`` is set on the last page where more papers would follow than a list may have.
    """

    results: tuple[RankedPaper, ...] = ()
    next_page: Page | None = None
    reason: Reason | None = None
    cut_at: int | None = None


class SearchEngine:
    """Answers queries from one snapshot; safe to share between threads.

    No list has more than ``longest_list`` papers, however many pages are asked for.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        load: Callable[[], Annotator],
        *,
        n_candidates: int,
        longest_list: int = LONGEST_LIST,
    ) -> None:
        self.snapshot = snapshot
        self.load = load
        self.n_candidates = n_candidates
        self.longest_list = longest_list

    @cached_property
    def annotator(self) -> Annotator:
        """The encoder of the snapshot and what reads its layers, loaded when first needed.

        Raises EncoderMismatchError for another encoder than the snapshot's.
        """
        annotator = self.load()
        self.snapshot.manifest.expect_encoder(annotator.encoder.spec)
        return annotator

    @cached_property
    def digest(self) -> bytes:
        """What tells its generation from every other."""
        return generation_digest(self.snapshot.manifest)

    @cached_property
    def identifiers(self) -> Identifiers:
        """Papers by the names other services give them."""
        return Identifiers(self.snapshot)

    @cached_property
    def titles(self) -> Titles:
        """The titles of the collection."""
        return Titles.of(self.snapshot)

    def position(self, name: str) -> int:
        """Where the paper stands that has this id, or DOI, arXiv id or address; raises PaperNotFoundError."""
        position = self.identifiers.position(name)
        return self.snapshot.position(name) if position is None else position

    def warm_up(self) -> None:
        """Load the encoder and the indexes and answer one query, so that the first user pays for none.

        The titles are read meanwhile, for seconds where there are a million.
        """
        Thread(target=lambda: self.titles, name="titles", daemon=True).start()
        snapshot = self.snapshot
        if not len(snapshot):
            return
        first = int(snapshot.positions[0])
        self.search(SearchQuery(paper=snapshot.paper(first), limit=1))
        _ = snapshot.row_facets  # read when first asked for, then kept
        if snapshot.manifest.functions is not None:
            snapshot.function_index.search(snapshot.function_vectors(first).astype(np.float32), 1)

    def search(self, query: SearchQuery) -> SearchAnswer:
        """Rank the collection by kinship to ``query``.

        Raises PaperNotFoundError, SentenceSelectionError.
        """
        started = time.perf_counter()
        asked = self._resolve(query)
        unit = self.snapshot.manifest.encoder.unit
        selection = select_sentences(query.aspect, asked.paper, n_vectors=len(asked.vectors), unit=unit)
        ranked = self._rank(query, asked, selection)
        return SearchAnswer(
            query=asked.paper,
            selected=selection.like,
            unlike=selection.unlike,
            dropped_sentences=asked.dropped_sentences,
            results=ranked.results,
            next_page=ranked.next_page,
            generation=self.snapshot.generation,
            reason=ranked.reason,
            detail=None if ranked.reason is None else _detail(ranked.reason, query.aspect, asked),
            warnings=tuple(_warnings(query.aspect, selection, ranked, asked)),
            took_ms=(time.perf_counter() - started) * 1000,
        )

    def _resolve(self, query: SearchQuery) -> _Asked:
        """The query paper, its vectors, and the filters that keep it out of its own answer."""
        if query.paper_id is not None:
            position = self.position(query.paper_id)
            paper, vectors = self.snapshot.paper(position), self.snapshot.vectors(position)
            filters, dropped = query.filters.without(paper.id), self.snapshot.dropped_sentences(position)
            return _Asked(paper, vectors, filters, dropped, ())
        if query.text is not None:
            paper = text_paper(query.text)
            if query.aspect != Aspect():
                raise SentenceSelectionError(_NOTHING_TO_CHOOSE)
            with stage("encode"):
                (encoded,) = self.annotator.encoder.encode([paper])
            return _Asked(paper, encoded.sentences, query.filters, 0, text_warnings(paper.abstract))
        if query.paper is None:
            raise SentenceSelectionError("The query is empty; give an id, a title and abstract, or a text.")
        paper, warnings = read_pasted(query.paper)
        with stage("encode"):
            (annotated,) = self.annotator.annotate([paper])
        encoded = annotated.encoded
        built_with = self.snapshot.manifest.tagger
        if query.aspect.names_facets and self.annotator.tagger.spec.fingerprint != built_with.fingerprint:
            warnings += (f"indexed_with_other_tagger:{built_with.name}",)
        return _Asked(annotated.paper, encoded.sentences, query.filters, encoded.dropped_sentences, warnings)

    def _rank(self, query: SearchQuery, asked: _Asked, selection: Selection) -> _Ranked:
        if not selection.like:
            return _Ranked(reason=Reason.NO_SENTENCE_OF_THAT_FACET)
        snapshot = self.snapshot
        encoder = snapshot.manifest.encoder
        parts = query_parts(query.aspect, selection, asked.vectors, unit=encoder.unit)
        allowed = snapshot.allowed_papers(asked.filters)
        depth = depth_for(query.limit, least=self.n_candidates, contrast=bool(selection.unlike))
        page = Page(query.page.offset, query.page.depth or depth)
        n_allowed = int(np.count_nonzero(allowed))
        n_listed = min(n_allowed, self.longest_list)
        if page.offset >= n_listed:
            return _Ranked(reason=none_allowed(query.filters))
        stop = min(page.offset + query.limit, n_listed)
        shown = list(stretches(page, stop))
        candidates = list_candidates(
            snapshot, parts[0].vectors, n_papers=shown[-1].stop, first=page.depth, allowed=allowed
        )
        settings = replace(SERVING, tau=query.tau or default_tau(encoder))
        results = tuple(
            ranked
            for stretch in shown
            for ranked in rerank(
                snapshot,
                parts,
                candidates[stretch.start : stretch.stop],
                skip=stretch.skip,
                limit=stretch.limit,
                scorer=query.scorer,
                settings=settings,
                unit=encoder.unit,
            )
        )
        if stop < n_listed:
            return _Ranked(results, Page(stop, page.depth))
        return _Ranked(results, cut_at=n_listed if n_listed < n_allowed else None)


def _detail(reason: Reason, aspect: Aspect, asked: _Asked) -> str:
    if reason is Reason.NO_SENTENCE_OF_THAT_FACET:
        return facets_missing(aspect, asked.paper, n_vectors=len(asked.vectors))
    return DETAILS[reason]


def _warnings(aspect: Aspect, selection: Selection, ranked: _Ranked, asked: _Asked) -> Iterator[str]:
    """What a reader of the results should know, each as ``kind:what``."""
    yield from asked.warnings
    yield from facet_warnings(aspect, selection, asked.present_facets)
    yield from limit_warnings(aspect, len(asked.vectors))
    yield from health_warnings(result.converged for result in ranked.results)
    if ranked.cut_at is not None:
        yield f"list_ends_at:{ranked.cut_at}"
