"""Affinity: how near a submission is to a profile, which is a set of papers, and by which of them.

A submission's distance from a profile is the mean over the N_NEAREST papers of it that are nearest, and its
affinity is how much less that is than the submission's usual distance, over a sample of the collection: 1 for
the same texts, about 0 for profiles of another field, so that a submission near to everything is near to
nobody in particular. Measured: docs/why.md, "How near a reviewer is".
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float64, Int64

from models.errors import InputError
from models.types import RankedPaper
from service.match.nearness import Nearness
from service.search.seeds import ReadPaper

N_NEAREST: Final = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """One paper of a profile that makes its affinity: 1 minus the sum of ``share`` x distance over them.

    ``usual`` is the submission's usual distance; a share is 1 / (number of papers x ``usual``).
    """

    share: float
    usual: float
    ranked: RankedPaper


class Affinities:
    """Compares submissions with profiles: names, and the positions of papers of the collection.

    ``n_nearest`` papers of each profile count. Raises InputError for a profile without a paper.
    """

    def __init__(
        self,
        nearness: Nearness,
        profiles: Mapping[str, Int64[np.ndarray, "..."]],
        *,
        n_nearest: int = N_NEAREST,
    ) -> None:
        if not profiles:
            raise InputError("There is no profile to compare with; give at least one.")
        members = {name: np.unique(positions) for name, positions in profiles.items()}
        if empty := [name for name, own in members.items() if not len(own)]:
            raise InputError(
                f"{len(empty)} of {len(members)} profiles have no paper in this collection, such as "
                f"{empty[0][:80]!r}; add their papers or leave them out."
            )
        self.names = tuple(members)
        # What tells these profiles from others of the same generation.
        self.digest = hashlib.sha256(
            b"|".join([str(n_nearest).encode(), *(own.tobytes() for own in members.values())])
        ).hexdigest()
        self._nearness = nearness
        self._n_nearest = n_nearest
        self._papers = np.unique(np.concatenate([np.empty(0, np.int64), *members.values()]))
        longest = max(map(len, members.values()), default=0)
        # Of each profile the numbers of its papers, filled up with one that is infinitely far.
        self._places = np.full((len(members), longest), len(self._papers))
        for own, places in zip(members.values(), self._places, strict=True):
            places[: len(own)] = np.searchsorted(self._papers, own)

    def of(
        self, submissions: Sequence[ReadPaper], among: Int64[np.ndarray, " n_profiles"] | None = None
    ) -> Float64[np.ndarray, "n_submissions n_profiles"]:
        """The affinities of submissions with the profiles numbered ``among``, or all.

        Each paper is compared once with each submission. A profile that holds a submission is compared
        without it; with no other paper, its affinity is -inf. Raises DeadlineError.
        """
        places = self._places if among is None else self._places[among]
        distances = self._distances(submissions, places)
        affinities = np.empty((len(submissions), len(places)))
        for row, own, submission in zip(affinities, distances, submissions, strict=True):
            row[:] = 1 - _mean_of_nearest(own[places], self._n_nearest) / self._nearness.usual(submission)
        return affinities

    def reasons(
        self, submission: ReadPaper, profiles: Sequence[int], *, n_told: int | None = None
    ) -> list[list[Reason]]:
        """For each of the ``profiles`` by number, the papers that its affinity is made of, nearest first.

        The affinity is 1 minus the sum of share x distance over all of them, of which ``n_told`` are told, to
        rounding; each distance is that sum of its alignments and words. Raises DeadlineError.
        """
        all_places = self._places[list(profiles)]
        distances = self._distances([submission], all_places)[0]
        usual = self._nearness.usual(submission)
        told = []
        for places in all_places:
            order = places[np.argsort(distances[places], kind="stable")][: self._n_nearest]
            nearest = order[np.isfinite(distances[order])]
            share = 1 / (len(nearest) * usual) if len(nearest) else 0.0
            told.append(
                [
                    Reason(
                        share, usual, self._nearness.compared(submission, self._nearness.indexed(position))
                    )
                    for position in self._papers[nearest[:n_told]].tolist()
                ]
            )
        return told

    def _distances(
        self, submissions: Sequence[ReadPaper], places: Int64[np.ndarray, "..."]
    ) -> Float64[np.ndarray, "n_submissions n_papers"]:
        """From submissions to the papers at ``places``, themselves infinitely far; the last column is inf."""
        wanted = np.unique(places)
        wanted = wanted[wanted < len(self._papers)]
        positions = self._papers[wanted]
        distances = np.full((len(submissions), len(self._papers) + 1), np.inf)
        distances[:, wanted] = self._nearness.distances(submissions, positions)
        for row, submission in zip(distances, submissions, strict=True):
            if submission.position is not None:
                row[wanted[positions == submission.position]] = np.inf
        return distances


def _mean_of_nearest(
    distances: Float64[np.ndarray, "n_profiles n_papers"], n_nearest: int
) -> Float64[np.ndarray, " n_profiles"]:
    """The mean of the ``n_nearest`` least in each row that are finite; inf where there is none."""
    n_kept = min(n_nearest, distances.shape[1])
    nearest = np.sort(np.partition(distances, n_kept - 1, axis=1)[:, :n_kept], axis=1)
    counted = np.isfinite(nearest)
    n_counted = counted.sum(axis=1)
    sums = np.where(counted, nearest, 0.0).sum(axis=1)
    means: Float64[np.ndarray, " n_profiles"] = np.full(len(sums), np.inf)
    np.divide(sums, n_counted, out=means, where=n_counted > 0)
    return means
