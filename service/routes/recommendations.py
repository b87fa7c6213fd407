"""``POST /v1/recommendations``: many papers in, ranked and explained papers out."""

from fastapi import APIRouter, Response

from service.formats import LIST_FORMATS, Format
from service.recommend import recommend
from service.routes.engine import EngineDep
from service.routes.formats import ListFormatDep, documented, ranked_file
from service.schemas.recommendations import RecommendationsIn, RecommendationsOut

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/recommendations", response_model=RecommendationsOut, responses=documented(*LIST_FORMATS))
def recommendations(
    body: RecommendationsIn, engine: EngineDep, form: ListFormatDep
) -> RecommendationsOut | Response:
    """Papers akin to the seeds and unlike the negatives, with the sentences that match, seed by seed."""
    out = RecommendationsOut.of(recommend(engine, body.to_query()))
    if form is Format.JSON:
        return out
    return ranked_file(form, out.results, name="akin-recommendations", reason=out.reason)
