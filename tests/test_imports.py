"""What importing a part of Akin loads."""

import subprocess
import sys

import pytest

HTTP = {"fastapi", "starlette", "uvicorn", "jinja2"}


@pytest.mark.parametrize(
    "module", ["service.search.engine", "service.search.query", "service.batches.worker"]
)
def test_the_core_loads_no_http(module: str) -> None:
    """In a fresh interpreter, searching, recommending and working on batches need no web framework."""
    code = f"import sys, {module}; print(*({HTTP} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "" == done.stdout.strip()
