"""``POST /v1/recommendations``: many papers in, ranked and explained papers out."""

from fastapi import APIRouter, Response

from service.formats import LIST_FORMATS, Format
from service.recommend import recommend
from service.routes.answers import AnswersDep
from service.routes.engine import EngineDep
from service.routes.formats import VARIES, ListFormatDep, documented, ranked_file
from service.schemas.recommendations import RecommendationsIn, RecommendationsOut

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/recommendations", response_model=RecommendationsOut, responses=documented(*LIST_FORMATS))
def recommendations(
    body: RecommendationsIn, engine: EngineDep, answers: AnswersDep, form: ListFormatDep
) -> Response:
    """Papers akin to the seeds and unlike the negatives, with the sentences that match, seed by seed."""
    query = body.to_query()

    def answered() -> RecommendationsOut:
        return RecommendationsOut.of(recommend(engine, query))

    if form is Format.JSON:
        pasted = any(seed.paper is not None for seed in (*query.seeds, *query.negatives))
        return answers.respond(engine, query, answered, reads_text=pasted, headers=VARIES)
    out = answered()
    return ranked_file(form, out.results, name="akin-recommendations", reason=out.reason)
