"""``POST /v1/recommendations``: many papers in, ranked and explained papers out."""

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
from service.api.schemas.search.recommendations import RecommendationsIn, RecommendationsOut

router = APIRouter(prefix="/v1", tags=["search"], route_class=JSONBodyRoute)


@router.post(
    "/recommendations",
    response_model=RecommendationsOut,
    responses={**documented_list(), **CURSOR_RESPONSES},
)
@requires(READ)
def recommendations(
    body: RecommendationsIn, paging: PagingDep, answers: AnswersDep, form: ListFormatDep
) -> Response:
    """Find papers similar to the seeds and unlike the negatives, with the sentences that match, by seed."""
    query, engine = paging.at(body.cursor, body.to_query())

    if form is Format.JSON:
        write = partial(write_page, RecommendationsOut, engine, paging.cursors, query)
        return answers.respond(engine, query, write, reads_text=query.reads_text, headers=VARIES)
    page = answer_page(RecommendationsOut, engine, paging.cursors, query)
    return ranked_file(form, page, name="akin-recommendations", ranks=count(query.page.offset + 1))
