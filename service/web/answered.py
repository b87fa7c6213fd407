"""Answers the query of a page with the engine, cursors and cache of ``/v1``."""

import re
from dataclasses import dataclass, replace
from typing import Final

from indexer.corpus.library.names import name_of
from models.types import Paper
from service.api.answers import Answers, RankedOut, answer_page
from service.api.dependencies.cursors import Paging
from service.api.schemas.base import pasted_paper
from service.api.schemas.search.recommendations import RecommendationsIn, RecommendationsOut
from service.api.schemas.search.results import SearchOut
from service.resolve.analysis import analyze
from service.resolve.identifiers import Names, names_of
from service.resolve.text_query import one_sentence
from service.search.engine import SearchEngine
from service.search.query import Detail, SearchQuery
from service.web.address.asked import Asked
from service.web.browsed import with_authors
from service.web.views.results.alignment import Source

# Papers of a list that is saved as a whole, and what of them.
MOST_SAVED: Final = 1_000
# A number by itself is one of PubMed where the collection has that paper; a shorter one is a year.
_PUBMED_NUMBER: Final = re.compile(r"[0-9]{5,8}", re.ASCII)
_SAVED: Final = frozenset({Detail.ABSTRACT, Detail.SENTENCES, Detail.HIGHLIGHTS})


@dataclass(frozen=True, slots=True)
class Answered:
    """A query as it was understood, and its answer; ``paper`` is the one asked with, ``None`` for ids alone.

    The first of the results has the rank ``first_rank``; ``engine`` found them. ``previous_cursor`` leads to
    the page before, and is ``None`` on the first.
    """

    engine: SearchEngine
    asked: Asked
    paper: Paper | None
    out: RankedOut
    first_rank: int
    previous_cursor: str | None = None


def named(engine: SearchEngine, asked: Asked) -> Asked:
    """The same by a paper's id, where its other names were given, a DOI for a text among them.

    Authors are named as the collection spells them. Raises QueryError.
    """
    asked = with_authors(engine, asked)
    given = asked.paper or asked.text
    name = name_of(given)
    if not given or (asked.paper and asked.text):
        return asked
    if asked.text and name is None and any(map(str.isspace, given)):
        return asked
    pubmed = f"pmid:{given}" if _PUBMED_NUMBER.fullmatch(given) else None
    for each in filter(None, (given, name or pubmed)):
        if (position := engine.identifiers.position(each)) is not None:
            return replace(asked, paper=engine.snapshot.paper(position).id, text="")
    # A name of a paper is no text to search for: the answer says that the collection does not hold it.
    return replace(asked, paper=given, text="") if name or names_of(given) != Names() else asked


def read(engine: SearchEngine, asked: Asked) -> Paper | None:
    """The paper that is asked with, its sentences with facets.

    Raises PaperNotFoundError, QueryError, DeadlineError.
    """
    if asked.paper:
        return engine.snapshot.paper(engine.snapshot.position(asked.paper))
    if asked.abstract:
        return analyze(engine.annotator, pasted_paper(asked.title, asked.abstract)).paper
    return one_sentence(asked.text) if asked.text else None


def answer(engine: SearchEngine, paging: Paging, answers: Answers, asked: Asked) -> Answered:
    """What ``asked`` asks for, with the page of the list that its cursor stands for.

    Raises what ``/v1/search`` and ``/v1/recommendations`` raise, and QueryError where they find a request
    invalid.
    """
    given = _understood(engine, paging, asked)
    engine, query, page = given.engine, given.query, given.query.page
    content = answers.content(
        engine,
        query,
        lambda: answer_page(given.out, engine, paging.cursors, query),
        reads_text=query.reads_text,
    )
    out = given.out.model_validate_json(content)
    before = replace(page, offset=max(0, page.offset - query.limit)) if page.offset else None
    previous = paging.cursors.following(before, query, engine)
    return Answered(engine, given.asked, given.paper, out, page.offset + 1, previous)


def whole_list(engine: SearchEngine, paging: Paging, asked: Asked, *, most: int = MOST_SAVED) -> Answered:
    """The first ``most`` papers of the list, without alignments, whatever page the cursor stands for.

    They are those of its pages in turn. Raises what ``answer`` raises.
    """
    given = _understood(engine, paging, asked)
    page = replace(given.query.page, offset=0)
    query = replace(given.query, page=page, include=_SAVED, max_alignments=0)
    found = given.engine.search(query)
    if found.next_page is not None:
        limit = most - len(found.results)
        rest = given.engine.search(replace(query, limit=limit, page=found.next_page))
        found = replace(found, results=(*found.results, *rest.results))
    return Answered(given.engine, given.asked, given.paper, given.out.of(found), 1)


@dataclass(frozen=True, slots=True)
class _Understood:
    """What is asked, its paper, the shape of its answer, and the engine that is to search for it."""

    engine: SearchEngine
    asked: Asked
    paper: Paper | None
    out: type[RankedOut]
    query: SearchQuery


def _understood(engine: SearchEngine, paging: Paging, asked: Asked) -> _Understood:
    # Before anything is read that is too long; what is chosen in it can be checked only then.
    replace(asked, sentences=(), facets=(), unlike_sentences=(), unlike_facets=()).request()
    paper = read(engine, asked)
    asked = asked.settled(() if paper is None else paper.sentences)
    body = asked.request()
    query, engine = paging.at(body.cursor, body.to_query())
    out: type[RankedOut] = RecommendationsOut if isinstance(body, RecommendationsIn) else SearchOut
    return _Understood(engine, asked, paper, out, query)


def sources(answered: Answered) -> list[Source]:
    """The papers asked with, their sentences with texts, as drawings of alignments name them."""
    out, paper = answered.out, answered.paper
    if isinstance(out, SearchOut):
        return [] if paper is None else [Source(paper.title or "Your text", paper.sentences)]
    snapshot = answered.engine.snapshot
    asked = answered.asked
    unlike = bool(asked.unlike_sentences or asked.unlike_facets)
    # What was pasted has no id, and is the paper asked with.
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
