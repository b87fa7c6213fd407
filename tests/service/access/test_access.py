"""Tests that no spelling of a request's path changes what its route requires of the caller."""

import http.client
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.testclient import TestClient
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from models.errors import InputError
from service.access.api_keys import Keys, Scope
from service.access.feeds import FeedOf, FeedTokens
from service.access.policy import declared
from service.api.middleware.routing import ResolvedRoute, RouteTable, expect_resolved
from service.app import create_app
from service.search.engine import SearchEngine
from service.secret import Secret
from service.settings import Settings, settings_of
from tests.support.servers.loopback import served

REACHED = 418  # the answer of every route in the sweep, instead of its work
ROOT = "/akin"
SECRET = "s" * 32
FEED = FeedTokens(Secret(SECRET.encode(), shared=True)).write(FeedOf("A" * 22, 1))
GIVEN = {
    "{paper_id}": "demo:p03-m07",
    "{batch_id}": "b0",
    "{query_id}": "q0",
    "{token}": FEED,
    "{ending}": "csv",
    "{version}": "v",
    "{name}": "n",
}
NO_ROUTES = ("PATCH", "OPTIONS")  # methods that no route takes
SPELLINGS = {
    "plain": lambda path: path,
    "trailing newline": lambda path: f"{path}%0A",
    "trailing carriage return": lambda path: f"{path}%0d",
    "inner tab": lambda path: path[:2] + "%09" + path[2:],
    "encoded slash": lambda path: "/" + path[1:].replace("/", "%2F"),
    "encoded letter": lambda path: path[:1] + f"%{ord(path[1]):02x}" + path[2:] if path[1:] else path,
    "double slash": lambda path: "/" + path,
    "inner double slash": lambda path: "/" + path[1:].replace("/", "//"),
    "closing slash": lambda path: path + "/",
    "dot segment": lambda path: "/." + path,
    "parent segment": lambda path: "/livez/.." + path,
    "encoded parent segment": lambda path: "/livez/%2e%2e" + path,
    "static parent segment": lambda path: "/static/x/.." + path,
    "root path twice": lambda path: ROOT + path,
    "upper case": lambda path: path.upper(),
    "empty query": lambda path: path + "?",
    "parameters": lambda path: path + ";x=1",
}
# Spellings with which a path still names its route, for the router and for the policy.
SAME = ("plain", "encoded slash", "encoded letter", "empty query")


@dataclass(frozen=True)
class Swept:
    """A service whose routes answer ``REACHED``: its address, keys by scope, and the routes reached."""

    app: FastAPI
    connection: http.client.HTTPConnection
    tokens: dict[Scope | None, str]
    reached: list[object]

    def ask(self, method: str, target: str, scope: Scope | None) -> tuple[int, list[object]]:
        """Return the status of a request with a key of ``scope``, and the endpoints that it reached."""
        self.reached.clear()
        self.connection.putrequest(method, target)
        if scope is not None:
            self.connection.putheader("x-api-key", self.tokens[scope])
        self.connection.putheader("content-length", "0")
        self.connection.endheaders()
        answer = self.connection.getresponse()
        answer.read()
        return answer.status, list(self.reached)


def engine_of(data: Path) -> SearchEngine:
    """Return an engine that needs no encoder for the searches of these tests."""
    return SearchEngine(open_snapshot(data), lambda: None, n_candidates=50)  # type: ignore[arg-type, return-value]  # never loaded


def keyless_client(data: Path, folder: Path, **given: object) -> TestClient:
    """Return a client, on the same machine, of a service without keys."""
    app = create_app(Settings(data=folder, **given), engine_of(data))  # type: ignore[arg-type]  # keywords pass through
    return TestClient(app, client=("127.0.0.1", 50_000))


