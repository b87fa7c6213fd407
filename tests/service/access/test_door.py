"""Tests of what refuses a request: keys, scopes, rates, sizes and origins."""

import re
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
from models.errors import InputError, KeyRefusedError, OverloadedError, StorageError
from service.access.api_keys import Keys, Scope
from service.access.keys import Caller, KeyRing, is_loopback
from service.access.policy import MAX_BATCH_BYTES, MAX_BODY_BYTES
from service.api.middleware.request_body import Bodies
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings, settings_of
from tests.support.clients import client_of

BODY = {"query": {"paper_id": "demo:p03-m07"}, "limit": 1}


@pytest.fixture
def engine(hashed_data: Path) -> SearchEngine:
    """Return an engine over the demo corpus that needs no encoder for the searches of these tests."""

    def none_loaded() -> Encoder:
        raise AssertionError("no test here pastes a paper")

    return SearchEngine(open_snapshot(hashed_data), none_loaded, n_candidates=50)  # type: ignore[arg-type]  # never called


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Keys]:
    """Yield the keys of the folder that ``settings`` names."""
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        yield keys


def test_with_a_key_there_is_no_way_around_it(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """If a key exists, everything except health and the OpenAPI document requires one."""
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


def test_a_bearer_token_that_is_no_key_hides_none(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """If a proxy adds a key to a user's own bearer token, the key counts; two keys: the bearer's."""
    token, revoked = (keys.create(name, scope=Scope.READ, expires_days=1).token for name in "ab")
    keys.revoke("b")
    with client_of(tmp_path, engine) as client:
        for bearer, key, status in (
            ("eyJhbGciOiJIUzI1NiJ9.e30.x", token, 200),
            ("x" * 10_000, token, 200),
            ("", token, 200),
            ("eyJhbGciOiJIUzI1NiJ9.e30.x", "", 401),
            ("eyJhbGciOiJIUzI1NiJ9.e30.x", revoked, 401),
            (token, "of something else", 200),
            (revoked, token, 401),
        ):
            headers = {"Authorization": f"Bearer {bearer}", "X-API-Key": key}
            assert status == client.post("/v1/search", json=BODY, headers=headers).status_code, (bearer, key)


def test_every_documented_path_but_health_needs_a_key(
    engine: SearchEngine, keys: Keys, tmp_path: Path
) -> None:
    """Every path of the OpenAPI document except health requires a key, even one added later."""
    keys.create("a", scope=Scope.READ, expires_days=1)
    with client_of(tmp_path, engine) as client:
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            for method in methods:
                # On Semantic Scholar's routes a missing key is 403, as there.
                expected = {200} if path in {"/livez", "/readyz"} else {401, 403}
                # A feed is authorized by its path, and this is not the path of one.
                expected = {404} if path == "/v1/feeds/{token}" else expected
                assert client.request(method, path).status_code in expected, path


def test_an_expired_or_revoked_key_is_refused(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """An expired or revoked key is refused, and the service does not become keyless again."""
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
    """If a copy replaces the database, its keys apply from the next read on."""
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


def test_keys_stay_known_while_the_file_that_holds_them_is_copied(tmp_path: Path) -> None:
    """A missing file means no keys only if there were none: nobody gets in while it is replaced."""
    place, copy = tmp_path / CATALOG_FILE, tmp_path / "copy"
    with Keys.open(place) as keys:
        keys.create("reader", scope=Scope.READ, expires_days=1)
    shutil.copy(place, copy)
    ring = KeyRing(place)
    ring.read()
    half = tmp_path / "half"
    half.write_bytes(copy.read_bytes()[:5_000])
    half.replace(place)
    with pytest.raises(StorageError):
        ring.read()
    place.unlink()
    with pytest.raises(StorageError, match="is missing"):
        ring.read()
    assert ring.any_usable()
    copy.replace(place)
    ring.read()
    assert ring.any_usable()
    ring.close()


def test_a_key_expires_while_the_service_runs(keys: Keys, tmp_path: Path) -> None:
    """A key expires on time, even if the keys are not read again."""
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
    """With a key to read, changes are a 403; with a key to ingest they pass the check."""
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
    """Without keys only loopback is answered, and only under host names that no web site can use."""
    with client_of(tmp_path, engine, address=address) as client:
        answer = client.post("/v1/search", json=BODY, headers={"Host": host})
        assert status == answer.status_code
        if status == 401:
            assert "akin keys create" in answer.json()["detail"]


def test_loopback_is_this_machine_alone() -> None:
    """Only addresses that no other machine can reach are loopback."""
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    everywhere = "0.0.0.0"  # noqa: S104 - which is the point
    assert not any(map(is_loopback, (everywhere, "::", "", "10.0.0.1", "example.org", "localhost.a.org")))


def test_a_caller_above_its_rate_waits(engine: SearchEngine, keys: Keys, tmp_path: Path) -> None:
    """With 5 requests a minute the sixth gets 429 with Retry-After; another key has a limit of its own."""
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
    """With a rate of 0 there is no limit and no header about one."""
    with client_of(tmp_path, engine, rate=0) as client:
        assert "RateLimit-Limit" not in client.get("/v1/papers/demo:p03-m07").headers


def test_a_large_body_is_refused(engine: SearchEngine, tmp_path: Path) -> None:
    """A body one byte above the limit gets 413, its length declared or not; at the limit it is read."""
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
    """An empty Content-Encoding is ignored; one that names a compression gets 415."""
    with client_of(tmp_path, engine) as client:
        for value, status in (("", 200), ("identity", 200), ("gzip", 415)):
            answer = client.post("/v1/search", json=BODY, headers={"Content-Encoding": value})
            assert status == answer.status_code, value


def test_large_bodies_of_one_caller_keep_nobody_else_out() -> None:
    """A caller that sends all the large bodies it may gets 503 for more, while others can still send."""
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
    """A ``TimeoutError`` of the application is not reported as one of the body."""

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
    """Good and bad responses have the headers against sniffing, framing, referrers, caching and scripts."""
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
    """Only listed origins get CORS headers, and their preflight requests need no key."""
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
    """HEAD has the status and headers of GET without the body, and is a 405 if GET is one."""
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
    """A trailing slash is a 404, not a redirect to an address made from the request."""
    with client_of(tmp_path, engine) as client:
        assert 404 == client.post("/v1/search/", json=BODY, follow_redirects=False).status_code


def test_a_fault_of_ours_logs_no_key(
    engine: SearchEngine,
    keys: Keys,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The traceback of an unexpected error is logged without the key."""
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


@pytest.mark.parametrize(
    "origin",
    [
        "https://a.org/",
        "a.org",
        "https://A.org",
        "https://a.org/page",
        "https://u@a.org",
        "https://",
        "null",
        "**",
    ],
)
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    """An entry of `AKIN_CORS_ORIGINS` that could never match is an error that shows it and the right form."""
    with pytest.raises(
        InputError, match=rf"AKIN_CORS_ORIGINS: '{re.escape(origin)}' is not an origin such as"
    ):
        settings_of(cors_origins=f"https://b.org:8080, {origin}")
    assert 3 == len(settings_of(cors_origins="*, http://[::1]:3000,chrome-extension://abc,").cors_origin_list)
