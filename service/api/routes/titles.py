"""``GET /v1/papers?title=`` and ``GET /v1/papers/suggest``; include it before the routes of single papers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from models.errors import InputError, PaperNotFoundError
from service.access.policy import READ, requires
from service.api.dependencies.engine import EngineDep
from service.api.routes.papers import paper
from service.api.schemas.base import PaperAnswerOut
from service.api.schemas.titles import PrefixIn, SuggestionsOut, TitleIn, TitlesOut
from service.search.title_search import find_titles, suggest_titles


def _each_once(request: Request) -> None:
    """Refuse a parameter that comes twice: one of the two would be ignored."""
    given = request.query_params
    if len(given.multi_items()) != len(given):
        raise InputError("A parameter of the address is given twice; give each once.")


router = APIRouter(prefix="/v1/papers", tags=["papers"], dependencies=[Depends(_each_once)])


@router.get("")
@requires(READ)
def by_title(asked: Annotated[TitleIn, Query()], engine: EngineDep) -> TitlesOut:
    """Papers by a title that may be misspelt or lack its subtitle, the most alike first."""
    return TitlesOut.of(find_titles(engine, asked.title, limit=asked.limit))


@router.get("/suggest", response_model=SuggestionsOut | PaperAnswerOut)
@requires(READ)
def suggest(
    asked: Annotated[PrefixIn, Query()], engine: EngineDep, request: Request, response: Response
) -> SuggestionsOut | PaperAnswerOut | Response:
    """Papers whose titles hold the words typed so far; for showing while someone types."""
    if asked.prefix is not None:
        return SuggestionsOut.of(suggest_titles(engine, asked.prefix, limit=asked.limit))
    try:
        return paper("suggest", engine, request, response)
    except PaperNotFoundError as error:
        raise PaperNotFoundError(
            "No paper of this collection is called suggest; for papers by their titles give the beginning "
            "of one, as /v1/papers/suggest?prefix=graph."
        ) from error