@pytest.fixture(scope="module")
def swept(hashed_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Swept]]:
    """Yield a function that returns the service behind a root path, starting each service once."""
    services: dict[str, Swept] = {}
    with ExitStack() as started:

        def behind(root_path: str) -> Swept:
            if root_path not in services:
                service = sweeping(hashed_data, tmp_path_factory.mktemp("swept"), root_path=root_path)
                services[root_path] = started.enter_context(service)
            # The server closes idle connections; the next request opens another.
            services[root_path].connection.close()
            return services[root_path]

        yield behind


@contextmanager
def sweeping(hashed_data: Path, folder: Path, *, root_path: str) -> Iterator[Swept]:
    """Yield a service behind ``root_path``, with a key of each scope."""
    with Keys.open(folder / CATALOG_FILE) as keys:
        tokens = {scope: keys.create(scope, scope=scope, expires_days=1).token for scope in Scope}
    app = create_app(Settings(data=folder, rate=0, secret=SECRET), engine_of(hashed_data))
    reached: list[object] = []

    async def stop(request: Request) -> None:
        reached.append(request.scope["endpoint"])
        raise HTTPException(REACHED)

    # Replaces the check that the policy applied is that of the route reached, which must hold without it.
    app.dependency_overrides[expect_resolved] = stop
    with served(app, root_path=root_path) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
        with closing(connection):
            yield Swept(app, connection, dict(tokens), reached)


def paths(app: FastAPI) -> list[tuple[str, str]]:
    """Return every method and path of the router, after checking that they include those of OpenAPI."""
    of_router = {(m, route.path) for route in RouteTable(app).routes for m in route.methods}
    documented = {(m.upper(), path) for path, methods in app.openapi()["paths"].items() for m in methods}
    assert documented <= of_router
    return sorted(of_router)


def concrete(pattern: str) -> str:
    """Return a path that follows a pattern."""
    for name, value in GIVEN.items():
        pattern = pattern.replace(name, value)
    assert "{" not in pattern, f"give {pattern} a value in GIVEN"
    return pattern


def allowed(needed: Scope | None, given: Scope | None) -> bool:
    """Return whether a key of the scope ``given`` is enough for a route that requires ``needed``."""
    return needed is None or (given is not None and given.includes(needed))


@pytest.mark.parametrize(
    ("root_path", "whole"), [("", False), (ROOT, False), pytest.param("", True, marks=pytest.mark.trial)]
)
def test_no_spelling_of_a_path_reaches_a_route_past_its_scope(
    swept: Callable[[str], Swept], root_path: str, whole: bool
) -> None:
    """For every route, method, scope and spelling, a route reached requires no more than the key's scope.

    For spellings other than the plain one, methods are tried with scopes in turn, and so are the methods
    that a path does not take; the trial tries every method with every scope.
    """
    scopes = (None, Scope.READ, Scope.INGEST)  # no route requires more
    service = swept(root_path)
    routes = paths(service.app)
    taken = {method for method, _ in routes} | {"HEAD"}
    assert taken.isdisjoint(NO_ROUTES)
    others = cycle([(method, scope) for method in sorted(taken) for scope in scopes])
    in_turn = cycle(scopes)
    no_routes = cycle([(method, Scope.INGEST) for method in NO_ROUTES])
    for path in sorted({path for _, path in routes}):
        own = {method for method, its in routes if its == path}
        for spelling, spelt in SPELLINGS.items():
            some = scopes if whole or spelling == "plain" else (next(in_turn),)
            own |= {"HEAD"} if "GET" in own else set()
            requests = [(method, scope) for method in sorted(own) for scope in some]
            # A root path changes the path looked up for all methods alike, so a path's own methods will do.
            if whole:
                requests += [(method, scope) for method in sorted(taken - own) for scope in scopes]
                requests += [(method, Scope.INGEST) for method in NO_ROUTES]
            elif not root_path:
                requests += [next(others), next(no_routes)]
            # With a query, because the page at "/" requires less without one.
            target = spelt(concrete(path))
            target += "" if "?" in target else "?text=x"
            for method, scope in requests:
                status, reached = service.ask(method, target, scope)
                case = (root_path, path, spelling, method, scope, status)
                assert status in {REACHED, 400, 401, 403, 404, 405}, case
                assert (status == REACHED) == bool(reached), case
                assert method in taken or status in {400, 404, 405}, case
                for endpoint in reached:
                    policy = declared(endpoint)
                    assert policy is not None, case
                    assert allowed(policy.scope, scope) or target.endswith("?"), case


