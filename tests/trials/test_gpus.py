"""Tests of the real packages of FAISS for GPUs without a GPU, and of the whole GPU benchmark on a CPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.index.backends.gpu import _FULL
from tests.support.builds import ROOT

# FAISS refuses the device only after it has accepted every argument. What would then run on the GPU runs on
# the CPU here, by the same lines with the same package.
CALLS = """
import inspect
import threading

import faiss
import numpy as np

from indexer.index.backends import gpu
from indexer.index.backends.faiss_ivf import _quantiser_on
from indexer.index.backends.faiss_ivfpq import IvfPqIndex
from indexer.index.backends.faiss_ivfsq import IvfSqIndex


class OnCpu(gpu.Gpu):
    def flat(self, dim):
        return faiss.IndexFlatL2(dim)


assert faiss.get_num_gpus() == 0
rows = np.random.default_rng(1).normal(size=(4000, 16)).astype(np.float32)
lists = IvfSqIndex._untrained(*rows.shape)
own = gpu.Gpu(0, faiss.StandardGpuResources(), threading.Lock())
for call in (lambda: own.flat(16), lambda: own.scalar_lists(lists)):
    try:
        call()
    except RuntimeError as error:
        assert "Invalid GPU device 0" in str(error), error
    else:
        raise AssertionError("there is a GPU: run benchmarks/gpu.py")
for kind in (faiss.GpuIndexFlatL2, faiss.GpuIndexIVFScalarQuantizer):
    assert issubclass(kind, faiss.Index)
    inspect.signature(kind.search).bind(None, rows, 1, params=None)
    inspect.signature(kind.add).bind(None, rows)
    inspect.signature(kind.reset).bind(None)
for config in (faiss.GpuIndexFlatConfig, faiss.GpuIndexIVFScalarQuantizerConfig):
    assert isinstance(config.device, property)
cpu = OnCpu(0, own.resources, own.lock)
for kind in (IvfSqIndex, IvfPqIndex):
    lists = kind._untrained(*rows.shape)
    quantiser = _quantiser_on(cpu, lists, rows)
    lists.train(rows)
    kind._adding_by(cpu, lists, quantiser)(rows)
    _, numbers = own.search(lists, rows, 1, parameters=kind._parameters(1, None))
    assert (numbers[:, 0] == np.arange(len(rows))).mean() > 0.9
print("as expected")
"""


# What FAISS loads, by lock: with cuVS also its libraries, and what they load.
_LOADED = {
    "cuda": ("faiss-gpu", *(f"nvidia-{name}-cu12" for name in ("cublas", "cuda-runtime", "curand"))),
    "cuvs": (
        *("faiss-gpu-cuvs", "libcuvs-cu13", "libraft-cu13", "librmm-cu13", "rapids-logger"),
        *(f"nvidia-{name}" for name in ("cublas", "cuda-nvrtc", "cuda-runtime", "curand", "cusolver")),
        *("nvidia-cusparse", "nvidia-nccl-cu13", "nvidia-nvjitlink"),
    ),
}


@pytest.mark.trial
@pytest.mark.parametrize("lock", _LOADED)
def test_the_package_for_gpus_takes_what_it_is_given(tmp_path: Path, lock: str) -> None:
    """Constructors get as far as the missing device, the rest runs on the CPU, and so do the index tests."""
    locked = (ROOT / "docker" / f"{lock}.lock").read_text(encoding="utf-8")
    named = "|".join(_LOADED[lock])
    wanted = re.findall(rf"^(?:{named})==[\w.]+", locked, re.MULTILINE)
    assert len(_LOADED[lock]) == len(wanted)
    target = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, *wanted]
    subprocess.run(install, check=True, timeout=1200)
    libraries = [each.read_bytes() for each in (target / "faiss").glob("*.so*")]
    assert any(words.encode() in own for own in libraries for words in _FULL), "how is full memory told?"
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
