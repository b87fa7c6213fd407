"""What importing a part of Akin loads."""

import subprocess
import sys

HTTP = {"fastapi", "starlette", "uvicorn", "jinja2"}
CORE = ("service.search.engine", "service.search.query", "service.batches.worker")


def test_the_core_loads_no_http() -> None:
    """In a fresh interpreter, searching, recommending and working on batches need no web framework."""
    code = f"import sys, {', '.join(CORE)}; print(*({HTTP} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "" == done.stdout.strip()
