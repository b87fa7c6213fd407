"""``POST /v1/analyze``: an abstract in, its sentences and what each does out."""

from fastapi import APIRouter

from service.analysis import analyze
from service.json_body import JSONBodyRoute
from service.policy import READ, requires
from service.routes.engine import EngineDep
from service.schemas.sentences import AnalyzeIn, AnalyzeOut

router = APIRouter(prefix="/v1", tags=["search"], route_class=JSONBodyRoute)


@router.post("/analyze")
@requires(READ)
def analyze_abstract(body: AnalyzeIn, engine: EngineDep) -> AnalyzeOut:
    """The sentences of an abstract with their places and how probable each facet is; nothing is kept."""
    return AnalyzeOut.of(analyze(engine.annotator, body.to_paper()))
