"""Tests that no request makes the service open a pickle or a connection to another machine."""

import shutil
import socket
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import service
from indexer.files.data_folder import CATALOG_FILE
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.settings import Settings
from tests.support.pickles import opens_pickles

PACKAGES = Path(service.__file__).parents[1]
# The only exception, for published checkpoints: on explicit request, and with weights_only.
CONVERSION = "models/checkpoints/conversion.py"
ADDRESS = "http://example.org/paper.pdf"


def test_nothing_that_serves_opens_a_pickle() -> None:
    """No module except the converter names a function or module that can open a pickle."""
    found = {
        str(path.relative_to(PACKAGES))
        for package in ("models", "indexer", "service", "akin")
        for path in (PACKAGES / package).rglob("*.py")
        if opens_pickles(path.read_text(encoding="utf-8"))
    }
    assert {CONVERSION} == found


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "import pickle as p",
        "import os, _pickle",
        "import joblib.numpy_pickle",
        "from dill import loads as read",
        "def late():\n    from cloudpickle import load",
        "import torch\ntorch.load('a')",
        "import torch as t\nread = t.load",
        "import torch.serialization as s\ns.load('a')",
        "from torch import load",
        "from torch import load as read",
        "from torch import *",
        "from torch import serialization as s\ns.load('a')",
        "import torch\ngetattr(torch, 'load')('a')",
        "import importlib as i\ni.import_module('pickle')",
        "from importlib import import_module as get\nget('joblib.numpy_pickle')",
        "__import__('pickle')",
        "from pkgutil import resolve_name\nresolve_name('pickle:loads')",
        "import pandas as pd\npd.read_pickle('a')",
        "import numpy as np\nnp.load('a', allow_pickle=True)",
        "from numpy import load\nload('a', None, True)",
        "import numpy as np\nnp.load('a', **options)",
    ],
)
def test_each_way_to_open_a_pickle_is_seen(code: str) -> None:
    """This holds under any local name and for an import anywhere in the module."""
    assert opens_pickles(code)


@pytest.mark.parametrize(
    "code",
    [
        "import json\njson.load(stream)",
        "import numpy as np\nnp.load('a', mmap_mode='r')",
        "import torch\ntorch.tensor([1])\nmodel.load('a')",
        "from safetensors.torch import load_file as load\nload('a')",
        "text = 'import pickle'",
    ],
)
def test_what_opens_none_is_left_alone(code: str) -> None:
    """Other functions called load, and similar words in a string, are not reported."""
    assert not opens_pickles(code)


def test_no_request_makes_the_service_speak_to_anybody(
    hashed_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses in ids, texts, filters and headers are only text: nothing is resolved or connected to."""
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
