"""Answers the query of a page with the engine, cursors and cache of ``/v1``."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from indexer.corpus.library.names import name_of
from models.types import Paper, Sentence
from service.api.answers import Answers, RankedOut, write_page
from service.api.dependencies.cursors import Paging
from service.api.schemas.base import pasted_paper
from service.api.schemas.search.recommendations import RecommendationsIn, RecommendationsOut
from service.api.schemas.search.results import ResultOut, SearchOut
from service.api.schemas.writing import JSONAnswer
from service.collection.cursors import Cursors
from service.resolve.analysis import analyze
from service.resolve.identifiers import is_name
from service.resolve.text_query import one_sentence
from service.search.engine import SearchEngine
from service.search.query import FIRST_PAGE, Detail, Page, SearchAnswer, SearchQuery
from service.search.reachable import covering
from service.web.address.page_query import Order, PageQuery
from service.web.paper_listing import with_names
from service.web.views.results.alignment import Source

# The most papers of a list that is saved as a whole.
MAX_SAVED: Final = 1_000
# Only the best papers of a list are sorted by year: the newest of all papers would hardly be similar.
MAX_SORTED: Final = 100
# A number alone is a PubMed number if the collection has that paper; a shorter one is a year.
_PUBMED_NUMBER: Final = re.compile(r"[0-9]{5,8}", re.ASCII)
# The details of a paper that are saved.
_SAVED: Final = frozenset({Detail.ABSTRACT, Detail.SENTENCES, Detail.HIGHLIGHTS})


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """A query as it was understood, and its answer; ``paper`` is its paper or text, ``None`` without one.

    The results start at number ``first`` of the whole list in the requested order; ``ranks`` are their
    ranks by strength. ``engine`` found them. ``previous_cursor`` leads to the page before, and is ``None``
    on the first page.
    """

    engine: SearchEngine
    page_query: PageQuery
    paper: Paper | None
    out: RankedOut
    first: int
    ranks: Sequence[int]
    previous_cursor: str | None = None


def named(engine: SearchEngine, page_query: PageQuery) -> PageQuery:
    """Return the query with its paper by id and names as the collection spells them; raises QueryError."""
    return with_names(engine, by_id(engine, page_query))


def by_id(engine: SearchEngine, page_query: PageQuery) -> PageQuery:
    """Return the query with the id of its paper, if another name was given, such as a DOI as the text."""
    given = page_query.paper or page_query.text
    name = name_of(given)
    if not given or (page_query.paper and page_query.text):
        return page_query
    if page_query.text and name is None and any(map(str.isspace, given)):
        return page_query
    pubmed = f"pmid:{given}" if _PUBMED_NUMBER.fullmatch(given) else None
    for each in filter(None, (given, pubmed)):
        if (position := engine.names.identifiers.position(each)) is not None:
            return replace(page_query, paper=engine.snapshot.paper(position).id, text="")
    if page_query.paper and (position := engine.names.positions([given])[0]) is not None:  # by its title
        return replace(page_query, paper=engine.snapshot.paper(position).id)
    # A paper's name is not searched for as a text: the answer says that the collection lacks the paper.
    return replace(page_query, paper=given, text="") if is_name(given) else page_query


def read(engine: SearchEngine, page_query: PageQuery) -> Paper | None:
    """Return the query's paper or text with the facets of its sentences, or ``None`` if it has neither.

    Raises PaperNotFoundError, QueryError, DeadlineError.
    """
    return _read(engine, page_query)[0]


def _read(engine: SearchEngine, page_query: PageQuery) -> tuple[Paper | None, Sequence[Sentence]]:
    """Return ``read``, and its sentences that can be chosen: those that the encoder reads."""
    if page_query.paper:
        position = engine.snapshot.position(page_query.paper)
        paper, n_unread = engine.snapshot.paper(position), engine.snapshot.dropped_sentences(position)
    elif page_query.abstract:
        found = analyze(engine.annotator, pasted_paper(page_query.title, page_query.abstract))
        paper, n_unread = found.paper, found.dropped_sentences
    elif page_query.text:
        paper, n_unread = one_sentence(page_query.text), 0
    else:
        return None, ()
    return paper, paper.sentences[: len(paper.sentences) - n_unread]


def answer(engine: SearchEngine, paging: Paging, answers: Answers, page_query: PageQuery) -> QueryAnswer:
    """Answer ``page_query`` with the page of the list that its cursor stands for.

    Raises the errors of ``/v1/search`` and ``/v1/recommendations``, and QueryError for a request that
    their models find invalid.
    """
    given, cursors = _resolve_query(engine, paging, page_query), paging.cursors
    out, ranks = (_by_year if given.by_year else _by_strength)(given, cursors, answers)
    query, page = given.query, given.query.page
    before = replace(page, offset=max(0, page.offset - query.limit)) if page.offset else None
    previous = cursors.following(before, query, given.engine)
    return QueryAnswer(given.engine, given.page_query, given.paper, out, page.offset + 1, ranks, previous)


def whole_list(
    engine: SearchEngine, paging: Paging, page_query: PageQuery, *, most: int = MAX_SAVED
) -> QueryAnswer:
    """Return the first ``most`` papers of the list, without alignments, whatever page the cursor stands for.

    They are in the order of its pages; by year there are at most ``MAX_SORTED``. Raises as ``answer``.
    """
    given = _resolve_query(engine, paging, page_query)
    page = replace(given.query.page, offset=0)
    query = replace(given.query, page=page, include=_SAVED, max_alignments=0)
    found = _first_papers(given.engine, query, min(most, MAX_SORTED) if given.by_year else most)
    out = given.out.of(found)
    ranks = newest_first(out.results) if given.by_year else range(1, len(out.results) + 1)
    return QueryAnswer(given.engine, given.page_query, given.paper, _with_ranks(out, ranks), 1, ranks)


def newest_first(results: Sequence[ResultOut]) -> list[int]:
    """Return the results' ranks, from 1, newest year first; by strength in a year, those without one last."""
    years = {rank: result.paper.year or 0 for rank, result in enumerate(results, start=1)}
    return sorted(years, key=lambda rank: (-years[rank], rank))


