"""``POST /v1/search``: one paper in, ranked and explained papers out."""

from functools import partial
from itertools import count

from fastapi import APIRouter, Response

from service.access.policy import READ, requires
from service.api.answers import answer_page, write_page
from service.api.dependencies.answers import AnswersDep
from service.api.dependencies.cursors import CURSOR_RESPONSES, PagingDep
from service.api.dependencies.formats import VARIES, ListFormatDep, documented_list, ranked_file
from service.api.formats import Format
from service.api.json_body import JSONBodyRoute
from service.api.schemas.search.results import SearchOut
from service.api.schemas.search.search import SearchIn

router = APIRouter(prefix="/v1", tags=["search"], route_class=JSONBodyRoute)


@router.post(
    "/search",
    summary="Search Papers",
    response_model=SearchOut,
    responses={**documented_list(), **CURSOR_RESPONSES},
)
@requires(READ)
def search(
    body: SearchIn,
    paging: PagingDep,
    answers: AnswersDep,
    form: ListFormatDep,
) -> Response:
    """Find papers similar to the one given, with the sentences that match and how much each match counts."""
    query, engine = paging.at(body.cursor, body.to_query())

    if form is Format.JSON:
        write = partial(write_page, SearchOut, engine, paging.cursors, query)
        return answers.respond(engine, query, write, reads_text=query.reads_text, headers=VARIES)
    page = answer_page(SearchOut, engine, paging.cursors, query)
    return ranked_file(form, page, name="akin-search", ranks=count(query.page.offset + 1))
