"""Machine code: no request waits for a loop to be compiled."""

import subprocess
import sys
from pathlib import Path

import pytest

_REQUESTS = """
import gc
import sys

from fastapi.testclient import TestClient
from numba.core.dispatcher import Dispatcher

from akin.compiling import compile_all
from models.transport import Scorer
from service.app import create_app
from service.settings import Settings


def compiled():
    loops = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    names = [f"{loop.py_func.__module__}.{loop.py_func.__qualname__}" for loop in loops]
    return {
        (name, str(types))
        for name, loop in zip(names, loops)
        if name.startswith(("models.", "indexer.", "service."))
        for types in loop.signatures
    }


compile_all()
known = compiled()
assert known
PAPER, OTHER, MISTYPED = ({"paper_id": f"demo:{name}"} for name in ("p03-m07", "p00-m01", "p03-m0"))
with TestClient(create_app(Settings(data=sys.argv[1], device="cpu"))) as client:

    def ask(path, body):
        client.post(path, json=body).raise_for_status()

    for scorer in Scorer:
        ask("/v1/search", {"query": PAPER, "scorer": scorer})
    for more in ({"facet": "method"}, {"sentences": [0, 2]}, {"limit": 60, "include": []}):
        ask("/v1/search", {"query": PAPER, **more})
    ask("/v1/search", {"query": {"text": "We sort ropes. A rope is long."}})
    ask("/v1/recommendations", {"seeds": [PAPER, OTHER, MISTYPED], "negatives": [{"text": "It works."}]})
    ask("/v1/match", {"submissions": [PAPER], "profiles": [{"name": "r", "papers": [OTHER["paper_id"]]}]})
    client.get("/v1/papers/suggest", params={"prefix": "Pockt Predictors Undrestand"}).raise_for_status()
late = compiled() - known
assert not late, late
"""


@pytest.mark.system
def test_no_request_compiles_a_loop(hashed_data: Path) -> None:
    """After ``python -m akin.compiling`` searches, recommendations and ids meet only types that it met."""
    done = subprocess.run(
        [sys.executable, "-c", _REQUESTS, str(hashed_data)], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
