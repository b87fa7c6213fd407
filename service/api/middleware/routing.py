"""The route of each request, resolved once, before any middleware acts on its policy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import FastAPI, Request
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from models.errors import RouteClosedError
from service.access.policy import UNKNOWN, Policy, declared

UNKNOWN_ROUTE: Final = "unknown"
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f"
_CONTROL: Final = re.compile(f"[{_CONTROLS}]")
PATH_PATTERN: Final = f"^[^{_CONTROLS}]*$"  # of a parameter of a path, for the OpenAPI document
# FastAPI reads all parameters of an address on the event loop, 3 us each, for routes without any, too.
_MAX_PARAMETERS: Final = 5_000
_MAX_PUBLIC_QUERY_BYTES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Route:
    """One route of the application: its pattern, as ``/v1/papers/{paper_id}``, its methods and its policy."""

    target: BaseRoute
    path: str
    methods: frozenset[str]
    policy: Policy | None


@dataclass(frozen=True, slots=True)
class ResolvedRoute:
    """The route that will answer a request.

    ``policy`` is ``None`` for a route that declares none. ``allow`` holds the methods of the path if it does
    not accept the method of the request. ``route`` is ``None`` for a path without a route.
    """

    route: Route | None
    policy: Policy | None
    allow: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The pattern of the route; ``unknown`` if there is none."""
        return UNKNOWN_ROUTE if self.route is None else self.route.path


class RouteTable:
    """The routes that ``app`` has now, in the order in which its router tries them."""

    def __init__(self, app: FastAPI) -> None:
        self.routes: Sequence[Route] = [
            Route(
                target=each.original_route,
                path=each.path_format or UNKNOWN_ROUTE,
                methods=frozenset(each.methods or ()),
                policy=declared(each.endpoint),
            )
            for each in iter_route_contexts(app.routes)
        ]

    def resolve(self, scope: Scope) -> ResolvedRoute:
        """Return the route that the router will choose for ``scope``, by the router's test of each route."""
        partial: list[Route] = []
        for route in self.routes:
            match, _ = route.target.matches(scope)
            if match is Match.FULL:
                return ResolvedRoute(route, _of_query(route.policy, scope))
            if match is Match.PARTIAL:
                partial.append(route)
        if not partial:
            return ResolvedRoute(None, UNKNOWN)
        first = partial[0]
        methods = {name for each in partial if each.path == first.path for name in each.methods}
        methods |= {"HEAD"} if "GET" in methods else set()
        return ResolvedRoute(first, _of_query(first.policy, scope), tuple(sorted(methods)))


class RouteResolution:
    """The middleware outside all that use a policy; it stores the resolved route in the request's state."""

    def __init__(self, app: ASGIApp, *, application: FastAPI) -> None:
        self._app = app
        self._routes = RouteTable(application)  # built when the application starts, and has all its routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Resolve the route of one request and pass it on; close websockets, which have no policy.

        HEAD, which monitors and link checkers send, is handled as GET from here on, and sent without a body.
        """
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            if scope["method"] == "HEAD":
                scope, send = {**scope, "method": "GET"}, _without_body(send)
            Request(scope).state.resolved = self._routes.resolve(scope)
        await self._app(scope, receive, send)


def _without_body(send: Send) -> Send:
    async def send_headers(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_headers


def route_of(scope: Scope) -> ResolvedRoute:
    """Return the resolved route of a request that passed ``RouteResolution``."""
    resolved: ResolvedRoute = Request(scope).state.resolved
    return resolved


def policy_of(scope: Scope) -> Policy:
    """Return the policy of a request.

    Raises HTTPException 400 for a path with control characters or a query that is too long, RouteClosedError
    if the route declares no policy.
    """
    if _CONTROL.search(scope["path"]):
        raise HTTPException(400, "The path contains a control character, which no path of this service has.")
    policy, query = route_of(scope).policy, scope["query_string"]
    if policy is None:
        raise RouteClosedError("This route is closed to everyone: it declares no access policy.")
    if query.count(b"&") >= _MAX_PARAMETERS:
        raise HTTPException(400, f"An address may have at most {_MAX_PARAMETERS:,} parameters.")
    if policy.scope is None and not policy.identifies and len(query) > _MAX_PUBLIC_QUERY_BYTES:
        raise HTTPException(400, f"Here, a query may have at most {_MAX_PUBLIC_QUERY_BYTES:,} bytes.")
    return policy


def expect_answerable(scope: Scope) -> None:
    """Raise HTTPException 404 for a path without a route, 405 if the path does not accept the method."""
    resolved = route_of(scope)
    if resolved.route is None:
        raise HTTPException(404)
    if resolved.allow:
        raise HTTPException(405)


async def expect_resolved(request: Request) -> None:
    """Stop a request that reached a route other than the one whose policy was applied.

    Raises RouteClosedError.
    """
    route = route_of(request.scope).route
    if route is None or request.scope.get("route") is not route.target:
        raise RouteClosedError("The policy applied is not that of the route reached.")


def _of_query(policy: Policy | None, scope: Scope) -> Policy | None:
    if policy is None or policy.without_query is None or scope["query_string"]:
        return policy
    return policy.without_query
