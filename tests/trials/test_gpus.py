"""Tests of the real faiss-gpu without a GPU, and of the whole GPU benchmark on a CPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builds import ROOT

# FAISS refuses the device only after it has accepted every argument.
CALLS = """
import threading

import faiss

from indexer.index.backends import gpu

assert faiss.get_num_gpus() == 0
own = gpu.Gpu(0, faiss.StandardGpuResources(), threading.Lock())
lists = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatL2(4), 4, 2, faiss.ScalarQuantizer.QT_8bit)
for call in (lambda: own.flat(4), lambda: own.scalar_lists(lists)):
    try:
        call()
    except RuntimeError as error:
        assert "Invalid GPU device 0" in str(error), error
    else:
        raise AssertionError("there is a GPU: run benchmarks/gpu.py")
for kind in (faiss.GpuIndexFlatL2, faiss.GpuIndexIVFScalarQuantizer):
    assert issubclass(kind, faiss.Index)
    for name in ("add", "reset", "search", "assign", "train", "nlist", "ntotal", "d"):
        assert hasattr(kind, name) or (kind is faiss.GpuIndexFlatL2 and name == "nlist"), (kind, name)
faiss.IndexIVFPQFastScan.quantizer, faiss.IndexIVFScalarQuantizer.add_core, faiss.Clustering.train
print("as expected")
"""


@pytest.mark.trial
def test_the_package_for_gpus_takes_what_it_is_given(tmp_path: Path) -> None:
    """Every constructor gets as far as the missing device, and the index tests pass with the package."""
    lock = (ROOT / "docker" / "cuda.lock").read_text(encoding="utf-8")
    wanted = re.findall(
        r"^(?:faiss-gpu|nvidia-(?:cublas|cuda-runtime|curand)-cu12)==[\w.]+", lock, re.MULTILINE
    )
    assert 4 == len(wanted)
    target = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, *wanted]
    subprocess.run(install, check=True, timeout=1200)
    environment = {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-c", CALLS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "as expected" in ran.stdout, ran.stderr
    tests = ("tests/contracts/test_index_backends.py", "tests/indexer/index/test_index_files.py")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-q", *tests],
        env=environment,
        cwd=ROOT,
        check=True,
        timeout=600,
    )


@pytest.mark.trial
def test_the_table_of_a_gpu_is_made_on_a_processor(tmp_path: Path) -> None:
    """The GPU benchmark on a CPU has every part, encoding included."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--json", tmp_path / "results.json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    sys.stdout.write(ran.stdout)
    assert 0 == ran.returncode, ran.stderr
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert {"transport": 6, "indexes": 14, "encoding": 4} == {
        name: len(own) for name, own in results["rows"].items()
    }
