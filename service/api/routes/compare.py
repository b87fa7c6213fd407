"""``POST /v1/compare``: two papers in, how they are alike and what only one of them has out."""

from fastapi import APIRouter, Response

from service.access.policy import READ, requires
from service.api.dependencies.answers import AnswersDep
from service.api.dependencies.engine import EngineDep
from service.api.json_body import JSONBodyRoute
from service.api.schemas.compare import CompareIn, CompareOut
from service.match.side_by_side import side_by_side

router = APIRouter(prefix="/v1", tags=["match"], route_class=JSONBodyRoute)


@router.post("/compare", response_model=CompareOut)
@requires(READ)
def compare(body: CompareIn, engine: EngineDep, answers: AnswersDep) -> Response:
    """Two papers side by side: alignments both ways, by facet, shared words, what only one of them has."""
    a, b = body.a.to_seed(), body.b.to_seed()
    reads_text = any(seed.paper_id is None for seed in (a, b))

    def answered() -> CompareOut:
        return CompareOut.of(side_by_side(engine, a, b))

    return answers.respond(engine, ("compare", a, b), answered, reads_text=reads_text)
