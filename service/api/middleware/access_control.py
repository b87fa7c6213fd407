"""The checks of every request: caller, rate, body size, place in the queue, deadline."""

import os
from collections.abc import Callable
from contextlib import suppress

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ASGIScope

from models.errors import AkinError, BodyTooLargeError, KeyRefusedError, ScopeMissingError
from service.access.api_keys import Scope
from service.access.in_turn import QueuePlace
from service.access.keys import KeyRing
from service.access.policy import Policy
from service.access.queue import N_STORING, Admission, Queues
from service.access.rate_limit import RateLimits, refusal
from service.api.errors import problem_of
from service.api.middleware.request_body import Bodies, refuse_the_rest
from service.api.middleware.routing import expect_answerable, policy_of
from service.api.services import services_of
from service.cache.redis import RedisStore
from service.context import Deadline, set_deadline
from service.observability.metrics import Metrics
from service.settings import Settings

# Threads besides those that compute: for waits on the database, health checks and error messages.
_SPARE_THREADS = 4 + N_STORING


class AccessControl:
    """The middleware that checks each request, in this order: key, rate, size, queue, deadline.

    The cheapest check comes first, and nothing is read or computed for a request that will be refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        keys: KeyRing,
        metrics: Metrics,
        queues: Queues,
        redis: RedisStore | None = None,
    ) -> None:
        self._app = app
        self._keys = keys
        self._limits = RateLimits(settings.rate, redis=redis) if settings.rate else None
        self._bodies = Bodies()
        self._queues = queues
        metrics.gauge("akin_requests_running", "Requests that compute", lambda: queues.computing.running)
        metrics.gauge("akin_requests_waiting", "Requests in the queue", lambda: queues.computing.waiting)
        metrics.gauge(
            "akin_requests_storing", "Requests that use the database", lambda: queues.storing.running
        )
        metrics.gauge(
            "akin_requests_waiting_to_store",
            "Requests in the queue for the database",
            lambda: queues.storing.waiting,
        )
        self._deadline_s = settings.deadline_s

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Admit one request, or answer it with the problem that refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            policy = policy_of(scope)
            if policy.scope is not None:
                await self._admit(request, policy, policy.scope)
            elif policy.by_address:
                request.state.feed = services_of(request.app).feeds.read(scope["path"].rpartition("/")[2])
                await self._count(request, "feed {} {}".format(*request.state.feed))
            elif policy.identifies:
                with suppress(KeyRefusedError, ScopeMissingError):
                    request.state.caller = self._keys.admit(request, Scope.READ)
            expect_answerable(scope)
            if policy.queue is None:
                await self._app(scope, receive, send)
            else:
                await self._compute(request, receive, send, policy, self._queues.of(policy.queue))
        except BodyTooLargeError as error:
            await refuse_the_rest(problem_of(request, error), scope, receive, send)
        except (AkinError, HTTPException) as error:
            await problem_of(request, error)(scope, receive, send)

    async def _admit(self, request: Request, policy: Policy, needed: Scope) -> None:
        caller = self._keys.identify(request, needed)
        request.state.caller = caller
        if caller.key is not None:
            request.state.key_id = caller.key.id
        caller.expect(needed)  # after the id of the key is set for the log
        if policy.rate_limited:
            await self._count(request, caller.name)

    async def _count(self, request: Request, name: str) -> None:
        """Count a request of a caller; raises RateLimitedError if it exceeds the limit."""
        if self._limits is not None:
            within, allowance = await self._limits.count(name)
            request.state.allowance = allowance.headers()
            if not within:
                raise refusal(allowance)

    async def _compute(
        self, request: Request, receive: Receive, send: Send, policy: Policy, queue: Admission
    ) -> None:
        request.state.queue = queue  # for work that is done after the answer has started
        async with self._bodies.read(request, receive, most=policy.max_body_bytes) as body:
            deadline = Deadline(self._deadline_s, remedy=policy.remedy)
            async with body.watched(deadline), queue.place(deadline) as leave:
                set_deadline(deadline)
                request.state.turn = QueuePlace(deadline, leave)
                await self._app(request.scope, body.receive, _release_on_start(send, leave))


def running_at_once(settings: Settings) -> int:
    """Return how many requests compute at once: at least as many as are encoded together."""
    return max(settings.running or os.cpu_count() or 1, settings.together)


def queues_of(settings: Settings) -> Queues:
    """Return the queues with the numbers of places that ``settings`` give."""
    return Queues(n_running=running_at_once(settings), n_waiting_each=settings.queue)


def size_threads(settings: Settings) -> None:
    """Allow one thread for each request that computes, and some for requests that never wait."""
    to_thread.current_default_thread_limiter().total_tokens = running_at_once(settings) + _SPARE_THREADS


def _release_on_start(send: Send, leave: Callable[[], None]) -> Send:
    """Return a ``send`` that frees the place when the answer starts, so that slow readers hold up nobody."""

    async def send_and_leave(message: Message) -> None:
        leave()
        await send(message)

    return send_and_leave
