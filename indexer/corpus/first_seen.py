"""Stores where each id of a corpus was first seen, in 16 bytes per id."""

from typing import Final

import numpy as np

# Ids are stored as 64-bit hashes: two of 10 million ids share one with probability 3e-6.
_RECENT: Final = 65_536  # ids that are kept in a dict before they are sorted into a run
_MIN_RATIO: Final = 4  # the last two runs are merged until the older one is this many times as long


class FirstSeen:
    """The places of ids: fewer than ``n_recent`` in a dict, the others in sorted runs of hashes."""

    def __init__(self, n_recent: int = _RECENT) -> None:
        self._n_recent = n_recent
        self._recent: dict[int, int] = {}
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []  # hashes, ascending, and their places

    def note(self, paper_id: str, place: int) -> int | None:
        """Return the place where the id was first seen, or ``None`` if this is the first time.

        The first time, store ``place`` (0 <= place < 2**63).
        """
        key = hash(paper_id)
        if key in self._recent:
            return self._recent[key]
        for hashes, places in self._runs:
            found = int(np.searchsorted(hashes, key))
            if found < len(hashes) and hashes[found] == key:
                return int(places[found])
        self._recent[key] = place
        if len(self._recent) == self._n_recent:
            self._sort_in()
        return None

    def _sort_in(self) -> None:
        hashes = np.fromiter(self._recent.keys(), dtype=np.int64, count=len(self._recent))
        places = np.fromiter(self._recent.values(), dtype=np.int64, count=len(self._recent))
        self._recent = {}
        self._runs.append((hashes, places))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < _MIN_RATIO * len(self._runs[-1][0]):
            (one, one_places), (other, other_places) = self._runs.pop(), self._runs.pop()
            self._runs.append((np.concatenate([one, other]), np.concatenate([one_places, other_places])))
        hashes, places = self._runs.pop()
        order = np.argsort(hashes)
        self._runs.append((hashes[order], places[order]))
