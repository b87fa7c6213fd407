"""The access log: one line, metrics and a span for each request, without its content."""

import re
import time
import uuid
from dataclasses import dataclass
from typing import Final

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.errors import problem_of_ours
from service.api.headers import with_standard_headers
from service.api.middleware.routing import route_of
from service.api.services import services_of
from service.context import Stages, set_stages
from service.observability.metrics import Metrics
from service.observability.tracing import Spans, describe

CLIENT_GONE: Final = 499  # nginx's status for it; no client sees it
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# A UUID, or an id made by a proxy: it cannot hold a message, so it may be logged and sent back.
_GIVEN_ID: Final = re.compile(r"[0-9a-f-]{16,64}", re.ASCII)
_log = structlog.get_logger(__name__)


class AccessLog:
    """The middleware that gives each request its id and its stages, and logs and counts its outcome."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, spans: Spans) -> None:
        self._app = app
        self._metrics = metrics
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, then log it, count it and end its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        request.state.request_id = request_id(request.headers)
        # One engine for the whole request, even if the snapshot is swapped meanwhile.
        request.state.engine = services_of(request.app).collection.engines.current
        stages = Stages(self._metrics.stage_ended, self._spans.stage)
        # Neither is reset afterwards: a server runs each request in a context of its own.
        structlog.contextvars.bind_contextvars(request_id=request.state.request_id)
        set_stages(stages)
        exchange = _Exchange(receive, send)
        send = with_standard_headers(exchange.send, request)
        route = route_of(scope).name
        method = method_name(scope)
        traceparent = request.headers.get("traceparent", "")
        started = time.perf_counter()
        with (
            self._metrics.in_flight.track_inprogress(),
            self._spans.request(f"{method} {route}", traceparent) as span,
        ):
            try:
                await self._app(scope, exchange.receive, send)
                exchange.ended = True
            except Exception as error:  # noqa: BLE001 - servers log messages, which may hold what was sent
                fault = problem_of_ours(request, error)
                if exchange.started:
                    raise ConnectionAbortedError("A response ended early; the log has the reason.") from None
                await fault(scope, receive, send)
            finally:
                took_s = time.perf_counter() - started
                outcome = _Outcome(route, method, exchange.status, exchange.problem(request))
                self._metrics.requests.labels(route, method, str(outcome.status)).observe(took_s)
                self._metrics.refused(outcome.error)
                describe(span, {**outcome.fields(), "request_id": request.state.request_id})
                _log_line(request, outcome, exchange.generation, took_s=took_s, stages=stages)


def _log_line(
    request: Request, outcome: "_Outcome", generation: str, *, took_s: float, stages: Stages
) -> None:
    """Write the line of the log; at level debug for successful probes, of which there are many."""
    policy = route_of(request.scope).policy
    quiet = policy is not None and policy.quiet
    (_log.debug if quiet and outcome.status < 500 else _log.info)(
        "request",
        **outcome.fields(),
        **({"key": request.state.key_id} if hasattr(request.state, "key_id") else {}),
        generation=generation,
        duration_ms=round(took_s * 1000, 2),
        queue_ms=round(stages.seconds.get("queue", 0.0) * 1000, 2),
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The requested route and the outcome of a request; ``error`` is empty if there was none."""

    route: str
    method: str
    status: int
    error: str

    def fields(self) -> dict[str, str | int]:
        """Return these fields by their names in logs and spans; ``error`` only if there was one."""
        fields: dict[str, str | int] = {"route": self.route, "method": self.method, "status": self.status}
        return fields | ({"error": self.error} if self.error else {})


class _Exchange:
    """The messages of one request and its answer; ``ended`` once the application has finished with both."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._answered = False
        self._gone = False
        self._status = 500
        self._bytes_due: int | None = None  # of the answer, if its length is known
        self.started = False
        self.ended = False
        self.generation = ""

    @property
    def status(self) -> int:
        """The status of the answer; CLIENT_GONE if the client did not wait for it."""
        return CLIENT_GONE if self._gone else self._status

    def problem(self, request: Request) -> str:
        """Return the stable part of the type of the problem, or an empty string if there was none."""
        if self._gone:
            return "client-gone"
        return str(getattr(request.state, "problem", "" if self.ended else "internal"))

    async def receive(self) -> Message:
        """Return the next message of the client."""
        message = await self._receive()
        # A client may disconnect once it has its answer.
        self._gone |= message["type"] == "http.disconnect" and not self._answered
        return message

    async def send(self, message: Message) -> None:
        """Pass on a message of the answer."""
        if message["type"] == "http.response.start":
            self.started = True
            self._status = message["status"]
            headers = Headers(raw=message["headers"])
            self.generation = headers.get("x-akin-generation", "")
            self._bytes_due = int(headers["content-length"]) if "content-length" in headers else None
        else:
            if self._bytes_due is not None:
                self._bytes_due -= len(message.get("body", b""))
            self._answered |= self._bytes_due == 0 or not message.get("more_body", False)
        await self._send(message)


def request_id(headers: Headers) -> str:
    """Return the id given by a proxy if it is valid, else a new one."""
    given = headers.get("x-request-id", "")
    return given if _GIVEN_ID.fullmatch(given) else uuid.uuid4().hex


def method_name(scope: Scope) -> str:
    """Return the method under which a request is counted: one of a fixed few, whatever is sent."""
    return scope["method"] if scope["method"] in _METHODS else "other"
