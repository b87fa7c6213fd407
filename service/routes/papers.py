"""``/v1/papers``: the collection."""

from typing import Annotated

from fastapi import APIRouter, Path

from service.routes.engine import EngineDep
from service.schemas.base import PaperAnswerOut, PaperOut

router = APIRouter(prefix="/v1/papers", tags=["papers"])


# ``:path`` because identifiers such as DOIs hold slashes.
@router.get("/{paper_id:path}")
def paper(paper_id: Annotated[str, Path(min_length=1, max_length=200)], engine: EngineDep) -> PaperAnswerOut:
    """One paper by its id."""
    snapshot = engine.snapshot
    found = snapshot.paper(snapshot.position(paper_id))
    return PaperAnswerOut(paper=PaperOut.model_validate(found), generation=snapshot.generation)
