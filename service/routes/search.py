"""``POST /v1/search``: one paper in, ranked and explained papers out."""

from dataclasses import replace

from fastapi import APIRouter, Response

from service.formats import LIST_FORMATS, Format
from service.routes.cursors import CURSOR_RESPONSES, CursorsDep
from service.routes.engine import EngineDep
from service.routes.formats import ListFormatDep, documented, ranked_file
from service.schemas.search import SearchIn, SearchOut

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/search", response_model=SearchOut, responses={**documented(*LIST_FORMATS), **CURSOR_RESPONSES})
def search(
    body: SearchIn, engine: EngineDep, cursors: CursorsDep, form: ListFormatDep
) -> SearchOut | Response:
    """Papers akin to the one given, with the sentences that match and how much each match counts."""
    manifest, query = engine.snapshot.manifest, body.to_query()
    if body.cursor is not None:
        query = replace(query, page=cursors.read(body.cursor, query, manifest))
    answer = engine.search(query)
    following = answer.next_page
    next_cursor = None if following is None else cursors.write(following, query, manifest)
    out = SearchOut.of(answer, next_cursor=next_cursor)
    if form is Format.JSON:
        return out
    return ranked_file(
        form,
        out.results,
        name="akin-search",
        first_rank=query.page.offset + 1,
        next_cursor=next_cursor,
        reason=out.reason,
    )
