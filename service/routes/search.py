"""``POST /v1/search``: one paper in, ranked and explained papers out."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from service.answers import answer_search
from service.formats import LIST_FORMATS, Format
from service.routes.answers import AnswersDep
from service.routes.cursors import CURSOR_RESPONSES, CursorsDep
from service.routes.engine import EngineDep, EnginesDep
from service.routes.formats import VARIES, ListFormatDep, documented, ranked_file
from service.schemas.search import SearchIn, SearchOut

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/search", response_model=SearchOut, responses={**documented(*LIST_FORMATS), **CURSOR_RESPONSES})
def search(
    body: SearchIn,
    engine: EngineDep,
    engines: EnginesDep,
    cursors: CursorsDep,
    answers: AnswersDep,
    form: ListFormatDep,
    request: Request,
) -> Response:
    """Papers akin to the one given, with the sentences that match and how much each match counts."""
    query = body.to_query()
    if body.cursor is not None:
        page, generation = cursors.read(body.cursor, query)
        query, engine = replace(query, page=page), engines.at(generation)
        request.state.engine = engine
    engines.pin(engine)

    def answered() -> SearchOut:
        return answer_search(engine, cursors, query)

    if form is Format.JSON:
        pasted = query.paper_id is None
        return answers.respond(engine, query, answered, reads_text=pasted, headers=VARIES)
    out = answered()
    return ranked_file(
        form,
        out.results,
        name="akin-search",
        first_rank=query.page.offset + 1,
        next_cursor=out.next_cursor,
        reason=out.reason,
    )
