"""``POST /v1/analyze``: the sentences of an abstract with their facets."""

from fastapi import APIRouter

from service.access.policy import READ, requires
from service.api.dependencies.engine import EngineDep
from service.api.json_body import JSONBodyRoute
from service.api.schemas.search.query import PastedIn
from service.api.schemas.search.sentences import AnalyzeOut
from service.resolve.analysis import analyze

router = APIRouter(prefix="/v1", tags=["search"], route_class=JSONBodyRoute)


@router.post("/analyze")
@requires(READ)
def analyze_abstract(body: PastedIn, engine: EngineDep) -> AnalyzeOut:
    """Return the sentences of an abstract, with places and facet probabilities; nothing is stored."""
    return AnalyzeOut.of(analyze(engine.annotator, body.to_paper()))
