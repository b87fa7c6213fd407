"""Tests of what importing a part of Akin loads, and of the shape checks that tests run with."""

import ast
import importlib
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import TypeCheckError

import akin
from models.encoder import Encoder
from models.transport.problem import nearest_distances
from tests.support.builds import build_quietly, many_papers, write_corpus

ROOT = Path(__file__).parents[1]
HTTP = {"fastapi", "starlette", "uvicorn", "jinja2"}
DATABASES = {"sqlalchemy", "alembic", "psycopg"}
SLOW = {"faiss", "huggingface_hub", "numba", "scipy", "sqlalchemy.dialects.postgresql", "torch"}
QUICK = ("collection.maintenance", "collection.snapshots", "collection.status", "serving.keys")
CORE = ("service.search.engine", "service.search.query", "service.batches.worker", "akin.local.indexing")


@pytest.fixture
def data(tmp_path: Path, hashing: Encoder) -> Path:
    """A small collection."""
    build_quietly(write_corpus(tmp_path / "c.jsonl", many_papers(10)), tmp_path / "data", hashing)
    return tmp_path / "data"


@pytest.mark.system
def test_the_core_loads_no_http() -> None:
    """In a fresh interpreter, search, the batch worker and local indexing import no web framework."""
    code = f"import sys, {', '.join(CORE)}; print(*({HTTP} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "" == done.stdout.strip()


def test_small_commands_load_nothing_slow() -> None:
    """In a fresh interpreter, commands that encode and search nothing load what they need alone."""
    code = (
        f"import sys, {', '.join(f'akin.cli.{name}' for name in QUICK)}; print(*({SLOW} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "" == done.stdout.strip()


def test_importing_akin_needs_no_packages() -> None:
    """In a fresh interpreter without a package, `import akin` works, and a name says what to install."""
    code = """
import sys

sys.modules |= dict.fromkeys(("faiss", "httpx", "numpy", "pydantic", "torch"))  # as if they were missing
import akin

for name in sorted({*akin.__all__} - {"AkinError", "ServiceError"}):
    try:
        getattr(akin, name)
        print(name)
    except akin.AkinError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *missing, retries, index, opened = done.stdout.splitlines()
    assert ["akin.AsyncClient", "akin.Client", "akin.Collection"] == [line.split()[0] for line in missing]
    install = f'pip install "akin[local]=={version("akin")}"'
    assert all(line.endswith(install) for line in (*missing, index, opened))
    assert "Retries" == retries  # needs the standard library alone


def test_akin_has_all_that_it_lists_and_nothing_else() -> None:
    """Each public name of `akin` is found, and any other raises AttributeError."""
    found = {name: getattr(akin, name).__name__ for name in akin.__all__}
    assert {name: name for name in akin.__all__} | {"open": "open_collection"} == found
    with pytest.raises(AttributeError, match="no attribute 'Colection'"):
        _ = akin.Colection


@pytest.mark.system
def test_searching_loads_no_database(data: Path) -> None:
    """In a fresh interpreter, a collection is opened and searched without the packages of catalogs."""
    code = f"""
import sys
from pathlib import Path
from service.collection.generations import open_engine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

engine = open_engine(Settings(data=Path({str(data)!r}), device="cpu"))
print(len(engine.search(SearchQuery((Seed("p1"),), limit=3)).results), *({DATABASES} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "3" == done.stdout.strip()


@pytest.mark.system
def test_a_client_loads_no_numpy() -> None:
    """In a fresh interpreter, the client and the service's export of answers need no numpy."""
    used = "import sys, akin, service.api.exports; akin.AsyncClient, akin.Client"
    code = f"{used}; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False" == done.stdout.strip()


def test_reading_a_tagger_loads_no_compiler() -> None:
    """In a fresh interpreter; torch's compiler takes longer to load than all other imports of a tagger."""
    code = """
import sys
from models.facets import SHIPPED_WEIGHTS, read_tagger

names = [read_tagger(path).spec.name for path in SHIPPED_WEIGHTS.glob("facets-*")]
print(*names, "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"facets-minilm", "facets-surface", "False"} == set(done.stdout.split())


BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=[str(path.relative_to(ROOT)) for path in BENCHMARKS])
def test_benchmarks_find_what_they_import_of_akin(benchmark: Path) -> None:
    """Nothing else runs the benchmarks, so a moved name would only be noticed at the next measurement."""
    missing = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(benchmark.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (ROOT / str(node.module).split(".")[0]).is_dir()
        for alias in node.names
        if not is_there(str(node.module), alias.name)
    ]
    assert [] == missing


def is_there(module: str, name: str) -> bool:
    """Return whether ``module`` has an attribute or a submodule ``name``."""
    return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None


def test_a_wrong_shape_is_found() -> None:
    """The first call in a test of a function that states shapes is checked (``tests/shapes.py``)."""
    rows, offsets = np.zeros((3, 4), np.float32), np.array([0, 3], np.int64)
    with pytest.raises(TypeCheckError):
        nearest_distances(np.zeros((2, 5), np.float32), rows, offsets)
