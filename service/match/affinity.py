"""Affinity: how near a submission is to a profile of papers, and why.

A submission's distance from a profile is the mean distance to the N_NEAREST nearest papers of the profile.
The affinity is 1 minus that distance as a share of the submission's usual distance, over a sample of the
collection: 1 for the same texts, about 0 for profiles of another field. So a submission that is near to
everything has no high affinity with anyone. Measured: docs/decisions/measuring/reviewers.md.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool, Float64, Int64

from models.errors import InputError
from models.types import RankedPaper
from service.match.paper_distances import PaperDistances
from service.search.seeds import EncodedSeed

N_NEAREST: Final = 5


@dataclass(frozen=True, slots=True)
class Reason:
    """One of the profile's papers that determine its affinity: 1 minus the sum of share x distance over them.

    ``usual`` is the submission's usual distance; a share is 1 / (number of papers x ``usual``).
    """

    share: float
    usual: float
    ranked: RankedPaper


@dataclass(frozen=True, slots=True)
class Reasons:
    """The terms of an affinity: 1 plus the sum of share x score over ``returned``, plus ``rest``."""

    returned: tuple[Reason, ...]
    rest: float


def nearest_without_conflicts(
    affinities: Float64[np.ndarray, " n_profiles"], conflicts: Bool[np.ndarray, " n_profiles"], n: int
) -> list[int]:
    """Return the numbers of the ``n`` profiles with the largest affinities, without conflicts, in order."""
    free = np.where(conflicts, -np.inf, affinities)
    nearest = np.argsort(-free, kind="stable")[:n]
    numbers: list[int] = nearest[np.isfinite(free[nearest])].tolist()
    return numbers


def own_position(submission: EncodedSeed) -> Sequence[int]:
    """Return the position of a submission that is in the collection; nothing for other submissions."""
    return () if submission.position is None else (submission.position,)


class Affinities:
    """Compares submissions with profiles, given as names with the positions of papers of the collection.

    The ``n_nearest`` papers of each profile count, except those at the positions that ``copies`` returns for
    the submission. Raises InputError without profiles, or for a profile without papers.
    """

    def __init__(
        self,
        nearness: PaperDistances,
        profiles: Mapping[str, Int64[np.ndarray, "..."]],
        *,
        n_nearest: int = N_NEAREST,
        copies: Callable[[EncodedSeed], Sequence[int]] = own_position,
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
        # Identifies these profiles among others of the same generation.
        self.digest = hashlib.sha256(
            b"|".join([str(n_nearest).encode(), *(own.tobytes() for own in members.values())])
        ).hexdigest()
        self._nearness = nearness
        self._n_nearest = n_nearest
        self._copies = copies
        self._papers = np.unique(np.concatenate([*members.values()]))
        # For each profile, the numbers of its papers in ``_papers``.
        self._places = [np.searchsorted(self._papers, own) for own in members.values()]

    def of(
        self, submissions: Sequence[EncodedSeed], among: Int64[np.ndarray, " n_profiles"] | None = None
    ) -> Float64[np.ndarray, "n_submissions n_profiles"]:
        """Return the affinities of submissions with the profiles numbered ``among``, or with all.

        Each paper is compared once with each submission. A profile that contains a submission is compared
        without it; without another paper, its affinity is -inf. Raises DeadlineError.
        """
        all_places = [self._places[each] for each in among] if among is not None else self._places
        distances = self._distances(submissions, all_places)
        flat = np.concatenate([*all_places, np.empty(0, np.int64)])
        owners = np.repeat(np.arange(len(all_places)), list(map(len, all_places)))
        affinities = np.empty((len(submissions), len(all_places)))
        for row, own, submission in zip(affinities, distances, submissions, strict=True):
            means = _means_of_nearest(own[flat], owners, len(all_places), self._n_nearest)
            row[:] = 1 - means / self._nearness.usual(submission)
        return affinities

    def reasons(
        self, submission: EncodedSeed, profiles: Sequence[int], *, n_reasons: int | None = None
    ) -> list[Reasons]:
        """Return, for each of the ``profiles`` by number, the papers of its affinity, nearest first.

        Up to rounding, the affinity is 1 minus the sum of share x distance over all these papers:
        ``n_reasons`` are returned, ``rest`` has the sum of the others. Each distance is the sum over its
        alignments and words. Raises DeadlineError.
        """
        all_places = [self._places[each] for each in profiles]
        (distances,) = self._distances([submission], all_places)
        usual = self._nearness.usual(submission)
        return [self._reasons(submission, places, distances, usual, n_reasons) for places in all_places]

    def _reasons(
        self,
        submission: EncodedSeed,
        places: Int64[np.ndarray, " n_own"],
        distances: Float64[np.ndarray, " n_papers"],
        usual: float,
        n_reasons: int | None,
    ) -> Reasons:
        order = places[np.argsort(distances[places], kind="stable")][: self._n_nearest]
        nearest = order[np.isfinite(distances[order])]
        share = 1 / (len(nearest) * usual) if len(nearest) else 0.0
        returned = nearest[:n_reasons]
        rest = -share * float(distances[nearest[len(returned) :]].sum())
        read = map(self._nearness.indexed, self._papers[returned].tolist())
        return Reasons(
            tuple(Reason(share, usual, self._nearness.compared(submission, each)) for each in read), rest
        )

    def _distances(
        self, submissions: Sequence[EncodedSeed], places: Sequence[Int64[np.ndarray, "..."]]
    ) -> Float64[np.ndarray, "n_submissions n_papers"]:
        """Return distances from submissions to the papers at ``places``; inf for copies of a submission."""
        wanted = np.unique(np.concatenate([*places, np.empty(0, np.int64)]))
        positions = self._papers[wanted]
        distances = np.full((len(submissions), len(self._papers)), np.inf)
        distances[:, wanted] = self._nearness.distances(submissions, positions)
        for row, submission in zip(distances, submissions, strict=True):
            row[np.isin(self._papers, self._copies(submission))] = np.inf
        return distances


def _means_of_nearest(
    distances: Float64[np.ndarray, " n"], owners: Int64[np.ndarray, " n"], n_owners: int, n_nearest: int
) -> Float64[np.ndarray, " n_owners"]:
    """Return each owner's mean of its finite distances among the ``n_nearest`` smallest; inf if it has none.

    ``owners`` are numbers in ascending order.
    """
    nearest = np.lexsort((distances, owners))
    starts = np.searchsorted(owners, np.arange(n_owners))
    counted = np.arange(len(owners)) - starts[owners] < n_nearest
    counted &= np.isfinite(distances[nearest])
    own = owners[counted]  # also the owners of the sorted distances, as these are sorted by owner first
    sums = np.bincount(own, weights=distances[nearest[counted]], minlength=n_owners)
    n_counted = np.bincount(own, minlength=n_owners)
    means: Float64[np.ndarray, " n_owners"] = np.full(n_owners, np.inf)
    np.divide(sums, n_counted, out=means, where=n_counted > 0)
    return means
