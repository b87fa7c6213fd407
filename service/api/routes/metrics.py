"""``GET /metrics``: metrics for Prometheus."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from service.access.policy import METRICS, requires
from service.api.services import services_of

router = APIRouter(tags=["operations"])


@router.get("/metrics", response_class=PlainTextResponse)
@requires(METRICS)
def metrics(request: Request) -> Response:
    """Return counts and durations in Prometheus' text format; needs a key to read, never waits in a queue."""
    return Response(services_of(request.app).metrics.exposition(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
