"""``POST /v1/search``: one paper in, ranked and explained papers out."""

from fastapi import APIRouter

from service.routes.engine import EngineDep
from service.schemas.search import SearchIn, SearchOut

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/search")
def search(body: SearchIn, engine: EngineDep) -> SearchOut:
    """Papers akin to the one given, with the sentences that match and how much each match counts."""
    return SearchOut.of(engine.search(body.to_query()))
