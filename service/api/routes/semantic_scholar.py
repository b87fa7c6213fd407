"""Semantic Scholar's routes over this collection: its clients work once their base URL is ours.

Papers are named as its clients name them (``DOI:``, ``ARXIV:``, ``CorpusId:`` ...) or by their ids here.
Errors are problems like everywhere, plus the members that its clients read: service/api/errors.py.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from indexer.corpus.rows import MAX_TITLE_CHARS
from models.errors import PaperNotFoundError
from models.types import Paper
from service.access.policy import SCHOLAR, requires
from service.api.dependencies.engine import EngineDep
from service.api.dependencies.formats import COVERED, coverage_header
from service.api.errors import SCHOLAR_RESPONSES
from service.api.json_body import JSONBodyRoute
from service.api.middleware.routing import PATH_PATTERN
from service.api.schemas.semantic_scholar import (
    MAX_IDS,
    MAX_NAME_CHARS,
    SHOWN,
    FieldNames,
    ListsIn,
    MatchesOut,
    Pool,
    RecommendedOut,
    ScholarBatchIn,
    ScholarPaper,
    field_set,
    unresolved_places,
)
from service.search.query import Reason, SearchQuery, Seed

router = APIRouter(tags=["Semantic Scholar"], responses=SCHOLAR_RESPONSES, route_class=JSONBodyRoute)

PaperName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        pattern=PATH_PATTERN,
        description="A paper id, or `DOI:...`, `ARXIV:...` and the like.",
    ),
]
Fields = Annotated[
    FieldNames | None, Query(description="Fields, separated by commas; default: paperId and title.")
]
Limit = Annotated[int, Query(ge=1, le=MAX_IDS, description="Maximum number.")]
_COVERED: dict[int | str, dict[str, Any]] = {200: COVERED}


# Also without the trailing slash, which clients often leave out.
@router.post("/recommendations/v1/papers", response_model_exclude_unset=True, include_in_schema=False)
@router.post("/recommendations/v1/papers/", response_model_exclude_unset=True, responses=_COVERED)
@requires(SCHOLAR)
def recommend_for_lists(
    body: ListsIn, engine: EngineDep, response: Response, fields: Fields = None, limit: Limit = 100
) -> RecommendedOut:
    """Return papers similar to some of the positive ones and far from the negative ones, best first."""
    answer = engine.search(body.to_query(limit))
    response.headers.update(coverage_header(answer.coverage))
    if answer.reason is Reason.NO_SEED_RESOLVED:
        raise PaperNotFoundError("No paper of this collection has any of the positive ids given.")
    papers = [result.paper for result in answer.results]
    if not answer.unresolved:
        return _recommended(papers, fields)
    return _recommended(papers, fields, unresolved=unresolved_places(answer.unresolved))


# ``:path`` because DOIs and addresses hold slashes.
@router.get(
    "/recommendations/v1/papers/forpaper/{paper_id:path}",
    response_model_exclude_unset=True,
    responses=_COVERED,
)
@requires(SCHOLAR)
def recommend_for_paper(
    paper_id: PaperName,
    engine: EngineDep,
    response: Response,
    fields: Fields = None,
    limit: Limit = 100,
    pool: Annotated[
        Pool, Query(alias="from", description="Accepted and ignored: a collection is one pool.")
    ] = Pool.RECENT,
) -> RecommendedOut:
    """Return papers similar to one paper, best first."""
    seed = Seed(engine.names.identifiers.resolve(paper_id))
    answer = engine.search(SearchQuery((seed,), limit=limit, include=SHOWN))
    response.headers.update(coverage_header(answer.coverage))
    return _recommended([ranked.paper for ranked in answer.results], fields)


def _recommended(papers: list[Paper], fields: str | None, **more: Any) -> RecommendedOut:
    wanted = field_set(fields)
    return RecommendedOut(recommendedPapers=[ScholarPaper.of(paper, wanted) for paper in papers], **more)


@router.post("/graph/v1/paper/batch", summary="Papers By Name", response_model_exclude_unset=True)
@requires(SCHOLAR)
def papers(body: ScholarBatchIn, engine: EngineDep, fields: Fields = None) -> list[ScholarPaper | None]:
    """Return papers by their names, in the order given; null for those that are not in the collection."""
    positions = [engine.names.identifiers.position(name) for name in body.ids]
    wanted = field_set(fields)
    return [
        None if position is None else ScholarPaper.of(engine.snapshot.paper(position), wanted)
        for position in positions
    ]


@router.get("/graph/v1/paper/search/match", response_model_exclude_unset=True)
@requires(SCHOLAR)
def match_title(
    engine: EngineDep,
    query: Annotated[str, Query(min_length=1, max_length=MAX_TITLE_CHARS, description="A title.")],
    fields: Fields = None,
) -> MatchesOut:
    """Return the paper with the title most similar to the one given; ``matchScore`` is 1 for equal words."""
    found = engine.names.titles.like(query, limit=1)
    if not found:
        raise PaperNotFoundError(
            "Title match not found. No paper of the collection has a similar title; give more of it."
        )
    paper, score = engine.snapshot.paper(found[0].position), round(found[0].similarity, 4)
    return MatchesOut(data=[ScholarPaper.of(paper, field_set(fields), matchScore=score)])


# After the routes above, which its path would also match.
@router.get("/graph/v1/paper/{paper_id:path}", summary="Paper By Name", response_model_exclude_unset=True)
@requires(SCHOLAR)
def paper(paper_id: PaperName, engine: EngineDep, fields: Fields = None) -> ScholarPaper:
    """Return one paper by any of its names."""
    position = engine.snapshot.position(engine.names.identifiers.resolve(paper_id))
    return ScholarPaper.of(engine.snapshot.paper(position), field_set(fields))
