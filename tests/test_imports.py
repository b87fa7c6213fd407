"""What importing a part of Akin loads."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HTTP = {"fastapi", "starlette", "uvicorn", "jinja2"}
CORE = ("service.search.engine", "service.search.query", "service.batches.worker", "akin.local.indexing")


def test_the_core_loads_no_http() -> None:
    """In a fresh interpreter, searching, working on batches and the library need no web framework."""
    code = f"import sys, {', '.join(CORE)}; print(*({HTTP} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "" == done.stdout.strip()


@pytest.mark.parametrize("benchmark", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_import_of_akin(benchmark: Path) -> None:
    """Nothing else runs them, so a name that moved away would show only when somebody measures."""
    missing = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(benchmark.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (ROOT / str(node.module).split(".")[0]).is_dir()
        for alias in node.names
        if not hasattr(importlib.import_module(str(node.module)), alias.name)
    ]
    assert [] == missing
