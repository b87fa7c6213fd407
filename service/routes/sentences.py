"""``POST /v1/sentences/search``: one sentence in, the nearest sentences of the collection out."""

from fastapi import APIRouter

from service.routes.engine import EngineDep
from service.schemas.sentences import SentenceSearchIn, SentenceSearchOut
from service.sentences import search_sentences

router = APIRouter(prefix="/v1/sentences", tags=["search"])


@router.post("/search")
def search(body: SentenceSearchIn, engine: EngineDep) -> SentenceSearchOut:
    """Sentences that mean what the one given means, or that do what it does, whatever their topic."""
    return SentenceSearchOut.of(search_sentences(engine, body.to_query()))
