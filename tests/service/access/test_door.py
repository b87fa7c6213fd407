"""What keeps a request out: keys, scopes, rates, sizes, and an origin that is not allowed."""

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from models.encoder import Encoder
from models.errors import KeyRefusedError, OverloadedError
from service.access.api_keys import Keys, Scope
from service.access.keys import Caller, KeyRing, is_loopback
from service.access.policy import MAX_BATCH_BYTES, MAX_BODY_BYTES
from service.api.middleware.request_body import Bodies
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.clients import client_of

BODY = {"query": {"paper_id": "demo:p03-m07"}, "limit": 1}


@pytest.fixture
def engine(hashed_data: Path) -> SearchEngine:
    """An engine over the demo corpus whose answers need no encoder."""

    def none_loaded() -> Encoder:
        raise AssertionError("no test here pastes a paper")

    return SearchEngine(open_snapshot(hashed_data), none_loaded, n_candidates=50)  # type: ignore[arg-type]  # never called


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Keys]:
    """The keys of the folder that ``settings`` names."""
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        yield keys


def test_with_a_key_there_is_no_way_around_it(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """Once a key exists, what is not health or the interface's description asks for one, as a problem."""
    token = keys.create("reader", scope=Scope.READ, expires_days=1).token
    with client_of(tmp_path, engine) as client:
        for path in ("/livez", "/readyz", "/openapi.json"):
            assert 200 == client.get(path).status_code
        refused = client.post("/v1/search", json=BODY)
        assert (401, "urn:akin:problem:key-refused") == (refused.status_code, refused.json()["type"])
        assert "Bearer" in refused.headers["WWW-Authenticate"]
        for path in ("/v1/papers/demo:p03-m07", "/nowhere", "//v1/papers/x", "/livez/", "/redoc"):
            assert 401 == client.get(path).status_code
        for headers in (
            {"Authorization": f"Bearer {token}"},
            {"x-api-key": token},
            {"Authorization": f"bearer {token}"},
        ):
            assert 200 == client.post("/v1/search", json=BODY, headers=headers).status_code
        for wrong in (token[:-1], token + "x", "", token.split("_", 2)[2], "x" * 100_000):
            assert 401 == client.post("/v1/search", json=BODY, headers={"x-api-key": wrong}).status_code


def test_every_documented_path_but_health_needs_a_key(
    engine: SearchEngine, keys: Keys, tmp_path: Path
) -> None:
    """No endpoint of the document answers without a key, those added later included."""
    keys.create("a", scope=Scope.READ, expires_days=1)
    with client_of(tmp_path, engine) as client:
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            for method in methods:
                # Where Semantic Scholar's clients ask, a key that is missing is 403, as there.
                expected = {200} if path in {"/livez", "/readyz"} else {401, 403}
                # Who reads a feed shows by its address that they may, which this is not.
                expected = {404} if path == "/v1/feeds/{token}" else expected
                assert client.request(method, path).status_code in expected, path


def test_an_expired_or_revoked_key_is_refused(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """A key past its last second, or revoked, opens nothing, and the service does not open up again."""
    a_day_ago = Keys(keys.database, clock=lambda: time.time() - 86_401.0)
    token, ended = (each.create("a", scope=Scope.ADMIN, expires_days=1).token for each in (keys, a_day_ago))
    with client_of(tmp_path, engine) as client:
        assert 200 == client.post("/v1/search", json=BODY, headers={"x-api-key": token}).status_code
        assert 401 == client.post("/v1/search", json=BODY, headers={"x-api-key": ended}).status_code
    keys.revoke("a")
    with client_of(tmp_path, engine) as client:
        assert 401 == client.post("/v1/search", json=BODY, headers={"x-api-key": token}).status_code
        assert 401 == client.post("/v1/search", json=BODY).status_code


def test_keys_are_those_of_the_file_that_is_there(tmp_path: Path) -> None:
    """A copy that is put in the place of the database counts at the next look, what is revoked in it too."""
    place, copy = tmp_path / CATALOG_FILE, tmp_path / "copy"
    with Keys.open(place) as keys:
        token = keys.create("reader", scope=Scope.READ, expires_days=1).token
    shutil.copy(place, copy)
    with Keys.open(copy) as keys:
        keys.revoke("reader")
    ring = KeyRing(place)
    ring.read()
    assert ring.any_usable(), token
    copy.replace(place)
    ring.read()
    assert not ring.any_usable()
    ring.close()


def test_a_key_expires_while_the_service_runs(keys: Keys, tmp_path: Path) -> None:
    """At its last second it opens nothing any more, though nobody read the keys anew."""
    token, now = keys.create("a", scope=Scope.READ, expires_days=1).token, [time.time()]
    ring = KeyRing(tmp_path / CATALOG_FILE, clock=lambda: now[0])
    ring.read()
    request = Request({"type": "http", "headers": [(b"x-api-key", token.encode())]})
    assert ring.admit(request, Scope.READ).key is not None
    now[0] += 86_401.0
    with pytest.raises(KeyRefusedError, match="expired"):
        ring.admit(request, Scope.READ)
    ring.close()


def test_a_key_to_read_changes_nothing(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """What would change the collection needs the scope ingest: 403 with read, past the door with ingest."""
    read = keys.create("r", scope=Scope.READ, expires_days=1).token
    ingest = keys.create("i", scope=Scope.INGEST, expires_days=1).token
    with client_of(tmp_path, engine) as client:
        for method, path in (("POST", "/v1/papers"), ("POST", "/v1/papers/"), ("DELETE", "/v1/papers/x")):
            refused = client.request(method, path, headers={"x-api-key": read})
            assert (403, "urn:akin:problem:scope-missing") == (refused.status_code, refused.json()["type"])
            assert client.request(method, path, headers={"x-api-key": ingest}).status_code in {
                404,
                405,
                422,
                503,
            }


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8000", 200), ("::1", "[::1]:8000", 200), ("127.8.9.1", "localhost", 200),
        ("testclient", "testserver", 200), ("192.0.2.7", "127.0.0.1", 401), ("2001:db8::1", "localhost", 401),
        ("127.0.0.1", "evil.example.org", 401), ("127.0.0.1", "evil.example.org:8000", 401),
    ],
)  # fmt: skip
def test_without_keys_only_this_machine_is_answered(
    engine: SearchEngine, tmp_path: Path, address: str, host: str, status: int
) -> None:
    """No key: loopback alone, by no name that a web site could point here, whatever server runs it."""
    with client_of(tmp_path, engine, address=address) as client:
        answer = client.post("/v1/search", json=BODY, headers={"Host": host})
        assert status == answer.status_code
        if status == 401:
            assert "akin keys create" in answer.json()["detail"]


def test_loopback_is_this_machine_alone() -> None:
    """Only addresses that no other machine reaches count as loopback."""
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    everywhere = "0.0.0.0"  # noqa: S104 - which is the point
    assert not any(map(is_loopback, (everywhere, "::", "", "10.0.0.1", "example.org", "localhost.a.org")))


def test_a_caller_above_its_rate_waits(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """The sixth of five requests a minute gets 429 with Retry-After; another key has its own five."""
    tokens = [keys.create(name, scope=Scope.READ, expires_days=1).token for name in "ab"]
    with client_of(tmp_path, engine, rate=5) as client:
        for token in tokens:
            answers = [client.get("/v1/papers/demo:p03-m07", headers={"x-api-key": token}) for _ in range(6)]
            assert [200] * 5 + [429] == [answer.status_code for answer in answers]
            assert ["4", "3", "2", "1", "0", "0"] == [a.headers["RateLimit-Remaining"] for a in answers]
            assert {"5"} == {answer.headers["RateLimit-Limit"] for answer in answers}
            assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
            assert "urn:akin:problem:rate-limited" == answers[-1].json()["type"]
        assert 200 == client.get("/livez").status_code


def test_rate_zero_is_no_limit(engine: SearchEngine, tmp_path: Path) -> None:
    """With 0 nothing is counted and nothing is said about limits."""
    with client_of(tmp_path, engine, rate=0) as client:
        assert "RateLimit-Limit" not in client.get("/v1/papers/demo:p03-m07").headers


def test_a_large_body_is_refused(engine: SearchEngine, tmp_path: Path) -> None:
    """One byte above the limit gets 413, declared or in parts; at the limit it is read."""
    assert (2_000_000, 32_000_000) == (MAX_BODY_BYTES, MAX_BATCH_BYTES)  # docs/how-to/serving.md

    def parts(n_bytes: int) -> Iterator[bytes]:
        for start in range(0, n_bytes, 100_000):
            yield b" " * min(100_000, n_bytes - start)

    json_type = {"Content-Type": "application/json"}
    with client_of(tmp_path, engine) as client:
        for content in (b" " * (MAX_BODY_BYTES + 1), parts(MAX_BODY_BYTES + 1)):
            refused = client.post("/v1/search", content=content, headers=json_type)
            assert (413, "close") == (refused.status_code, refused.headers["Connection"])
        assert 422 == client.post("/v1/search", content=parts(MAX_BODY_BYTES), headers=json_type).status_code


def test_an_empty_content_encoding_is_none(engine: SearchEngine, tmp_path: Path) -> None:
    """A header without a value says nothing; one that names a compression is refused."""
    with client_of(tmp_path, engine) as client:
        for value, status in (("", 200), ("identity", 200), ("gzip", 415)):
            answer = client.post("/v1/search", json=BODY, headers={"Content-Encoding": value})
            assert status == answer.status_code, value


def test_large_bodies_of_one_caller_keep_nobody_else_out() -> None:
    """While one sends all the large bodies it may, others send small ones and large ones; it gets 503."""
    bodies, million = Bodies(), 1_000_000

    async def send(caller: str, n_bytes: int, *, unfinished: bool = False) -> None:
        parts = [{"type": "http.request", "body": bytes(n_bytes), "more_body": unfinished}]

        async def receive() -> dict[str, object]:
            if not parts:
                await anyio.sleep_forever()
            return parts.pop()

        request = Request({"type": "http", "headers": [], "state": {"caller": Caller(caller, None)}})
        async with bodies.read(request, receive, most=32 * million) as body:  # type: ignore[arg-type]  # a Message
            assert n_bytes == len((await body.receive())["body"])

    async def ask() -> None:
        async with anyio.create_task_group() as held:
            for n_bytes in (32 * million, *[2 * million] * 4):
                held.start_soon(partial(send, "a", n_bytes, unfinished=True))
            await anyio.wait_all_tasks_blocked()
            assert 40 * million == bodies.held
            with pytest.raises(OverloadedError):
                await send("a", 1)
            await send("b", 24 * million)
            with pytest.raises(OverloadedError):
                await send("b", 25 * million)
            held.start_soon(partial(send, "b", 24 * million, unfinished=True))
            await anyio.wait_all_tasks_blocked()
            await send("c", 2 * million)
            with pytest.raises(OverloadedError):
                await send("c", 3 * million)
            held.cancel_scope.cancel()

    anyio.run(ask)
    assert 0 == bodies.held


def test_a_timeout_of_the_application_is_not_that_of_the_body() -> None:
    """Whatever else takes too long is not told as a body that did not arrive."""

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def answer() -> None:
        request = Request({"type": "http", "headers": [], "state": {}})
        async with Bodies().read(request, receive, most=10) as body:
            assert b"{}" == (await body.receive())["body"]
            raise TimeoutError("of the application")

    with pytest.raises(TimeoutError, match="of the application"):
        anyio.run(answer)


def test_every_response_is_marked_as_it_should_be_treated(engine: SearchEngine, tmp_path: Path) -> None:
    """Good, refused, unknown and broken: each forbids sniffing, framing, referrers and running anything."""
    with client_of(tmp_path, engine) as client:
        answers = [client.get(path) for path in ("/livez", "/nowhere", "/v1/papers/demo:p03-m07")]
        answers.append(client.post("/v1/search", json={}))
        for answer in answers:
            assert ("nosniff", "DENY", "no-referrer") == tuple(
                answer.headers[name]
                for name in ("X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy")
            )
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert not {"server", "x-powered-by"} & set(answer.headers)
            assert "private, no-cache" == answer.headers["Cache-Control"]


def test_other_origins_are_allowed_one_by_one(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """By default no page of another origin is let in; a named one may ask, without a key for asking first."""
    keys.create("a", scope=Scope.READ, expires_days=1)
    origin = {"Origin": "https://a.example"}
    with client_of(tmp_path, engine) as client:
        assert "access-control-allow-origin" not in client.get("/livez", headers=origin).headers
    allowed = "https://a.example, https://b.example"
    with client_of(tmp_path, engine, cors_origins=allowed) as client:
        asking = {
            **origin,
            "Access-Control-Request-Headers": "authorization",
        }
        for method in ("POST", "PUT", "DELETE"):
            asking["Access-Control-Request-Method"] = method
            assert 200 == client.options("/v1/profiles/mine", headers=asking).status_code
        refused = client.post("/v1/search", json=BODY, headers=origin)
        assert (401, "https://a.example") == (
            refused.status_code,
            refused.headers["access-control-allow-origin"],
        )
        other = client.get("/livez", headers={"Origin": "https://c.example"})
        assert "access-control-allow-origin" not in other.headers


def test_monitors_may_ask_for_the_headers_alone(engine: SearchEngine, tmp_path: Path) -> None:
    """HEAD has the status and the headers of GET, and no body; where GET is not taken it is not either."""
    varying = {"x-request-id", "server-timing", "content-length", "date"}
    with client_of(tmp_path, engine, rate=0) as client:
        for path in ("/", "/livez", "/readyz", "/docs", "/nowhere", "/?paper=demo:p03-m07"):
            head, got = client.head(path), client.get(path)
            assert (got.status_code, b"") == (head.status_code, head.content)
            same = [
                {name: value for name, value in each.headers.items() if name not in varying}
                for each in (head, got)
            ]
            assert same[0] == same[1]
        refused = client.head("/v1/search")
        assert (405, "POST", b"") == (refused.status_code, refused.headers["Allow"], refused.content)


def test_a_trailing_slash_is_no_redirect(engine: SearchEngine, tmp_path: Path) -> None:
    """No answer sends a client to an address made from what it sent."""
    with client_of(tmp_path, engine) as client:
        assert 404 == client.post("/v1/search/", json=BODY, follow_redirects=False).status_code


def test_a_fault_of_ours_logs_no_key(
    engine: SearchEngine,
    keys: Keys,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The traceback of an unexpected error is logged, by a logger left as it comes, without the key."""
    token = keys.create("a", scope=Scope.READ, expires_days=1).token

    def fail(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("service.search.engine.SearchEngine.search", fail)
    app = create_app(Settings(data=tmp_path), engine)
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.post("/v1/search", json=BODY, headers={"x-api-key": token})
    assert 500 == answer.status_code
    logged = "".join(capfd.readouterr())
    assert "RuntimeError" in logged
    assert token not in logged
