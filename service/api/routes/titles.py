"""``GET /v1/papers`` and ``GET /v1/papers/suggest``; include this before the routes of single papers."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from models.errors import PaperNotFoundError
from service.access.policy import READ, requires
from service.api.dependencies.cursors import CURSOR_RESPONSES, PagingDep
from service.api.dependencies.engine import EngineDep
from service.api.routes.papers import paper
from service.api.schemas.base import PaperAnswerOut
from service.api.schemas.papers import ListIn, ListOut
from service.api.schemas.titles import PrefixIn, SuggestionsOut, TitlesOut
from service.search.lookup import Listing, find_titles, list_papers, suggest_titles

router = APIRouter(prefix="/v1/papers", tags=["papers"])


@router.get("", summary="List Papers", responses=CURSOR_RESPONSES)
@requires(READ)
def papers(query: Annotated[ListIn, Query()], paging: PagingDep, engine: EngineDep) -> ListOut | TitlesOut:
    """List papers page by page, with their number, or find those with a title, even misspelt or shortened."""
    if query.title is not None:
        return TitlesOut.of(find_titles(engine, query.title, limit=query.limit))
    listing, engine = paging.at(query.cursor, Listing(query.to_filters(), query.limit))
    found = list_papers(engine, listing)
    return ListOut.of(
        found,
        next_cursor=paging.cursors.following(found.next_page, listing, engine),
        generation=engine.snapshot.generation,
    )


@router.get("/suggest", response_model=SuggestionsOut | PaperAnswerOut)
@requires(READ)
def suggest(
    query: Annotated[PrefixIn, Query()], engine: EngineDep, request: Request, response: Response
) -> SuggestionsOut | PaperAnswerOut | Response:
    """Suggest papers whose titles contain the words typed so far, to show while someone types."""
    if query.prefix is not None:
        return SuggestionsOut.of(suggest_titles(engine, query.prefix, limit=query.limit))
    try:
        return paper("suggest", engine, request, response)
    except PaperNotFoundError as error:
        raise PaperNotFoundError(
            "No paper of this collection is called suggest; to find papers by title, give the beginning of "
            "a title: /v1/papers/suggest?prefix=graph."
        ) from error
