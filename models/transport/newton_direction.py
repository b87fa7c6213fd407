"""The linear system of a Newton step of transport, solved on the CPU without subtraction."""

import numpy as np
from jaxtyping import Float64

from models.transport.compiled import compiled

REGULARISATION = (
    1e-14  # relative to a sentence's mass: rounding does not move a group without edges to the rest
)


@compiled
def newton_direction(
    plan: Float64[np.ndarray, "m n"],
    free: Float64[np.ndarray, " n"],
    fixed: Float64[np.ndarray, " m"],
    slope: Float64[np.ndarray, " n"],
    radius: float,
) -> tuple[Float64[np.ndarray, " n"], float]:
    """Solve (diag(plan^T 1) - plan^T diag(1 / fixed) plan) x = slope with x[0] = 0, within a trust radius.

    The matrix is the Laplacian of a graph on the free sentences. Gaussian elimination on its edge weights
    never subtracts (Grassmann, Taksar, Heyman 1985), so weights of 1e-30 keep all their digits. The part of
    the step that a sentence does not inherit from its neighbours is clipped to ``radius``: a loosely tied
    sentence does not hold back the others, and the step is still an ascent. Also returns the longest part.
    """
    n = len(free)
    edges = _edges(plan, fixed)
    x, pivots = slope.copy(), np.zeros(n)
    for k in range(n - 1, 0, -1):
        pivots[k] = REGULARISATION * free[k]
        for i in range(k):
            pivots[k] += edges[k, i]
        if pivots[k] > 0.0:
            for i in range(k):
                share = edges[k, i] / pivots[k]
                x[i] += share * x[k]
                for t in range(i):
                    edges[i, t] += share * edges[k, t]
    x[0] = 0.0
    longest = 0.0
    for k in range(1, n):
        own = x[k] / pivots[k] if pivots[k] > 0.0 else 0.0
        own = min(radius, max(-radius, own))
        longest = max(longest, abs(own))
        x[k] = own
        for i in range(k):
            if pivots[k] > 0.0:
                x[k] += edges[k, i] / pivots[k] * x[i]
    return x, longest


@compiled
def _edges(plan: Float64[np.ndarray, "m n"], fixed: Float64[np.ndarray, " m"]) -> Float64[np.ndarray, "n n"]:
    """Return plan^T diag(1 / fixed) plan below the diagonal: how strongly two free sentences are tied."""
    m, n = plan.shape
    edges = np.zeros((n, n))
    for j in range(m):
        if fixed[j] > 0.0:
            for i in range(n):
                share = plan[j, i] / fixed[j]
                for k in range(i):
                    edges[i, k] += share * plan[j, k]
    return edges
