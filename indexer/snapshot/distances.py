"""Distances of a query to papers of a snapshot; stored rows are read in place and widened one at a time."""

from typing import Final

import numpy as np
from jaxtyping import Float32, Float64, Int64

from indexer.index.backends.nearest import as_bits, read_in_parts
from indexer.snapshot.snapshot import Snapshot
from models.interruption import check_interruption
from models.transport.problem import set_distances

# Papers compared between two checks for an interruption: a millisecond.
_COMPARED_AT_ONCE: Final = 256


def distances_to(
    snapshot: Snapshot,
    query: Float32[np.ndarray, "n_query dim"],
    rows: Int64[np.ndarray, " n_rows"],
    offsets: Int64[np.ndarray, " k_plus_1"],
) -> Float64[np.ndarray, " n_cells"]:
    """Return ``models.transport.problem.distances`` to papers with these ``rows``, to the same bits.

    Paper ``i`` has ``rows[offsets[i]:offsets[i + 1]]``. Raises the errors of ``check_interruption``.
    """
    own, cost = np.array(query, order="C"), np.empty(len(query) * len(rows))
    for stored, places, numbers in snapshot.stored(rows):
        own_places = np.flatnonzero(places)
        for part in read_in_parts(stored, numbers):
            now = np.full(len(rows), -1)
            now[own_places[part]] = numbers[part]
            for first in range(0, len(offsets) - 1, _COMPARED_AT_ONCE):
                check_interruption()
                last = min(first + _COMPARED_AT_ONCE, len(offsets) - 1)
                set_distances(own, as_bits(stored), now, offsets, (first, last), cost)
    return cost
