"""Tests of JSON bodies, which are measured before they are parsed, and of what runs in a thread for them."""

import asyncio
import inspect
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from models.errors import BodyTooLargeError, InputError
from service.api import bounded_json, json_body
from service.api.bounded_json import MAX_NUMBER_CHARS, MAX_NUMBERS_CHARS, MAX_VALUES, measured, parsed
from service.api.json_body import JSONBodyRoute
from service.app import create_app
from service.settings import Settings
from tests.support.clients import client_of
from tests.support.growing import grows_too_fast

ID = "demo:p00-m00"
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text() | st.text('\\",:[{'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('a\\",:[{'), inner),
)


@pytest.fixture(scope="module")
def client(hashed_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Yield a client of a service over a copy of the demo papers, which receives the batches."""
    data = shutil.copytree(hashed_data, tmp_path_factory.mktemp("bodies") / "data")
    with client_of(data) as client:
        yield client


def n_values(value: object) -> int:
    """Return the number of values and field names."""
    if isinstance(value, dict):
        return 1 + sum(1 + n_values(each) for each in value.values())
    return 1 + sum(map(n_values, value)) if isinstance(value, list) else 1


def n_containers(value: object) -> int:
    """Return the number of lists and objects."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + sum(map(n_containers, inner))


@given(VALUES, st.booleans(), st.integers(2, 20))
def test_values_are_counted_without_being_made(value: object, ascii_alone: bool, size: int) -> None:
    """The count is right for any escapes and pieces, except one value more for each empty list or object."""
    content = json.dumps(value, ensure_ascii=ascii_alone).encode("utf-8", "surrogatepass")
    most, _ = measured(content, piece_bytes=size)
    assert n_values(value) <= most <= n_values(value) + n_containers(value)


@pytest.mark.parametrize("body", [b"[],", b"\\", b'"', b'\\"', b"[[", b"a"])
def test_counting_takes_linear_time(body: bytes) -> None:
    """Counting takes linear time for any content."""
    assert not grows_too_fast(measured, lambda size: b'["' + body * size, size=100_000)


@pytest.mark.parametrize(
    "content",
    [
        b"[" + b"9" * (MAX_NUMBER_CHARS + 1) + b"]",
        b'{"a":-1.' + b"5" * 100_000 + b"e-300}",
        b"[" + b",".join([b"1.2345678901234567"] * (MAX_NUMBERS_CHARS // 18 + 1)) + b"]",
    ],
    ids=["a long number", "one longer than a piece", "many numbers"],
)
def test_numbers_are_bounded_before_they_are_read(content: bytes) -> None:
    """Long numbers and many numbers are refused before parsing, which would block all other threads."""
    with pytest.raises((BodyTooLargeError, InputError)):
        parsed(content)
    assert [10**39, "9" * 100] == parsed(f'[{10**39}, "{"9" * 100}"]'.encode())


def bodies_of(app: FastAPI) -> list[Any]:
    """Return the routes that take a JSON body."""
    return [
        each.original_route
        for each in iter_route_contexts(app.routes)
        if getattr(each.original_route, "body_field", None) is not None
    ]


def lists_in(schema: object) -> Iterator[dict[str, Any]]:
    """Yield the list schemas of a model's core schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "list":
            yield schema
        for each in schema.values():
            yield from lists_in(each)
    elif isinstance(schema, list | tuple):
        for each in schema:
            yield from lists_in(each)


def test_every_body_can_be_read_in_a_thread(tmp_path: Path) -> None:
    """Every route reads a large body outside the event loop, and its lists fail at the first error."""
    routes = bodies_of(create_app(Settings(data=tmp_path)))
    assert len(routes) >= 8
    for route in routes:
        assert isinstance(route, JSONBodyRoute), route.path
        schema = TypeAdapter(route.body_field.field_info.annotation).core_schema
        assert all(each.get("fail_fast") for each in lists_in(schema)), route.path


@pytest.mark.parametrize(("n_spaces", "on_loop"), [(0, True), (4096, False)])
def test_only_small_bodies_are_read_on_the_event_loop(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, n_spaces: int, on_loop: bool
) -> None:
    """A large body is parsed in a thread, so that other requests go on; a small one without that detour."""
    looped = []

    def parsed(content: bytes) -> object:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            looped.append(False)
        else:
            looped.append(True)
        return json.loads(content)

    monkeypatch.setattr(json_body, "parsed", parsed)
    content = json.dumps({"query": {"paper_id": ID}, "limit": 1}).encode() + b" " * n_spaces
    headers = {"Content-Type": "application/json"}
    assert 200 == client.post("/v1/search", content=content, headers=headers).status_code
    assert [on_loop] == looped


def threaded(dependant: Any) -> Iterator[str]:
    """Yield the names of the dependencies that FastAPI runs in a thread."""
    for each in dependant.dependencies:
        if each.call is not None and not inspect.iscoroutinefunction(each.call):
            yield each.call.__name__
        yield from threaded(each)


def test_dependencies_take_no_thread(tmp_path: Path) -> None:
    """Only the dependency that opens the database of saved queries runs in a thread."""
    routes = [each.original_route for each in iter_route_contexts(create_app(Settings(data=tmp_path)).routes)]
    dependants = [route.dependant for route in routes if hasattr(route, "dependant")]
    assert len(dependants) > 30
    assert {"_get_saved"} == {name for dependant in dependants for name in threaded(dependant)}


def post(client: TestClient, content: bytes, kind: str = "application/json") -> tuple[int, str]:
    """Return the status and the detail of a request for a batch."""
    answer = client.post("/v1/batches", content=content, headers={"Content-Type": kind})
    return answer.status_code, answer.json().get("detail", "")


def test_too_many_values_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body with too many values is refused before it is parsed."""

    def none_made(_content: bytes) -> object:
        raise AssertionError

    content = b'{"seeds":[' + b",".join([b"[]"] * MAX_VALUES) + b"]}"
    monkeypatch.setattr(bounded_json, "json", SimpleNamespace(loads=none_made))
    status, detail = post(client, content)
    assert (413, True) == (status, "The body may hold 500,000 values, but has up to" in detail)


def test_a_text_is_one_value(client: TestClient) -> None:
    """Commas, colons and brackets in a text do not count as values."""
    abstract = json.dumps('We show, [that]: "it, holds". ' * 2_000)
    query = b'{"query":{"abstract":' + abstract.encode() + b"}}"
    content = b'{"queries":[' + b",".join([query] * 20) + b"]}"
    assert measured(content)[0] < 200
    assert 422 != post(client, content)[0]


def test_checking_stops_at_the_first_error(client: TestClient) -> None:
    """Only the first error is reported, not one for each of thousands of entries."""
    status, detail = post(client, b'{"seeds":[' + b",".join([b"[]"] * 9_999) + b"]}")
    assert (422, True) == (status, "seeds.0: give the name of a paper" in detail)
    assert "seeds.1" not in detail


@pytest.mark.parametrize(
    ("content", "kind", "status", "said"),
    [
        (b"", "application/json", 422, "must be a JSON object"),
        (b"{", "application/json", 422, "it is not valid JSON from character 1 on"),
        (b'{"seeds": ["a"]}', "text/plain", 422, "sent with Content-Type: application/json"),
        (b'{"seeds": ["a"]}', "application/vnd.a+json; charset=utf-8", 202, ""),
        (b"[" * 100_000, "application/json", 400, "nested too deeply; send it flatter"),
        (b'"\xff"', "application/json", 400, "send it in UTF-8"),
        ('{"seeds": ["a"]}'.encode("utf-16"), "application/json", 400, "send it in UTF-8"),
        ('{"seeds": ["a"]}'.encode("utf-16-be"), "application/json", 400, "send it in UTF-8"),
        ('{"seeds": ["a"]}'.encode("utf-32"), "application/json", 400, "send it in UTF-8"),
        ('{"seeds": ["a"]}'.encode("utf-8-sig"), "application/json", 202, ""),
        (b"1" * 5_000, "application/json", 422, "A number in the body has more than 40"),
        (b"[]", "application/json", 422, "must be a JSON object"),
        (b"null", "application/json", 422, "must be a JSON object"),
    ],
)
def test_what_is_no_body_is_said(
    client: TestClient, content: bytes, kind: str, status: int, said: str
) -> None:
    """A malformed body gets an error that says what a body must be."""
    found, detail = post(client, content, kind)
    assert (status, True) == (found, said in detail), detail
