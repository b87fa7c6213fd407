"""Headers of every response."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import Message, Send

from service.api.services import services_of

SECURITY: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# For every response that is not a page: even if a browser shows it, nothing in it runs or loads.
NOTHING_RUNS: Final = "default-src 'none'; frame-ancestors 'none'"


def with_standard_headers(send: Send, request: Request) -> Send:
    """Return a ``send`` that adds the standard headers that the response to ``request`` does not have."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _standard_headers(request, headers.get("content-type", "")).items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _standard_headers(request: Request, media_type: str) -> dict[str, str]:
    """Return the headers of every response: request id, generation, allowance, caching and security."""
    headers = {
        "X-Request-ID": request.state.request_id,
        "X-Akin-Generation": request.state.engine.snapshot.generation,
        # No shared cache may store an answer that was given for a key, which a proxy may have added.
        "Cache-Control": "private, no-cache",
        **SECURITY,
        **getattr(request.state, "allowance", {}),
    }
    if not media_type.startswith("text/html"):
        headers["Content-Security-Policy"] = NOTHING_RUNS
    if services_of(request.app).draining:
        headers["Connection"] = "close"  # so that the next request goes to another process
    return headers