@dataclass(frozen=True, slots=True)
class _ResolvedQuery:
    """A query as it was understood: its paper, the model of its answer, and the engine to search with."""

    engine: SearchEngine
    page_query: PageQuery
    paper: Paper | None
    out: type[RankedOut]
    query: SearchQuery

    @property
    def by_year(self) -> bool:
        """Whether the newest papers come first."""
        return self.page_query.order is Order.YEAR

    def read(self, answers: Answers, question: object, compute: Callable[[], JSONAnswer]) -> RankedOut:
        """Return the answer to ``question`` from the cache, or compute it with ``compute``."""
        content = answers.content(self.engine, question, compute, reads_text=self.query.reads_text)
        return self.out.model_validate_json(content)


def _by_strength(
    given: _ResolvedQuery, cursors: Cursors, answers: Answers
) -> tuple[RankedOut, Sequence[int]]:
    """Return a page of the list as ``/v1`` answers it, and the ranks of its papers."""
    engine, query = given.engine, given.query
    out = given.read(answers, query, lambda: write_page(given.out, engine, cursors, query))
    return out, range(query.page.offset + 1, query.page.offset + 1 + len(out.results))


def _by_year(given: _ResolvedQuery, cursors: Cursors, answers: Answers) -> tuple[RankedOut, Sequence[int]]:
    """Return a page of the best ``MAX_SORTED`` papers, sorted by year, and their ranks by strength."""
    engine, query = given.engine, given.query
    # The best papers are the same for every page, so they are found once for all pages.
    best = replace(query, page=FIRST_PAGE)
    out = given.read(
        answers, (best, MAX_SORTED), lambda: given.out.written(_first_papers(engine, best, MAX_SORTED))
    )
    ranks = newest_first(out.results)
    stop = query.page.offset + query.limit
    following = cursors.following(Page(stop) if stop < len(ranks) else None, query, engine)
    shown = ranks[query.page.offset : stop]
    return _with_ranks(out, shown).model_copy(update={"total": len(ranks), "next_cursor": following}), shown


def _with_ranks(out: RankedOut, ranks: Sequence[int]) -> RankedOut:
    """Return ``out`` with only the results of these ranks, in this order."""
    return out.model_copy(update={"results": [out.results[rank - 1] for rank in ranks]})


def _first_papers(engine: SearchEngine, query: SearchQuery, most: int) -> SearchAnswer:
    """Return the first ``most`` papers of a list, in the order of its pages."""
    found = engine.search(replace(query, limit=min(query.limit, most)))
    n_more = most - len(found.results)
    if found.next_page is None or not n_more:
        return found
    rest = engine.search(replace(query, limit=n_more, page=found.next_page))
    both = replace(found, results=(*found.results, *rest.results))
    return covering(both, min(found.coverage, rest.coverage))


def _resolve_query(engine: SearchEngine, paging: Paging, page_query: PageQuery) -> _ResolvedQuery:
    # Validate before reading a text that may be too long; chosen sentences can only be checked afterwards.
    replace(page_query, sentences=(), facets=(), unlike_sentences=(), unlike_facets=()).request()
    paper, sentences = _read(engine, page_query)
    page_query = page_query.settled(sentences)
    body = page_query.request()
    query, engine = paging.at(body.cursor, body.to_query())
    out: type[RankedOut] = RecommendationsOut if isinstance(body, RecommendationsIn) else SearchOut
    return _ResolvedQuery(engine, page_query, paper, out, query)


def sources(answered: QueryAnswer) -> list[Source]:
    """Return the query's papers with their sentences, as drawings of alignments name them."""
    out, paper = answered.out, answered.paper
    if isinstance(out, SearchOut):
        return [] if paper is None else [Source(paper.title or "Your text", paper.sentences)]
    snapshot = answered.engine.snapshot
    page_query = answered.page_query
    unlike = bool(page_query.unlike_sentences or page_query.unlike_facets)
    # A seed without an id is the pasted paper.
    seeded = [snapshot.paper(snapshot.position(seed.id)) if seed.id else paper for seed in out.seeds]
    return [
        Source(
            seed.title or "Your text",
            each.sentences,
            seed.seed,
            seed.negative,
            own=paper is not None and seed.seed == 0 and (unlike or not seed.negative),
        )
        for seed, each in zip(out.seeds, seeded, strict=True)
        if each is not None
    ]
