"""Tests of reading .npy files in threads."""

import ast
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import numpy as np
import pytest

from indexer.files.arrays import load_array


def test_no_two_threads_parse_headers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that reads a file waits until another has parsed the header of its file."""
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(6).reshape(2, 3))
    parse: Callable[[str], object] = ast.literal_eval
    both = Barrier(2)
    met = []

    def parse_together(header: str) -> object:
        try:
            both.wait(timeout=0.2)
        except BrokenBarrierError:
            return parse(header)
        met.append(header)
        return parse(header)

    monkeypatch.setattr(ast, "literal_eval", parse_together)
    with ThreadPoolExecutor(2) as threads:
        read = list(threads.map(lambda mode: load_array(path, mmap_mode=mode).tolist(), ("r", None)))
    assert ([[[0, 1, 2], [3, 4, 5]]] * 2, []) == (read, met)
