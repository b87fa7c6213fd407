"""The OpenAPI document: short enough to read and to generate clients from."""

import json
from typing import Any

import pytest

from service.app import create_app
from service.settings import Settings


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document, which needs no collection."""
    return create_app(Settings()).openapi()


def test_it_is_short(document: dict[str, Any]) -> None:
    """What all operations share stands in it once."""
    assert len(json.dumps(document)) < 120_000


def test_no_module_shows(document: dict[str, Any]) -> None:
    """Two shapes with one name would go by their modules, which are nobody's business."""
    assert not [name for name in document["components"]["schemas"] if "__" in name]


def test_errors_are_described_once(document: dict[str, Any]) -> None:
    """Each is a reference to a response that there is, with its headers and the shape of a problem."""
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
