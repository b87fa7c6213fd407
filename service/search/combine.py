"""How the scores of a query's parts make one: which parts count for a paper, and how much."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

from service.search.aspect import Part
from service.search.query import Kinship

# Measured: docs/why.md, "Several seeds".
# A seed counts e times less for a paper than another when it is this much farther from it, as a share of what
# is usual for it.
_TEMPERATURE = 0.2
# Papers akin to some seeds are compared with so many of them, the nearest.
_NEAREST_SEEDS = 10


def own_weights(parts: Sequence[Part], n_papers: int) -> Float64[np.ndarray, "n_parts n_papers"]:
    """How much the parts of a single seed count: what it should be like once, each contrast as was asked."""
    given = np.array([-part.weight if part.away else part.weight for part in parts]) / parts[0].weight
    weights: Float64[np.ndarray, "n_parts n_papers"] = np.repeat(given[:, None], n_papers, axis=1)
    return weights


def seed_weights(
    scores: Float64[np.ndarray, "n_parts k"],
    usual: Float64[np.ndarray, " n_parts"],
    parts: Sequence[Part],
    *,
    akin_to: Kinship,
    negative_weight: float,
) -> Float64[np.ndarray, "n_parts k"]:
    """How much each part of several seeds counts in the score of each paper: the sum of weight x score.

    Each part's distances are taken in units of its ``usual`` one, so that a seed near to everything does not
    decide alone. Weights sum to about 1 over the seeds, the nearer to a paper the heavier unless it should be
    akin to all; over what it should be unlike to about minus ``negative_weight``, the nearest always counting
    most.
    """
    away = np.array([part.away for part in parts])
    given = np.array([part.weight for part in parts])
    relative = scores / usual[:, None]
    shares = np.zeros_like(scores)
    # Back to distances: those usual for the seeds.
    unit = float(np.average(usual[~away], weights=given[~away]))
    for side, factor, kinship in ((~away, unit, akin_to), (away, -unit * negative_weight, Kinship.SOME)):
        if side.any():
            shares[side] = factor * _shares(relative[side], given[side], kinship)
    weights: Float64[np.ndarray, "n_parts k"] = shares / usual[:, None]
    return weights


def _shares(
    relative: Float64[np.ndarray, "n_parts k"], given: Float64[np.ndarray, " n_parts"], kinship: Kinship
) -> Float64[np.ndarray, "n_parts k"]:
    """What share of each paper's score each part makes; the shares sum to 1."""
    if kinship is Kinship.ALL:
        weighed = np.repeat(given[:, None], relative.shape[1], axis=1)
    else:
        nearness = np.exp((relative - relative.max(axis=0)) / _TEMPERATURE)
        weighed = given[:, None] * nearness * _nearest(relative)
    shares: Float64[np.ndarray, "n_parts k"] = weighed / weighed.sum(axis=0)
    return shares


def _nearest(relative: Float64[np.ndarray, "n_parts k"]) -> Bool[np.ndarray, "n_parts k"]:
    """Which parts are among the nearest of each paper; of equally near ones, the first."""
    nearest = np.zeros(relative.shape, dtype=bool)
    order = np.argsort(-relative, axis=0, kind="stable")[:_NEAREST_SEEDS]
    np.put_along_axis(nearest, order, True, axis=0)
    return nearest
