"""Tests of hostile inputs: every endpoint answers or returns a small problem without echo, never a 5xx."""

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from service.app import create_app
from service.settings import Settings
from tests.support.servers.asgi import MARK, Answer, Application, Poison, endpoints, raw_path
from tests.support.trials.poison import examples, parameters, poisons, schema_of
from tests.support.trials.settings import print_figure

APP = create_app(Settings(keyless="write"))
ENDPOINTS = endpoints(APP)
MIN_INPUTS = 300
SAMPLED = 25  # every 25th hostile input, others for each endpoint
PASTED = {"title": "Floods", "abstract": "We fit a graph network. It forecasts floods."}
INDEXED = {"paper_id": "demo:p03-m07"}
# Bodies that are answered with results, so that hostile parts of them get as far as they can.
GOOD: dict[str, list[dict[str, Any]]] = {
    "/v1/search": [
        {
            "query": PASTED,
            "sentences": [1],
            "unlike": {"sentences": [0], "weight": 0.5},
            "focus": 0.5,
            "filters": {
                "year_from": 1990,
                "year_to": 2090,
                "venues": ["a"],
                "fields": ["b"],
                "has_facets": ["method"],
            },
            "tau": 1.0,
            "limit": 2,
        },
        {"query": INDEXED, "facet": ["method"], "unlike": {"facet": "background"}, "scorer": "single"},
    ],
    "/v1/recommendations": [
        {
            "seeds": [INDEXED, {**PASTED, "sentences": [0], "weight": 2.0}],
            "negatives": [{"paper_id": "demo:p00-m03", "facet": "method"}],
            "negative_weight": 0.3,
            "strategy": "all",
            "filters": {"year_from": 1990},
            "limit": 2,
        }
    ],
    "/v1/batches": [
        {"queries": [{"query": PASTED, "sentences": [1], "limit": 2}, {"query": INDEXED, "facet": "method"}]},
        {"seeds": [INDEXED["paper_id"]], "unlike": {"sentences": [0]}, "tau": 1.0, "limit": 2},
        {"profiles": [{"name": "a", "papers": ["demo:p01-m02"]}], "negatives": ["demo:p00-m03"], "limit": 2},
        {"match": {"submissions": [INDEXED], "profiles": [{"name": "a", "papers": ["demo:p01-m02"]}]}},
    ],
    "/v1/match": [
        {
            "submissions": [INDEXED, PASTED],
            "profiles": [
                {"name": "a", "papers": ["demo:p01-m02"], "conflicts": ["demo:p01-m03"]},
                {"name": "b", "papers": ["demo:p02-m02"], "quota": 2},
            ],
            "conflicts": [{"submission": 0, "profile": "a"}],
            "assign": {"per_submission": 1, "per_profile": 1},
        }
    ],
    "/v1/compare": [{"a": INDEXED, "b": PASTED}],
    "/v1/embed": [{"papers": [PASTED]}],
    "/v1/queries": [
        {"name": "floods", "search": {"query": PASTED, "sentences": [1], "limit": 2}},
        {"name": "graphs", "recommendations": {"seeds": [INDEXED], "negatives": ["demo:p00-m03"]}},
    ],
    "/v1/analyze": [PASTED],
    "/v1/sentences/search": [
        {"query": {"text": "We fit a graph network."}, "filters": {"year_from": 1990}, "limit": 2},
        {"query": {"paper_id": "demo:p03-m07", "sentence": 1}, "facet": ["method"]},
    ],
    "/recommendations/v1/papers/": [
        {"positivePaperIds": ["demo:p03-m07"], "negativePaperIds": ["demo:p00-m03"]}
    ],
    "/graph/v1/paper/batch": [{"ids": ["demo:p03-m07", "DOI:10.1/a"]}],
}


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, hashed_data: Path) -> Iterator[Application]:
    """Yield the service over a copy of the demo collection, as some endpoints write."""
    yield from serving(hashed_data, tmp_path_factory.mktemp("poisoned"))


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, hashed_data: Path) -> Iterator[Application]:
    """Yield the service over another copy, without names taken by hostile inputs."""
    yield from serving(hashed_data, tmp_path_factory.mktemp("good"))


def serving(collection: Path, folder: Path) -> Iterator[Application]:
    """Yield the service over a copy of a collection."""
    data = shutil.copytree(collection, folder / "data")
    with Application(create_app(Settings(data=data, keyless="write", device="cpu", rate=0))) as application:
        yield application


def bodies(method: str, path: str) -> list[Any]:
    """Return bodies that an endpoint accepts, from ``GOOD`` or else made by its schema."""
    schema = schema_of(APP, method, path)
    if schema is None:
        return []
    return list(GOOD.get(path) or [examples(schema, APP.openapi()["components"]["schemas"])])


@pytest.mark.parametrize("path", GOOD)
def test_what_is_poisoned_is_good_without(untouched: Application, path: str) -> None:
    """The bodies in ``GOOD`` are answered without an error."""
    for body in GOOD[path]:
        answer = untouched.send("POST", path.encode(), Poison("none", (json.dumps(body).encode(),)))
        assert answer.status in {200, 201, 202}, answer.content


def faults(answer: Answer) -> Iterator[str]:
    """Yield the faults of an answer to a hostile request."""
    if "x-injected" in answer.headers:
        yield "a header of the client's making"
    if answer.status >= 500:
        yield f"status {answer.status}"
    if answer.status < 400:
        return
    if answer.headers.get("content-type") != "application/problem+json":
        yield f"{answer.status} as {answer.headers.get('content-type')}"
        return
    if len(answer.content) > 4096:
        yield f"{len(answer.content)} bytes"
    if MARK.encode() in answer.content or any(MARK in value for value in answer.headers.values()):
        yield "repeats the input"
    if not {"type", "title", "status", "detail", "request_id"} <= set(json.loads(answer.content)):
        yield "incomplete"


@pytest.mark.parametrize("one_in", [SAMPLED, pytest.param(1, marks=pytest.mark.trial)])
@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_no_input_breaks_an_endpoint(application: Application, method: str, path: str, one_in: int) -> None:
    """Hundreds of hostile inputs get no 5xx; every error is a problem of at most 4 kB without echo."""
    wrong, n = [], 0
    first = ENDPOINTS.index((method, path)) % one_in
    for poison in islice(poisons(bodies(method, path), parameters(APP, method, path)), first, None, one_in):
        answer = application.send(method, raw_path(path, poison), poison)
        found = list(faults(answer))
        wrong += [f"{poison.name}: {', '.join(found)} {answer.content[:200]!r}"] if found else []
        n += 1
    print_figure(f"{method} {path}: {n:,} hostile inputs, {len(wrong)} answered wrongly")
    assert n >= MIN_INPUTS // one_in
    assert [] == wrong
