"""Compiles every loop that numba runs, so that no search waits for it: ``python -m akin.compiling``."""

import numpy as np
import pyarrow as pa

from indexer.index.backends.nearest import nearest_rows, rescored, widened
from indexer.words.kernels import add_products, add_shared, nearest_of
from models.transport import SERVING, Scorer, best_papers, score_papers
from service.resolve.near_ids import near_ids


def compile_all() -> None:
    """Call each loop with the types that it is given in use; the machine code is kept on disk."""
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
        rescored(stored, near[:1], proposed=np.array([[0, -1]]), k=1)
    postings = np.array([0], np.uint32), np.array([1], np.uint8)
    for mapped in postings:
        mapped.setflags(write=False)
    bounds = np.array([0, 1])
    bounds.setflags(write=False)
    one, weight, tempered = np.array([1]), np.array([1.0]), np.array([0.0, 1.0])
    add_shared(*postings, one - 1, one, weight, tempered, np.zeros(1))
    nearest_of(weight, weight, np.array([True]), one, weight.copy())
    add_products(bounds, *postings, one - 1, weight, weight, tempered, np.zeros(1))
    near_ids(pa.chunked_array([["arxiv:2106.15928"]]), "2106.15928", limit=1)


if __name__ == "__main__":
    compile_all()