@pytest.mark.parametrize("root_path", ["", ROOT])
def test_a_route_asks_for_the_scope_it_declares(swept: Callable[[str], Swept], root_path: str) -> None:
    """If the spelling names the route, exactly the keys with the scope that the route declares reach it."""
    service = swept(root_path)
    policies = {(m, r.path): r.policy for r in RouteTable(service.app).routes for m in r.methods}
    for method, path in paths(service.app):
        policy = policies[method, path]
        assert policy is not None, f"{method} {path} declares no policy"
        for spelling in SAME:
            target = SPELLINGS[spelling](concrete(path))
            # Without a query, the page shows only what everyone may see.
            needed = policy.scope if policy.without_query is None else policy.without_query.scope
            for scope in (None, *Scope):
                for requested in (method, "HEAD") if method == "GET" else (method,):
                    status, _ = service.ask(requested, target, scope)
                    reaches = allowed(needed, scope)
                    assert reaches == (status == REACHED), (requested, target, scope, status)
                    assert reaches or status in {401, 403}, (requested, target, scope, status)


def test_a_path_with_a_control_character_is_refused(swept: Callable[[str], Swept]) -> None:
    """A path with a control character, encoded in any way, is a 400 for every key."""
    service = swept("")
    for code in (*range(0x20), 0x7F):
        for target in (f"/v1/papers%{code:02x}", f"/v1/papers%{code:02X}/x", f"/livez%{code:02x}"):
            for scope in (None, Scope.ADMIN):
                assert (400, []) == service.ask("POST", target, scope), target
    assert (400, []) == service.ask("GET", "/v1/papers/%C2%85", Scope.ADMIN)


def test_a_query_that_would_hold_up_others_is_refused(swept: Callable[[str], Swept]) -> None:
    """Before a parameter is read: 5,000 are too many everywhere, and 2,000 bytes where no key is needed."""
    service = swept("")
    most, many = "&".join(["x"] * 5_000), "&".join(["x"] * 5_001)
    for path in ("/livez", "/library", "/v1/papers", "/?text=a&"):
        assert (400, []) == service.ask("GET", f"{path}?{many}", Scope.ADMIN), path
    assert REACHED == service.ask("GET", f"/v1/papers?{most}", Scope.ADMIN)[0]
    assert REACHED == service.ask("GET", f"/library?{most}", None)[0]
    assert REACHED == service.ask("GET", f"/livez?{'%' * 2_000}", None)[0]
    assert (400, []) == service.ask("GET", f"/livez?{'%' * 2_001}", None)


def test_a_route_that_declares_nothing_is_denied(hashed_data: Path, tmp_path: Path) -> None:
    """A route without a policy answers 403 to every key, and its endpoint never runs."""
    ran: list[str] = []
    router = APIRouter()
    router.add_api_route("/v1/undeclared", lambda: ran.append("ran"))
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        token = keys.create("root", scope=Scope.ADMIN, expires_days=1).token
    app = create_app(Settings(data=tmp_path), engine_of(hashed_data))
    app.include_router(router)
    app.add_route("/v1/bare", lambda _: ran.append("ran"))  # type: ignore[arg-type]  # it never answers
    with TestClient(app) as client:
        for path in ("/v1/undeclared", "/v1/bare"):
            for headers in ({}, {"x-api-key": token}):
                answer = client.get(path, headers=headers)
                assert (403, "urn:akin:problem:route-closed") == (answer.status_code, answer.json()["type"])
        app.add_route("/v1/late", lambda _: ran.append("ran"))  # type: ignore[arg-type]  # it never answers
        assert 404 == client.get("/v1/late", headers={"x-api-key": token}).status_code
    assert [] == ran


