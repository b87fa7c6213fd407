"""Clustered random vectors, like the vectors of real sentences, which cluster by topic."""

import numpy as np


def clustered(n: int, dim: int, *, seed: int = 0, dtype: str = "float16") -> np.ndarray:
    """Return ``n`` unit vectors around 100 centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((100, dim))
    vectors = centres[rng.integers(0, 100, n)] + 0.8 * rng.standard_normal((n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)
