"""Compilation of all numba loops, so that no search has to wait for it: ``python -m akin.compiling``."""

import subprocess
import sys

import numpy as np
import pyarrow as pa

from indexer.index.backends.nearest import as_bits, nearest_rows, rescored, widened
from indexer.words.kernels import add_products, add_shared, nearest_of
from models.transport import SERVING, Scorer, best_papers, score_papers
from models.transport.compiled import is_on_disk
from models.transport.problem import set_distances
from service.resolve.near_ids import near_ids

_begun: list[subprocess.Popen[bytes]] = []


def compile_in_background() -> None:
    """Start a process that compiles all loops, without waiting for it, unless they are on disk or begun.

    Called when papers are indexed and when a collection is opened: a search within the next half minute
    compiles what it needs itself. Does nothing if numba cannot store machine code.
    """
    if _begun or is_on_disk(add_products):  # the last loop that ``compile_all`` calls
        return
    # -P: do not import a folder "akin" of the working directory instead of this package.
    command = [sys.executable, "-P", "-m", "akin.compiling"]
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
    except OSError:  # no more processes: the first search compiles
        return
    _begun.append(process)


def compile_all() -> None:
    """Call each loop with the types of real use; numba stores the machine code on disk."""
    near = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    for spread in (1.0, 1e3):  # Sinkhorn solves the first, Newton the second
        for scorer in Scorer:
            score_papers(
                near[:2], near * np.float32(spread), np.array([0, 3]), scorer=scorer, settings=SERVING
            )
    best_papers(near[:2], near, np.array([0, 1, 3]), 1)
    for stored in (near.astype(np.float16), near):
        nearest_rows(stored, near[:1], k=1)
        widened(stored, np.array([0]))
        set_distances(near[:2], as_bits(stored), np.array([0]), np.array([0, 1]), (0, 1), np.empty(2))
        rescored(stored, near[:1], proposed=np.array([[0, -1]]), k=1)
    near_ids(pa.chunked_array([["arxiv:2106.15928"]]), "2106.15928", limit=1)
    postings = np.array([0], np.uint32), np.array([1], np.uint8)
    for mapped in postings:
        mapped.setflags(write=False)
    bounds = np.array([0, 1])
    bounds.setflags(write=False)
    one, weight, tempered = np.array([1]), np.array([1.0]), np.array([0.0, 1.0])
    add_shared(*postings, one - 1, one, weight, tempered, np.zeros(1))
    nearest_of(weight, weight, np.array([True]), one, weight.copy())
    add_products(bounds, *postings, one - 1, weight, weight, tempered, np.zeros(1))


if __name__ == "__main__":
    compile_all()
