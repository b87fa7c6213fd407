"""Load shedding: a request that cannot be answered in time is refused before any other work on it."""

import time
from typing import Final

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from models.errors import OverloadedError
from service.access.queue import Queues
from service.api.errors import problem_of
from service.api.headers import with_standard_headers
from service.api.middleware.access_log import method_name, request_id
from service.api.middleware.routing import route_of
from service.api.services import services_of
from service.observability.metrics import Metrics

_log = structlog.get_logger(__name__)
_LINE_EVERY_S: Final = 1.0


class LoadShedding:
    """The middleware outside logging and access control: while a queue is full, it refuses cheaply.

    A refusal takes time from the requests that are computed. So no key is checked, no span is made, and one
    line of the log per second says how many requests were refused; the metrics count each of them.
    """

    def __init__(self, app: ASGIApp, *, queues: Queues, deadline_s: float, metrics: Metrics) -> None:
        self._app = app
        self._queues = queues
        self._deadline_s = deadline_s
        self._metrics = metrics
        self._unlogged = 0
        self._logged_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        policy = route_of(scope).policy if scope["type"] == "http" else None
        if policy is not None and policy.queue is not None:
            started = time.perf_counter()
            try:
                self._queues.of(policy.queue).expect_room(self._deadline_s)
            except OverloadedError as error:
                status = await self._refuse(error, scope, receive, send)
                self._count(scope, status, time.perf_counter() - started)
                return
        await self._app(scope, receive, send)

    async def _refuse(self, error: OverloadedError, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer with the problem; return its status."""
        request = Request(scope)
        request.state.request_id = request_id(request.headers)
        request.state.engine = services_of(request.app).collection.engines.current
        response = problem_of(request, error)
        await response(scope, receive, with_standard_headers(send, request))
        return response.status_code

    def _count(self, scope: Scope, status: int, took_s: float) -> None:
        self._metrics.requests.labels(route_of(scope).name, method_name(scope), str(status)).observe(took_s)
        self._metrics.refused("overloaded")
        self._unlogged += 1
        if time.monotonic() - self._logged_at >= _LINE_EVERY_S:
            _log.warning("overloaded", refused=self._unlogged)
            self._unlogged, self._logged_at = 0, time.monotonic()
