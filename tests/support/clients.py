"""Clients of a service in the process of the test."""

from pathlib import Path
from typing import Any

import httpx
from fastapi.testclient import TestClient

from akin.client.client import Client
from service.app import create_app
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import DEFAULTS, Timings


def client_of(
    data: Path,
    engine: SearchEngine | None = None,
    *,
    address: str = "127.0.0.1",
    timings: Timings = DEFAULTS,
    **settings: object,
) -> TestClient:
    """Return a client at ``address`` of a service over ``data``, or over ``engine`` with keys in ``data``."""
    app = create_app(Settings(data=data, **settings), engine, timings=timings)  # type: ignore[arg-type]  # keywords pass through
    return TestClient(app, client=(address, 50_000))


class _Through(httpx.BaseTransport):
    def __init__(self, client: TestClient) -> None:
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._client.request(
            request.method, str(request.url), content=request.read(), headers=dict(request.headers)
        )
        kept = {name: value for name, value in answer.headers.items() if name != "content-encoding"}
        return httpx.Response(answer.status_code, headers=kept, content=answer.content)


def python_client(client: TestClient) -> Client:
    """Return Akin's client for the service behind a test client."""
    return Client(str(client.base_url), transport=_Through(client))


def search(client: TestClient, **body: Any) -> dict[str, Any]:
    """Return the answer to a search that must succeed."""
    response = client.post("/v1/search", json=body)
    assert 200 == response.status_code, response.text
    answer: dict[str, Any] = response.json()
    return answer
