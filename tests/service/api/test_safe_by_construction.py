"""What the service never does, whatever it is asked: open pickles, or speak to anybody of its own accord."""

import ast
import shutil
import socket
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import service
from indexer.catalog import CATALOG_FILE
from indexer.keys import Keys, Scope
from service.app import create_app
from service.settings import Settings

PACKAGES = Path(service.__file__).parents[1]
# The one place for published checkpoints, on explicit request and with weights only.
CONVERSION = "models/conversion.py"
# Modules that run what they read, and calls that may.
UNSAFE = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"}
ADDRESS = "http://example.org/paper.pdf"


def test_nothing_that_serves_opens_a_pickle() -> None:
    """No module but the converter imports pickle or its kin, or calls ``torch.load``."""
    found = set()
    for package in ("models", "indexer", "service", "akin"):
        for path in (PACKAGES / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                unsafe = any(name.split(".")[0] in UNSAFE for name in names)
                loads = isinstance(node, ast.Attribute) and ast.unparse(node) in {
                    "torch.load",
                    "np.load.pickle",
                }
                allows = isinstance(node, ast.keyword) and node.arg == "allow_pickle"
                if unsafe or loads or allows:
                    found.add(str(path.relative_to(PACKAGES)))
    assert {CONVERSION} == found


def test_no_request_makes_the_service_speak_to_anybody(
    hashed_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses in ids, texts, filters and headers are text: no name is resolved and no connection opened."""
    data = shutil.copytree(hashed_data, tmp_path / "data")
    with Keys.open(data / CATALOG_FILE) as keys:
        token = keys.create("reader", scope=Scope.READ, expires_days=1).token
    with TestClient(create_app(Settings(data=data, device="cpu")), base_url="http://127.0.0.1") as client:

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("the service spoke to somebody")

        for name in ("connect", "connect_ex", "sendto"):
            monkeypatch.setattr(socket.socket, name, refuse, raising=False)
        for name in ("getaddrinfo", "create_connection", "gethostbyname"):
            monkeypatch.setattr(socket, name, refuse)
        headers = {"Referer": ADDRESS, "X-Forwarded-For": "10.0.0.1", "Origin": ADDRESS, "X-API-Key": token}
        for path, body in (
            ("/v1/search", {"query": {"title": ADDRESS, "abstract": f"See {ADDRESS}. We fit graphs."}}),
            ("/v1/search", {"query": {"paper_id": ADDRESS}}),
            ("/v1/search", {"query": {"text": ADDRESS}, "filters": {"venues": [ADDRESS]}}),
            ("/v1/recommendations", {"seeds": [{"paper_id": ADDRESS}, {"title": "", "abstract": ADDRESS}]}),
            ("/v1/analyze", {"abstract": ADDRESS}),
            ("/graph/v1/paper/batch", {"ids": [f"URL:{ADDRESS}"]}),
            ("/recommendations/v1/papers/", {"positivePaperIds": [f"URL:{ADDRESS}"]}),
        ):
            assert client.post(path, json=body, headers=headers).status_code in {200, 404, 422}
        for path in (
            f"/v1/papers?title={ADDRESS}",
            f"/v1/papers/{ADDRESS}",
            f"/graph/v1/paper/URL:{ADDRESS}",
        ):
            assert client.get(path, headers=headers).status_code in {200, 404}