def test_no_websocket_is_opened(hashed_data: Path, tmp_path: Path) -> None:
    """No websocket is accepted, even if there is a route for it, because websockets have no policy."""
    app = create_app(Settings(data=tmp_path), engine_of(hashed_data))

    async def greet(socket: WebSocket) -> None:
        await socket.accept()

    app.router.routes.append(WebSocketRoute("/v1/socket", greet))
    with (
        TestClient(app) as client,
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/v1/socket"),
    ):
        pass


def test_a_route_reached_past_its_policy_does_not_run(
    hashed_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the policy of another route were applied, the route reached would still refuse the request."""
    app = create_app(Settings(data=tmp_path), engine_of(hashed_data))
    livez = next(route for route in RouteTable(app).routes if route.path == "/livez")
    monkeypatch.setattr(RouteTable, "resolve", lambda *_: ResolvedRoute(livez, livez.policy))
    with TestClient(app) as client:
        assert 200 == client.get("/livez").status_code
        refused = client.get("/v1/papers/demo:p03-m07")
        assert (403, "urn:akin:problem:route-closed") == (refused.status_code, refused.json()["type"])


@pytest.mark.parametrize("header", ["Forwarded", "Via", "X-Forwarded-Port", "X-Real-IP", "CF-Connecting-IP"])
def test_without_keys_no_proxy_is_answered(hashed_data: Path, tmp_path: Path, header: str) -> None:
    """Without keys, requests from a proxy on this machine are refused, because others may have sent them."""
    with keyless_client(hashed_data, tmp_path) as client:
        assert 200 == client.get("/v1/papers/demo:p03-m07").status_code
        assert 401 == client.get("/v1/papers/demo:p03-m07", headers={header: "127.0.0.1"}).status_code


@pytest.mark.parametrize(
    ("keyless", "reading", "writing"), [(None, 200, 401), ("off", 401, 401), ("read", 200, 401)]
)
def test_without_keys_nothing_is_written(
    hashed_data: Path, tmp_path: Path, keyless: str | None, reading: int, writing: int
) -> None:
    """Without keys the service is read-only by default, or closed with ``AKIN_KEYLESS=off``."""
    given = {} if keyless is None else {"keyless": keyless}
    with keyless_client(hashed_data, tmp_path, **given) as client:
        assert reading == client.get("/v1/papers/demo:p03-m07").status_code
        answers = [
            client.post("/v1/papers", json={"papers": [{"id": "a", "title": "T", "abstract": "A b c."}]}),
            client.delete("/v1/papers/demo:p03-m07"),
        ]
        assert [writing] * 2 == [answer.status_code for answer in answers]
        assert all("akin keys create" in answer.json()["detail"] for answer in answers)


def test_without_keys_writing_is_a_choice(hashed_data: Path, tmp_path: Path) -> None:
    """``AKIN_KEYLESS=write`` allows this machine to write, and no other."""
    body = {"papers": [{"id": "a", "title": "T", "abstract": "A b c."}]}
    data = tmp_path / "data"
    shutil.copytree(hashed_data, data)
    with keyless_client(data, data, keyless="write") as client:
        assert 202 == client.post("/v1/papers", json=body).status_code
        assert 401 == client.post("/v1/papers", json=body, headers={"Via": "1.1 proxy"}).status_code
    with pytest.raises(InputError, match="AKIN_KEYLESS"):
        settings_of(keyless="yes")


def test_the_document_names_the_scope_of_each_operation(swept: Callable[[str], Swept]) -> None:
    """In OpenAPI, each operation has the scope that its route declares; open routes have none."""
    service = swept("")
    policies = {(m, r.path): r.policy for r in RouteTable(service.app).routes for m in r.methods}
    for path, operations in service.app.openapi()["paths"].items():
        for method, operation in operations.items():
            policy = policies[method.upper(), path]
            assert policy is not None
            scopes = {scope for each in operation["security"] for of in each.values() for scope in of}
            assert scopes == ({policy.scope.value} if policy.scope else set()), (method, path)
