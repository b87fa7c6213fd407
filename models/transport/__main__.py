"""Compiles what every scorer runs, so that no first search waits for it: ``python -m models.transport``."""

import numpy as np

from models.transport import SERVING, Scorer, score_papers


def compile_all() -> None:
    """Score easy pairs and hard ones with each scorer; the machine code is kept on disk."""
    near = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    for spread in (1.0, 1e3):  # Sinkhorn solves the first, Newton the second
        for scorer in Scorer:
            score_papers(
                near[:2], near * np.float32(spread), np.array([0, 3]), scorer=scorer, settings=SERVING
            )


if __name__ == "__main__":
    compile_all()
