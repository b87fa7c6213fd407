"""``POST /v1/sentences/search``: one sentence in, the nearest sentences of the collection out."""

from fastapi import APIRouter, Response

from service.access.policy import READ, requires
from service.api.dependencies.answers import AnswersDep
from service.api.dependencies.engine import EngineDep
from service.api.json_body import JSONBodyRoute
from service.api.schemas.search.sentences import SentenceSearchIn, SentenceSearchOut
from service.search.sentences import search_sentences

router = APIRouter(prefix="/v1/sentences", tags=["search"], route_class=JSONBodyRoute)


@router.post("/search", summary="Search Sentences", response_model=SentenceSearchOut)
@requires(READ)
def search(body: SentenceSearchIn, engine: EngineDep, answers: AnswersDep) -> Response:
    """Find sentences with the meaning of the one given, or with its rhetorical function, on any topic."""
    query = body.to_query()

    def answered() -> SentenceSearchOut:
        return SentenceSearchOut.of(search_sentences(engine, query))

    return answers.respond(engine, query, answered, reads_text=query.paper_id is None)
