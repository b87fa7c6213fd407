"""Tests of compiled loops: machine code on disk is used as long as its sources are today's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
_RUN = """
import numpy as np
from indexer.index.backends.nearest import _widen_all, as_bits
from models.transport.compiled import is_on_disk

print(is_on_disk(_widen_all))
wide = np.empty((1, 2), np.float32)
_widen_all(as_bits(np.ones((1, 2), np.float16)), np.array([0]), wide)
print(is_on_disk(_widen_all), len(_widen_all.stats.cache_hits), wide[0, 0])
"""


def test_machine_code_is_stale_after_an_update(tmp_path: Path) -> None:
    """A loop is compiled again if another file, with a loop that it calls, has changed; else it is loaded."""
    for package in ("models", "indexer"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": str(tmp_path)}

    def run() -> str:
        command = [sys.executable, "-c", _RUN]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    assert ("False\nTrue 0 1.0\n", "True\nTrue 1 1.0\n") == (run(), run())
    problem = tmp_path / "models/transport/problem.py"
    text = problem.read_text(encoding="utf-8")
    assert 1 == text.count("2.0**112")
    problem.write_text(text.replace("2.0**112", "2.0**113"), encoding="utf-8")
    assert "False\nTrue 0 2.0\n" == run()
