"""Tests of the OpenAPI document, which is short enough to read and to generate clients from."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.settings import Settings


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the document, which needs no collection."""
    return create_app(Settings()).openapi()


def test_it_is_short(document: dict[str, Any]) -> None:
    """The document has fewer than 6,000 characters per operation."""
    n_operations = sum(map(len, document["paths"].values()))
    assert len(json.dumps(document)) < 6_000 * n_operations


def test_it_names_the_version(document: dict[str, Any]) -> None:
    """The document has the version that `akin --version` prints."""
    assert version("akin") == document["info"]["version"]


def test_no_module_shows(document: dict[str, Any]) -> None:
    """No two schemas share a name, because then their names would contain modules."""
    assert not [name for name in document["components"]["schemas"] if "__" in name]


def test_errors_are_described_once(document: dict[str, Any]) -> None:
    """All errors are references to shared responses with their headers and the schema of a problem."""
    responses = document["components"]["responses"]
    used = {
        response["$ref"].removeprefix("#/components/responses/")
        for operations in document["paths"].values()
        for operation in operations.values()
        for status, response in operation["responses"].items()
        if status >= "400"
    }
    assert set(responses) == used
    problem = {"$ref": "#/components/schemas/ProblemOut"}
    assert problem == responses["Problem503"]["content"]["application/problem+json"]["schema"]
    assert {"X-Request-ID", "Retry-After"} <= set(responses["Problem503"]["headers"])
    assert {"type", "title", "status", "detail"} <= set(
        document["components"]["schemas"]["ProblemOut"]["required"]
    )


@pytest.mark.parametrize("result", ["ResultOut", "RecommendationOut"])
def test_a_missing_strength_is_explained(document: dict[str, Any], result: str) -> None:
    """The description of ``strength`` says which queries, and which collections, have none."""
    strength = document["components"]["schemas"][result]["properties"]["strength"]["description"]
    for reason in ("16 papers", "`focus`", "`tau`", "`specificity`", "`words`", "`coverage`"):
        assert reason in strength


@pytest.mark.parametrize(
    ("request_body", "part", "kinds"),
    [
        ("SearchIn", "query", {"IndexedIn", "PastedIn", "TextIn"}),
        ("SentenceSearchIn", "query", {"IndexedSentenceIn", "SentenceTextIn"}),
        ("RecommendationsIn", "seeds", {"IndexedSeedIn", "PastedSeedIn", "TextSeedIn"}),
    ],
)
def test_kinds_of_queries_are_schemas_of_their_own(
    document: dict[str, Any], request_body: str, part: str, kinds: set[str]
) -> None:
    """Each kind of query is a schema without the fields of the other kinds."""
    given = document["components"]["schemas"][request_body]["properties"][part]
    given = given.get("items", given)
    named = {each["$ref"].rpartition("/")[2] for each in given["oneOf"] if "$ref" in each}
    assert kinds == named
    for kind in kinds:
        schema = document["components"]["schemas"][kind]
        assert schema["additionalProperties"] is False
        assert 1 == len({"paper_id", "abstract", "text"} & set(schema["required"]))


def test_everything_is_described(document: dict[str, Any]) -> None:
    """The service, its tags, each operation and each parameter have a description."""
    assert "POST /v1/search" in document["info"]["description"]
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            assert {*operation["tags"]} <= described, (method, path)
            for parameter in operation.get("parameters", []):
                assert parameter.get("description"), (method, path, parameter["name"])


def test_no_two_operations_have_one_title(document: dict[str, Any]) -> None:
    """No two operations have the same summary, so a list of them as in ``/docs`` is unambiguous."""
    titles = [each["summary"] for path in document["paths"].values() for each in path.values()]
    assert len(titles) == len(set(titles)), sorted(titles)


def test_the_document_is_written_once(hashed_data: Path) -> None:
    """The document is made at the first request and kept; another root path gets its own."""
    app = create_app(Settings(data=hashed_data, device="cpu"))
    written = app.written("")
    assert written is app.written("")
    with TestClient(app) as client:
        assert written == client.get("/openapi.json").content
    assert [{"url": "/akin"}] == orjson.loads(app.written("/akin"))["servers"]


def test_every_example_is_answered(hashed_data: Path, tmp_path: Path) -> None:
    """Every request body has examples, and the service accepts each of them."""
    data = shutil.copytree(hashed_data, tmp_path / "data")
    with TestClient(create_app(Settings(data=data, device="cpu", keyless="write"))) as client:
        for path, operations in client.get("/openapi.json").json()["paths"].items():
            for method, operation in operations.items():
                content = operation.get("requestBody", {"content": {}})["content"]
                for form in content.values():
                    assert form.get("examples"), f"{method} {path} has no example: service/api/examples.py"
                    for name, example in form["examples"].items():
                        answer = client.request(method, path, json=example["value"])
                        # No query is saved under the name in the path.
                        expected = {404} if "{query_id}" in path else {200, 201, 202}
                        assert answer.status_code in expected, (path, name, answer.text)
                        assert example["summary"]
