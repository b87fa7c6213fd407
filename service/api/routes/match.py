"""``/v1/match`` and ``/v1/compare``: profiles nearest to submissions, and two papers side by side."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from service.access.in_turn import QueuePlace, read_then_compute
from service.access.policy import READ, requires
from service.api.dependencies.answers import AnswersDep
from service.api.dependencies.engine import EngineDep
from service.api.dependencies.profiles import kept_profiles
from service.api.json_body import JSONBodyRoute
from service.api.schemas.match import MatchIn, MatchOut
from service.api.schemas.saved.profiles import MAX_PAPERS
from service.api.schemas.search.compare import CompareIn, CompareOut
from service.api.services import services_of
from service.match.answer import match
from service.match.query import Profile
from service.match.side_by_side import side_by_side

router = APIRouter(prefix="/v1", tags=["match"], route_class=JSONBodyRoute)

_MATCH: Final = replace(READ, remedy="send fewer submissions or profiles, or match them in a batch")
_COMPARE: Final = replace(READ, remedy="compare shorter texts")


@router.post("/match", response_model=MatchOut)
@requires(_MATCH)
async def match_profiles(body: MatchIn, request: Request, engine: EngineDep, answers: AnswersDep) -> Response:
    """Find the profiles nearest to each submission, such as reviewers by their papers, and the reasons."""

    def read() -> Mapping[str, Profile]:
        return kept_profiles(request, body.named, most_papers=MAX_PAPERS)

    def compute(kept: Mapping[str, Profile]) -> Response:
        query = body.to_query(kept)
        reads_text = any(seed.paper_id is None for seed in query.submissions)
        return answers.respond(
            engine, query, lambda: MatchOut.of(match(engine, query)), reads_text=reads_text
        )

    turn: QueuePlace = request.state.turn
    if not body.named:
        return await to_thread.run_sync(compute, {})
    turn.leave(counts=False)  # a silent database holds up no search
    queues = services_of(request.app).queues
    async with queues.storing.place(turn.deadline) as leave:
        return await read_then_compute(QueuePlace(turn.deadline, leave), read, queues.computing, compute)


@router.post("/compare", response_model=CompareOut)
@requires(_COMPARE)
def compare(body: CompareIn, engine: EngineDep, answers: AnswersDep) -> Response:
    """Compare two papers: alignments both ways, by facet, shared words, and what only one of them has."""
    a, b = body.a.to_seed(), body.b.to_seed()
    reads_text = any(seed.paper_id is None for seed in (a, b))

    def answered() -> CompareOut:
        return CompareOut.of(side_by_side(engine, a, b))

    return answers.respond(engine, ("compare", a, b), answered, reads_text=reads_text)
