"""The search engine: takes one query paper or several, returns ranked and explained papers."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Thread

import numpy as np

from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator
from models.transport import SERVING
from models.types import RankedPaper
from service.answer_warnings import AnswerWarning, WarningCode, coverage_warning, warning
from service.cache.digests import content_digest, generation_digest
from service.context import stage
from service.resolve.filter_names import no_such_name
from service.resolve.paper_names import PaperNames
from service.search.aspect import Part, Rows, default_specificity
from service.search.candidates import depth_for, list_candidates
from service.search.explain import explain
from service.search.query import (
    MAX_LISTED,
    REASON_DETAILS,
    Page,
    Reason,
    SearchAnswer,
    SearchQuery,
    Seed,
    UnresolvedSeed,
    Window,
    empty_page_reason,
    health_warnings,
    windows,
)
from service.search.reachable import ReachablePapers, answer_reachable
from service.search.rerank import Comparison, default_tau
from service.search.seeds import ResolvedSeed, SeedReader
from service.search.strength import Strengths, no_good_match, respects_of
from service.search.words import QueryVectors, default_weight


@dataclass(frozen=True, slots=True)
class _Page:
    """The papers of one page and the start of the next page, or the reason why there are no papers.

    ``total`` counts the papers of the whole list, ``None`` if that is not known yet. ``cut_at`` is set on the
    last page if the length limit cuts off papers that would follow.
    """

    total: int | None
    results: tuple[RankedPaper, ...] = ()
    next: Page | None = None
    reason: Reason | None = None
    cut_at: int | None = None


class SearchEngine:
    """Answers queries from one snapshot; safe to share between threads.

    No list has more than ``max_listed`` papers, however many pages are requested.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        load: Callable[[], Annotator],
        *,
        n_candidates: int,
        max_listed: int = MAX_LISTED,
    ) -> None:
        self.snapshot = snapshot
        self.names = PaperNames(snapshot)
        self.load = load
        self.n_candidates = n_candidates
        self.max_listed = max_listed

    @cached_property
    def annotator(self) -> Annotator:
        """The encoder of the snapshot with the models that read its layers, loaded when first needed.

        Raises EncoderMismatchError if the encoder is not the snapshot's.
        """
        annotator = self.load()
        self.snapshot.manifest.expect_encoder(annotator.encoder.spec)
        return annotator

    @cached_property
    def digest(self) -> bytes:
        """The digest that identifies the snapshot's generation."""
        return generation_digest(self.snapshot.manifest)

    @cached_property
    def strengths(self) -> Strengths:
        """The scales that results are compared with."""
        return Strengths(self.snapshot, content_digest(self.snapshot.manifest))

    @property
    def reader(self) -> SeedReader:
        """The reader of the seeds of queries; it loads the encoder if a seed is pasted."""
        return SeedReader(self.snapshot, self.names, lambda: self.annotator)

    def warm_up(self) -> Thread:
        """Load the encoder and the indexes and answer one query, so that the first user waits for none of it.

        Returns the thread that reads the titles meanwhile, which takes seconds for a million papers.
        """
        titles = Thread(target=lambda: self.names.titles, name="titles", daemon=True)
        titles.start()
        snapshot = self.snapshot
        if not len(snapshot):
            return titles
        first = int(snapshot.positions[0])
        self.search(SearchQuery((Seed(paper=snapshot.paper(first)),), limit=1))
        _ = snapshot.row_facets  # read when first used, then kept
        if snapshot.manifest.functions is not None:
            snapshot.function_index.search(snapshot.function_vectors(first).astype(np.float32), 1)
        return titles

    def search(self, query: SearchQuery) -> SearchAnswer:
        """Return the papers similar to the seeds of ``query`` and not to its negatives, explained.

        While a part of a cluster's collection is away, the rest is searched; the answer says how much it is.

        Raises DeadlineError, ShardAwayError; EncoderMismatchError if a pasted seed cannot be compared with
        the collection; PaperNotFoundError and SentenceSelectionError unless ``query.skip_unresolved``.
        """
        return answer_reachable(self.snapshot, lambda reachable: self._search(query, reachable))

    def _search(self, query: SearchQuery, reachable: ReachablePapers) -> SearchAnswer:
        started = time.perf_counter()
        seeds, unresolved = self.reader.resolve(query)
        own = _positions([*seeds, *unresolved])
        page = self._answer(query, seeds, own, reachable)
        return SearchAnswer(
            seeds=tuple(seed.used for seed in seeds),
            unresolved=tuple(unresolved),
            results=page.results,
            total=page.total,
            next_page=page.next,
            generation=self.snapshot.generation,
            reason=page.reason,
            detail=self._detail(query, page.reason, seeds, own),
            warnings=tuple(self._warnings(query, seeds, page, reachable)),
            took_ms=(time.perf_counter() - started) * 1000,
            coverage=reachable.coverage,
        )

    def _warnings(
        self, query: SearchQuery, seeds: Sequence[ResolvedSeed], page: _Page, reachable: ReachablePapers
    ) -> Iterator[AnswerWarning]:
        """Yield the warnings about the results, each once."""
        yield from dict.fromkeys(each for seed in seeds for each in seed.warnings)
        yield from health_warnings(result.converged for result in page.results)
        if page.cut_at is not None:
            yield warning(WarningCode.LIST_ENDS_AT, page.cut_at)
        if query.words != 0 and self.snapshot.words is None:
            lacking = sum(len(segment) for segment in self.snapshot.segments if segment.words is None)
            yield warning(WarningCode.WORDS_NOT_INDEXED, lacking)
        if not query.page.offset:
            yield from no_good_match(page.results)
        yield from coverage_warning(reachable.coverage)

    def _answer(
        self,
        query: SearchQuery,
        seeds: Sequence[ResolvedSeed],
        own: Sequence[int],
        reachable: ReachablePapers,
    ) -> _Page:
        """Return a page of the list without the query's ``own`` papers: candidates, re-ranked, explained."""
        snapshot = self.snapshot
        parts = [part for seed in seeds for part in seed.parts]
        if all(part.away for part in parts):
            unheard = Reason.NO_SENTENCE_OF_THAT_FACET if seeds and not parts else Reason.NO_SEED_RESOLVED
            return _Page(0, reason=unheard)
        allowed = reachable.within(snapshot.allowed_papers(query.filters)).copy()
        allowed[own] = False
        among = {part.beside: snapshot.rows_of_facets(part.beside) for part in parts if part.beside}
        for having in map(snapshot.papers_of_facets, among):
            if allowed.any() and not (allowed & having).any():
                return _Page(0, reason=Reason.NO_SENTENCE_OF_THAT_FACET)
            allowed &= having
        words = self._words(query, parts)
        first = query.page.depth or depth_for(
            parts, query.limit, least=self.n_candidates, words=words.weight > 0
        )
        page = Page(query.page.offset, first)
        n_allowed = int(np.count_nonzero(allowed))
        n_listed = min(n_allowed, self.max_listed)
        if page.offset >= n_listed:
            return _Page(n_listed, reason=empty_page_reason(query.filters, page))
        shown = list(windows(page, min(page.offset + query.limit, n_listed)))
        omitted = query.pasted if query.omit_pasted else []
        with stage("candidates"):
            candidates = list_candidates(
                snapshot,
                parts,
                strategy=query.strategy,
                n_papers=shown[-1].stop,
                first=first,
                allowed=allowed,
                words=words,
                among=among,
                omitted=omitted,
            )
        counted = not omitted  # how many papers are omitted is only seen at the end of the list
        if len(candidates) < shown[-1].stop:
            n_listed, counted = min(n_listed, len(candidates)), True
        whole, used = reachable.papers is None, _positions(seeds)
        results = tuple(
            self._results(query, parts, words, among, candidates, shown, apart_from=used, whole=whole)
        )
        stop = min(page.offset + query.limit, n_listed)
        if stop < n_listed:
            return _Page(n_listed if counted else None, results, Page(stop, page.depth))
        reason = None if results else empty_page_reason(query.filters, page)
        cut_at = n_listed if self.max_listed < n_allowed else None
        return _Page(n_listed, results, reason=reason, cut_at=cut_at)

    def _words(self, query: SearchQuery, parts: Sequence[Part]) -> QueryVectors:
        """Return the words of the parts with the weight of words."""
        snapshot = self.snapshot
        weight = default_weight(snapshot.manifest.encoder) if query.words is None else query.words
        return QueryVectors(
            snapshot.words if weight else None,
            [part.words for part in parts],
            weight=weight,
            same_title=self.names.same_title,
        )

    def _results(
        self,
        query: SearchQuery,
        parts: Sequence[Part],
        words: QueryVectors,
        among: Rows,
        candidates: Sequence[int],
        shown: Sequence[Window],
        *,
        apart_from: Sequence[int],
        whole: bool,
    ) -> Iterator[RankedPaper]:
        snapshot, encoder = self.snapshot, self.snapshot.manifest.encoder
        text = words.weight > 0 and all(seed.text is not None for seed in query.seeds_of(parts))
        tau = default_tau(encoder, text=text)
        settings = replace(SERVING, tau=query.tau or tau)
        specificity = default_specificity(encoder) if query.specificity is None else query.specificity
        comparison = Comparison(
            snapshot,
            parts,
            scorer=query.scorer,
            settings=settings,
            words=words,
            among=among,
            specificity=specificity,
            apart_from=apart_from,
        )
        respects = respects_of(query, parts, encoder, tau=tau, words=words.weight)
        strength = partial(self.strengths.of, respects, strategy=query.strategy, whole=whole)
        for window in shown:
            positions = np.array(candidates[window.start : window.stop], dtype=np.int64)
            last = min(window.skip + window.limit, len(positions))
            with stage("rerank"):
                ranked = comparison.rank(
                    positions, strategy=query.strategy, negative_weight=query.negative_weight, n_best=last
                )
            with stage("explain"):
                for place, plans in enumerate(comparison.plans(ranked, window.skip, last), window.skip):
                    paper = snapshot.paper(int(ranked.positions[place]), text=bool(query.include))
                    yield explain(
                        paper,
                        parts,
                        plans,
                        ranked.weights[:, place],
                        unit=encoder.unit,
                        include=query.include,
                        max_alignments=query.max_alignments,
                        words=comparison.words(ranked, place, paper if query.include else None),
                        compared=comparison.compared(int(ranked.positions[place])),
                        strength=strength(ranked.reaches[:, place], ranked.shares[:, place]),
                    )

    def _detail(
        self, query: SearchQuery, reason: Reason | None, seeds: Sequence[ResolvedSeed], own: Sequence[int]
    ) -> str | None:
        """Return the ``reason`` in words, or ``None`` without a reason."""
        if reason is Reason.NO_SENTENCE_OF_THAT_FACET and seeds[0].missing:
            return seeds[0].missing
        if reason is Reason.FILTERED_OUT and (unknown := no_such_name(self.snapshot, query.filters)):
            return unknown
        if reason is Reason.FILTERED_OUT and self.snapshot.allowed_papers(query.filters)[own].any():
            return "Only papers of the query itself match the filters, and these are left out; widen them."
        return None if reason is None else REASON_DETAILS[reason]


def _positions(seeds: Iterable[ResolvedSeed | UnresolvedSeed]) -> list[int]:
    """Return the positions of the seeds that are papers of the collection."""
    return [seed.position for seed in seeds if seed.position is not None]
