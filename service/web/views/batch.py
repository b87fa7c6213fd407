"""The view of a batch: its papers, unresolved lines, and results."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from indexer.corpus.library.names import name_of, reference_of
from models.types import Paper, RankedPaper
from service.api.batch_files import ResultRange, problem_of
from service.api.schemas.base import PaperOut
from service.batches.content import BatchResult
from service.batches.job import Job
from service.match.query import MatchedProfile
from service.search.engine import SearchEngine
from service.search.lookup import nearest_papers
from service.search.query import SearchAnswer, SearchQuery
from service.web.address.links import Link
from service.web.address.page_query import PageQuery
from service.web.library import Library, MissingEntry
from service.web.saved import page_query_of
from service.web.views.results.cards import in_short, web_address

# The most unmatched lines with suggestions, the most suggestions per line, and the most papers listed.
_MAX_NEAR: Final = 20
_NEAR: Final = 3
_MAX_LISTED: Final = 200
# Batch results on a page, and the most papers shown of each.
_A_PAGE: Final = 20
_MAX_PAPERS: Final = 10
_WHY: Final = {
    "doi": "no paper here has this DOI",
    "arxiv": "no paper here has this arXiv id",
    "acl": "no paper here has this id of the ACL Anthology",
    "pmid": "no paper here has this PubMed number",
    "": "no paper here has this title or id",
}


@dataclass(frozen=True, slots=True)
class KnownPaper:
    """A paper of the collection; ``about`` gives its authors, venue and year."""

    id: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class LostLine:
    """A line that matches no paper, with the reason ``why`` and the papers that it may mean."""

    number: int
    words: str
    why: str
    meant: tuple[KnownPaper, ...]


@dataclass(frozen=True, slots=True)
class LinesView:
    """The matched papers and the ``lost`` lines of a list of ``n_lines``.

    ``names`` are the ids of all matched papers as JSON, ``papers`` the first of these papers. ``n_repeated``
    lines name a paper again; ``n_more`` further lines match no paper and are not listed.
    """

    n_lines: int
    n_papers: int
    names: str
    papers: tuple[KnownPaper, ...]
    n_repeated: int
    lost: tuple[LostLine, ...]
    n_more: int


@dataclass(frozen=True, slots=True)
class FoundPaper:
    """A paper found for an entry of a batch, or a matched profile; ``start`` links to a search from it."""

    title: str
    about: str
    strength: str
    start: str
    out: str


@dataclass(frozen=True, slots=True)
class ResultView:
    """The papers found for the entry ``number`` (from 1) of a batch, or its ``problem``.

    ``heading`` links to the same search on the page, if an address can express it.
    """

    number: int
    heading: Link
    problem: str
    papers: tuple[FoundPaper, ...]
    n_more: int


@dataclass(frozen=True, slots=True)
class BatchView:
    """The results ``first`` to ``last`` of a batch of ``total`` queries; ``n_ready`` of them are finished."""

    id: str
    results: tuple[ResultView, ...]
    first: int
    last: int
    n_ready: int
    total: int
    previous: str
    next: str


def view_lines(engine: SearchEngine, library: Library) -> LinesView:
    """Return the matched and lost lines of a batch; raises DeadlineError."""
    missing = library.missing
    lost = [
        _lost(engine, each, near=library.is_list and number < _MAX_NEAR)
        for number, each in enumerate(missing)
    ]
    return LinesView(
        n_lines=library.n_entries,
        n_papers=len(library.papers),
        names=json.dumps([paper.id for paper in library.papers]),
        papers=tuple(map(_known, library.papers[:_MAX_LISTED])),
        n_repeated=library.n_entries - library.n_missing - len(library.papers),
        lost=tuple(lost),
        n_more=library.n_missing - len(missing),
    )


def stretch_shown(job_id: str, start: int, n_ready: int) -> ResultRange:
    """Return the page of ``n_ready`` results from number ``start``; after the last page, the last page."""
    last_page = max(0, n_ready - 1) // _A_PAGE * _A_PAGE
    first = min(start, last_page)
    return ResultRange(job_id, first, min(first + _A_PAGE, n_ready))


def view_results(
    job: Job, results: Sequence[BatchResult], queries: Sequence[SearchQuery], start: int, n_ready: int
) -> BatchView:
    """Return a page of the results of ``job``, from number ``start`` (from 0).

    ``queries`` are the queries of these results; it is empty for a batch of matches.
    """

    def at(number: int) -> str:
        return f"/batch/{job.id}/papers?start={number}"

    stop = start + len(results)
    return BatchView(
        id=job.id,
        results=tuple(map(_result, results, queries or repeat(None))),
        first=start + 1,
        last=stop,
        n_ready=n_ready,
        total=job.n_queries,
        previous=at(max(0, start - _A_PAGE)) if start else "",
        next=at(stop) if results and stop < n_ready else "",
    )


def _lost(engine: SearchEngine, line: MissingEntry, *, near: bool) -> LostLine:
    reference = reference_of(line.words) or name_of(line.words) or ""
    name = line.title or (line.words if reference else "")
    if not name:  # an unreadable entry of a file: its words say why
        return LostLine(line.line, "", line.words, ())
    meant = nearest_papers(engine, name, limit=_NEAR) if near else []
    return LostLine(line.line, line.words, _WHY[reference.partition(":")[0]], tuple(map(_known, meant)))


def _known(paper: Paper) -> KnownPaper:
    return KnownPaper(paper.id, paper.title or paper.id, in_short(paper))


def _result(result: BatchResult, query: SearchQuery | None) -> ResultView:
    if result.matched is not None:
        found = [_profile(each) for each in result.matched.profiles]
        heading = Link(result.matched.paper.title or result.matched.paper.id, "")
    else:
        found = [] if result.answer is None else list(map(_found, result.answer.results))
        heading = _heading(result, result.answer, query)
    return ResultView(
        number=result.seed + 1,
        heading=heading,
        problem=problem_of(result) or "",
        papers=tuple(found[:_MAX_PAPERS]),
        n_more=max(0, len(found) - _MAX_PAPERS),
    )


def _profile(matched: MatchedProfile) -> FoundPaper:
    return FoundPaper(matched.name, f"affinity {matched.affinity:.2f}", "", "", "")


def _found(ranked: RankedPaper) -> FoundPaper:
    paper = ranked.paper
    return FoundPaper(
        title=paper.title or paper.id,
        about=in_short(paper),
        strength=ranked.strength.label if ranked.strength else "",
        start=PageQuery(paper=paper.id).address(),
        out=web_address(PaperOut.model_validate(paper)),
    )


def _heading(result: BatchResult, answer: SearchAnswer | None, query: SearchQuery | None) -> Link:
    given = result.name or result.paper_id or "Without a name"
    if answer is None or len(answer.seeds) != 1 or not answer.seeds[0].paper.id:
        return Link(given, "")
    paper = answer.seeds[0].paper
    page_query = None if query is None else page_query_of(query, paper.id)
    return Link(paper.title or paper.id, "" if page_query is None else page_query.address())
