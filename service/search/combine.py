"""How the scores of several seeds make one: which seeds count for a paper, and how much."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float64, Int64

from indexer.snapshot import Snapshot
from models.transport import TransportSettings
from service.context import stage
from service.search.compare import compare
from service.search.seeds import ResolvedSeed

# Measured, as what follows: docs/why.md, "Several seeds".
DEFAULT_NEGATIVE_WEIGHT = 0.4
# A seed counts e times less for a paper than another when it is this much farther from it, as a share of what
# is usual for it.
_TEMPERATURE = 0.2
# Papers akin to some seeds are compared with so many of them, the nearest.
_NEAREST_SEEDS = 10
# What is usual is measured on so many papers, evenly spread through the collection.
_SAMPLE_PAPERS = 100
# Distances below this are no measure of anything: all papers sampled are the seed over again.
_LEAST_DISTANCE = 1e-6


class Kinship(StrEnum):
    """To which of the seeds a paper should be akin: to some, for several interests, or to all together."""

    SOME = "some"
    ALL = "all"


@stage("rerank")
def score_seeds(
    snapshot: Snapshot,
    seeds: Sequence[ResolvedSeed],
    positions: Int64[np.ndarray, " k"],
    *,
    settings: TransportSettings,
) -> Float64[np.ndarray, "n_seeds k"]:
    """The score of each paper at ``positions`` for each seed alone; raises DeadlineError."""
    rows, offsets = snapshot.gather(positions)
    scores = np.empty((len(seeds), len(positions)))
    for own, seed in zip(scores, seeds, strict=True):
        own[:] = compare(seed.vectors, rows, offsets, settings=settings).scores
    return scores


def seed_weights(
    scores: Float64[np.ndarray, "n_seeds k"],
    usual: Float64[np.ndarray, " n_seeds"],
    seeds: Sequence[ResolvedSeed],
    *,
    akin_to: Kinship,
    negative_weight: float,
) -> Float64[np.ndarray, "n_seeds k"]:
    """How much each seed counts in the score of each paper, which is the sum of weight x score.

    Each seed's distances are taken in units of its ``usual`` one, so that a seed near to everything does not
    decide alone. Weights sum to about 1 over the seeds, the nearer to a paper the heavier unless it should be
    akin to all; over the negatives to about minus ``negative_weight``, the nearest always counting most.
    """
    negative = np.array([seed.negative for seed in seeds])
    given = np.array([seed.weight for seed in seeds])
    relative = scores / usual[:, None]
    shares = np.zeros_like(scores)
    # Back to distances: those usual for the seeds.
    unit = float(np.average(usual[~negative], weights=given[~negative]))
    for side, factor, kinship in (
        (~negative, unit, akin_to),
        (negative, -unit * negative_weight, Kinship.SOME),
    ):
        if side.any():
            shares[side] = factor * _shares(relative[side], given[side], kinship)
    weights: Float64[np.ndarray, "n_seeds k"] = shares / usual[:, None]
    return weights


def usual_distances(
    snapshot: Snapshot, seeds: Sequence[ResolvedSeed], *, settings: TransportSettings
) -> Float64[np.ndarray, " n_seeds"]:
    """The mean distance of each seed from the papers of the collection, on a sample; raises DeadlineError."""
    n_sampled = min(_SAMPLE_PAPERS, len(snapshot))
    sample = snapshot.positions[np.linspace(0, len(snapshot) - 1, n_sampled).astype(np.int64)]
    distances = -score_seeds(snapshot, seeds, sample, settings=settings).mean(axis=1)
    usual: Float64[np.ndarray, " n_seeds"] = np.where(distances > _LEAST_DISTANCE, distances, 1.0)
    return usual


def _shares(
    relative: Float64[np.ndarray, "n_seeds k"], given: Float64[np.ndarray, " n_seeds"], kinship: Kinship
) -> Float64[np.ndarray, "n_seeds k"]:
    """What part of each paper's score each seed makes; the parts sum to 1."""
    if kinship is Kinship.ALL:
        parts = np.repeat(given[:, None], relative.shape[1], axis=1)
    else:
        nearness = np.exp((relative - relative.max(axis=0)) / _TEMPERATURE)
        parts = given[:, None] * nearness * _nearest(relative)
    shares: Float64[np.ndarray, "n_seeds k"] = parts / parts.sum(axis=0)
    return shares


def _nearest(relative: Float64[np.ndarray, "n_seeds k"]) -> Bool[np.ndarray, "n_seeds k"]:
    """Which seeds are among the nearest of each paper; of equally near ones, the first."""
    nearest = np.zeros(relative.shape, dtype=bool)
    order = np.argsort(-relative, axis=0, kind="stable")[:_NEAREST_SEEDS]
    np.put_along_axis(nearest, order, True, axis=0)
    return nearest
