"""Where each id of a corpus was first seen: 16 bytes an id, of however many."""

from typing import Final

import numpy as np

# Of 10 million ids, two share one of the 2**64 hashes with probability 3e-6.
_RECENT: Final = 65_536  # ids that are kept as Python's own numbers
_FEWEST: Final = 4  # sorted runs of like size become one


class FirstSeen:
    """Places by id: ``n_recent`` of them in a dict, the others as sorted hashes in runs of growing size."""

    def __init__(self, n_recent: int = _RECENT) -> None:
        self._n_recent = n_recent
        self._recent: dict[int, int] = {}
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []  # hashes, ascending, and their places

    def note(self, paper_id: str, place: int) -> int | None:
        """Where the id was seen first; ``None`` where that is here, at ``place`` (0 <= place < 2**63)."""
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
        while len(self._runs) > 1 and len(self._runs[-2][0]) < _FEWEST * len(self._runs[-1][0]):
            (one, one_places), (other, other_places) = self._runs.pop(), self._runs.pop()
            self._runs.append((np.concatenate([one, other]), np.concatenate([one_places, other_places])))
        hashes, places = self._runs.pop()
        order = np.argsort(hashes)
        self._runs.append((hashes[order], places[order]))
