"""Tests of compilation: no request waits for a numba loop to be compiled."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.builds import write_corpus

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


def machine_code(folder: Path) -> set[Path]:
    """Return the files of numba's cache folder."""
    return {path for path in folder.rglob("*.nb?") if path.suffix in (".nbi", ".nbc")}


@pytest.mark.system
@pytest.mark.parametrize("way", ["command", "library", "opened"])
def test_the_first_use_has_the_loops_compiled(tmp_path: Path, hashed_data: Path, way: str) -> None:
    """After the first ``akin index``, ``akin.index`` or ``akin.open``, the loops of searches are compiled."""
    papers: list[dict[str, object]] = [
        {"id": f"p{n}", "title": f"Title {n}", "abstract": f"Sentence {n}."} for n in range(3)
    ]
    corpus, data, kept = write_corpus(tmp_path / "c.jsonl", papers), tmp_path / "data", tmp_path / "kept"
    ways = {
        "command": ["-m", "akin", "index", str(corpus), "--data", str(data), "--encoder", "hashing"],
        "library": ["-c", f"import akin; akin.index({str(corpus)!r}, {str(data)!r}, encoder='hashing')"],
        "opened": ["-c", f"import akin; akin.open({str(hashed_data)!r}).close()"],
    }
    environment = os.environ | {"NUMBA_CACHE_DIR": str(kept)}
    subprocess.run([sys.executable, *ways[way]], env=environment, capture_output=True, check=True)
    waited_until = time.monotonic() + 300
    while not any("add_products" in path.name and path.suffix == ".nbi" for path in machine_code(kept)):
        assert time.monotonic() < waited_until, "nothing compiled the loops"
        time.sleep(0.5)
    known = machine_code(kept)
    subprocess.run([sys.executable, "-m", "akin.compiling"], env=environment, check=True)
    assert known == machine_code(kept)


@pytest.mark.system
def test_no_request_compiles_a_loop(hashed_data: Path) -> None:
    """After ``compile_all``, searches, recommendations and suggestions compile no loop."""
    done = subprocess.run(
        [sys.executable, "-c", _REQUESTS, str(hashed_data)], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
