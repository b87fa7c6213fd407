"""The headers of every response, good or bad: whose answer it is, and what a browser may do with it."""

from typing import Final

from starlette.requests import Request

from service.api.services import services_of

SECURITY: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# For whatever is no page: should a browser be made to show it, nothing in it runs or loads.
NOTHING_RUNS: Final = "default-src 'none'; frame-ancestors 'none'"


def standard_headers(request: Request, media_type: str = "") -> dict[str, str]:
    """What every response carries: the request's id, the generation that answered, and how to treat it."""
    headers = {
        "X-Request-ID": request.state.request_id,
        "X-Akin-Generation": request.state.engine.snapshot.generation,
        **SECURITY,
        **getattr(request.state, "allowance", {}),
    }
    if not media_type.startswith("text/html"):
        headers["Content-Security-Policy"] = NOTHING_RUNS
    if services_of(request.app).draining:
        headers["Connection"] = "close"  # the next request goes to a process that stays
    return headers
