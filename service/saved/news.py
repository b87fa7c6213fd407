"""The new papers of a saved query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from indexer.catalog.versions import AddedPaper
from models.types import RankedPaper, StrengthLabel
from service.answer_warnings import WarningCode, warning
from service.saved.saved_queries import MOST_ADDED
from service.search.engine import SearchEngine
from service.search.query import DETAILS, FIRST_PAGE, Reason, SearchAnswer, SearchQuery


@dataclass(frozen=True, slots=True)
class NewPaper:
    """A paper that came into the collection at ``added_at``, in Unix seconds, and how it matches."""

    ranked: RankedPaper
    added_at: int


@dataclass(frozen=True, slots=True)
class News:
    """Papers that are new, best first, of ``n_added`` that came and may be returned; ``answer`` holds them.

    All papers added up to the change ``up_to`` were looked at.
    """

    answer: SearchAnswer
    papers: tuple[NewPaper, ...]
    n_added: int
    up_to: int


def news_of(
    engine: SearchEngine, query: SearchQuery, added: Sequence[AddedPaper], *, limit: int, weak: bool = False
) -> News:
    """Those of the papers ``added`` that match a query, at most ``limit``; also ``weak`` matches, if wanted.

    Seeds that cannot be used are left out, and the answer says why. Raises DeadlineError,
    EncoderMismatchError.
    """
    snapshot = engine.snapshot
    times = {paper.paper_id: paper.added_at for paper in added}
    wanted = query.filters.ids
    filters = replace(query.filters, ids=frozenset(wanted & times.keys() if wanted else times))
    n_added = int(snapshot.allowed_papers(filters).sum()) if filters.ids else 0
    if n_added:
        answer = engine.search(
            replace(query, filters=filters, limit=limit, page=FIRST_PAGE, skip_unresolved=True)
        )
        answer = answer if weak else _without_weak(answer)
    else:
        answer = _nothing_added(snapshot.generation)
    if len(added) >= MOST_ADDED:
        told = warning(WarningCode.ONLY_LAST_ADDED, len(added))
        answer = replace(answer, warnings=(*answer.warnings, told))
    papers = tuple(NewPaper(ranked, times[ranked.paper.id]) for ranked in answer.results)
    return News(answer, papers, n_added, snapshot.manifest.change)


def _without_weak(answer: SearchAnswer) -> SearchAnswer:
    """Its results but the weak ones; where a collection is too small to tell, all."""
    matching = tuple(
        each
        for each in answer.results
        if each.strength is None or each.strength.label is not StrengthLabel.WEAK
    )
    told = tuple(each for each in answer.warnings if each.code is not WarningCode.NO_GOOD_MATCH)
    answer = replace(answer, results=matching, warnings=told)
    if matching or answer.reason:
        return answer
    return replace(answer, reason=Reason.NO_MATCH_ADDED, detail=DETAILS[Reason.NO_MATCH_ADDED])


def _nothing_added(generation: str) -> SearchAnswer:
    return SearchAnswer(
        seeds=(),
        unresolved=(),
        results=(),
        total=0,
        next_page=None,
        generation=generation,
        reason=Reason.NOTHING_ADDED,
        detail=DETAILS[Reason.NOTHING_ADDED],
        warnings=(),
        took_ms=0.0,
    )
