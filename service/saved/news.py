"""The new papers of a saved query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from indexer.catalog.current import AddedPaper
from models.errors import SentenceSelectionError
from models.types import RankedPaper
from service.answer_warnings import WarningCode, warning
from service.saved.saved_queries import MAX_ADDED
from service.search.engine import SearchEngine
from service.search.query import (
    FIRST_PAGE,
    REASON_DETAILS,
    Reason,
    SearchAnswer,
    SearchQuery,
    SeedReason,
    UnresolvedSeed,
)
from service.search.reachable import covering

_AWAY: Final = (
    "The papers added since are in a part of the collection that cannot be searched now; try again later."
)
_NOT_MEASURED: Final = (
    "How well the papers added since match is not known while a part of the collection cannot be searched; "
    "try again later."
)
MAX_NEWS: Final = 1_000  # added papers, the best ones, that are searched and may be shown
_GROWTH: Final = 4  # of the portions in which the newest matches are looked for, as few papers may match


@dataclass(frozen=True, slots=True)
class NewPaper:
    """A paper that was added to the collection at ``added_at``, in Unix seconds, and its match."""

    ranked: RankedPaper
    added_at: int


@dataclass(frozen=True, slots=True)
class News:
    """New papers, best first, of the ``n_added`` papers that were added and pass the filters.

    They are also the results of ``answer``, and the best of ``n_matching`` papers, which MAX_NEWS limits.
    All papers added up to the change ``up_to`` were compared; if a part of the collection was away, or none
    of the seeds could be used, ``up_to`` is the change at which the previous comparison ended.
    """

    answer: SearchAnswer
    papers: tuple[NewPaper, ...]
    n_added: int
    n_matching: int
    up_to: int

    @property
    def n_hidden(self) -> int:
        """The number of matching papers that are not in ``papers``."""
        return self.n_matching - len(self.papers)


def unusable_seeds(engine: SearchEngine, query: SearchQuery) -> list[UnresolvedSeed]:
    """Return the seeds of a query to be saved that cannot be used now, such as papers not added yet.

    Raises SentenceSelectionError if none of them can ever be used; QueryError if a paper is both a seed and a
    negative; DeadlineError.
    """
    lost = engine.reader.lost(query, apart=True)
    impossible = [
        each for each in lost if each.reason is SeedReason.SELECTION_IMPOSSIBLE and not each.negative
    ]
    if len(impossible) == len(query.seeds):
        raise SentenceSelectionError(impossible[0].detail)
    return lost


def news_of(
    engine: SearchEngine,
    query: SearchQuery,
    added: Sequence[AddedPaper],
    *,
    since: int,
    limit: int,
    weak: bool = False,
) -> News:
    """Return at most ``limit`` of the papers ``added`` that match a query; ``weak``: all.

    The papers were added after the change ``since``.

    Seeds that cannot be used are left out, and the answer says why. Raises DeadlineError,
    EncoderMismatchError, and QueryError if a paper is both a seed and a negative.
    """
    snapshot = engine.snapshot
    # A paper of a later change is not new yet: nobody could mark it as seen.
    times = {paper.paper_id: paper.added_at for paper in added if paper.change <= snapshot.manifest.change}
    wanted = query.filters.ids
    filters = replace(query.filters, ids=frozenset(wanted & times.keys() if wanted else times))
    n_added = int(snapshot.allowed_papers(filters).sum()) if filters.ids else 0
    if n_added:
        given = replace(query, filters=filters, limit=limit, page=FIRST_PAGE, skip_unresolved=True)
        answer, n_matching = _matching(engine, given, weak=weak)
    else:
        answer, n_matching = _nothing_added(engine, query), 0
    if len(added) >= MAX_ADDED:
        only_last = warning(WarningCode.ONLY_LAST_ADDED, len(added))
        answer = replace(answer, warnings=(*answer.warnings, only_last))
    papers = tuple(NewPaper(ranked, times[ranked.paper.id]) for ranked in answer.results)
    were_compared = answer.coverage == 1 and answer.reason is not Reason.NO_SEED_RESOLVED
    up_to = snapshot.manifest.change if were_compared else since
    return News(answer, papers, n_added, n_matching, up_to)


def newest_of(
    engine: SearchEngine, query: SearchQuery, added: Sequence[AddedPaper], *, since: int, most: int
) -> tuple[list[NewPaper], SearchAnswer]:
    """Return at most ``most`` matches of a query, the last ones added, and the answer of the last search.

    ``added`` and the matches have the last paper first. The papers are compared in portions, so that better
    matches do not hide newer ones. Raises what ``news_of`` raises.
    """
    start, size, coverage = 0, MAX_NEWS, 1.0
    newest: list[NewPaper] = []
    while True:
        portion = added[start : start + size]
        news = news_of(engine, query, portion, since=since, limit=MAX_NEWS)
        if size > MAX_NEWS and any(each.code is WarningCode.LIST_ENDS_AT for each in news.answer.warnings):
            size = MAX_NEWS  # of so many papers, all are returned if they match
            continue
        place = {paper.paper_id: number for number, paper in enumerate(portion)}
        newest += sorted(news.papers, key=lambda each: place[each.ranked.paper.id])
        coverage = min(coverage, news.answer.coverage)
        start += size
        if len(newest) >= most or start >= len(added) or news.answer.reason is Reason.NO_SEED_RESOLVED:
            return newest[:most], replace(news.answer, coverage=coverage)
        size *= _GROWTH


def _matching(engine: SearchEngine, query: SearchQuery, *, weak: bool) -> tuple[SearchAnswer, int]:
    """Return the best ``query.limit`` papers that match, and how many of the MAX_NEWS best papers match."""
    answer = last = engine.search(query)
    n_matching = sum(weak or _is_good(each, answer) for each in answer.results)
    if answer.next_page is not None and query.limit < MAX_NEWS:
        following = replace(query, page=answer.next_page)
        # For these papers, only the strength is needed until it is clear which of them are shown.
        last = engine.search(
            replace(following, limit=MAX_NEWS - query.limit, include=frozenset(), max_alignments=0)
        )
        good = [place for place, each in enumerate(last.results, start=1) if weak or _is_good(each, last)]
        if shown := good[: query.limit - n_matching]:  # instead of weak matches on the first page
            more = engine.search(replace(following, limit=shown[-1]))
            answer = replace(
                answer, results=answer.results + more.results, coverage=min(answer.coverage, more.coverage)
            )
        n_matching += len(good)
    if last.next_page is not None and (weak or _is_good(last.results[-1], last)):
        list_ends = warning(WarningCode.LIST_ENDS_AT, MAX_NEWS)
        answer = replace(answer, warnings=(*answer.warnings, list_ends))
    if not answer.results and answer.coverage < 1:
        answer = replace(answer, detail=_AWAY)
    answer = covering(answer, min(answer.coverage, last.coverage))
    return answer if weak else _without_weak(answer), n_matching


def _is_good(ranked: RankedPaper, answer: SearchAnswer) -> bool:
    """Return whether a paper is related to the query, or the collection is too small to tell.

    Not good if its strength is unknown because a part of the collection is away.
    """
    if ranked.strength is None:
        return answer.coverage == 1
    return ranked.strength.related


def _without_weak(answer: SearchAnswer) -> SearchAnswer:
    """Return ``answer`` without weak results; with all of them if the collection is too small to tell."""
    matching = tuple(each for each in answer.results if _is_good(each, answer))
    warnings = tuple(each for each in answer.warnings if each.code is not WarningCode.NO_GOOD_MATCH)
    unknown = any(each.strength is None for each in answer.results)
    answer = replace(answer, results=matching, warnings=warnings)
    if matching or answer.reason:
        return answer
    detail = _NOT_MEASURED if unknown else REASON_DETAILS[Reason.NO_MATCH_ADDED]
    return replace(answer, reason=Reason.NO_MATCH_ADDED, detail=detail)


def _nothing_added(engine: SearchEngine, query: SearchQuery) -> SearchAnswer:
    """Return the answer without a search; it still says which seeds of the query cannot be used."""
    unresolved = engine.reader.lost(query)
    all_lost = sum(not each.negative for each in unresolved) == len(query.seeds)
    reason = Reason.NO_SEED_RESOLVED if all_lost else Reason.NOTHING_ADDED
    return SearchAnswer(
        seeds=(),
        unresolved=tuple(unresolved),
        results=(),
        total=0,
        next_page=None,
        generation=engine.snapshot.generation,
        reason=reason,
        detail=REASON_DETAILS[reason],
        warnings=(),
        took_ms=0.0,
    )
