"""The leak guard: papers that an evaluation uses are left out of training, and counted."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from models.training.pairs.citing import Citation
from models.types import Paper

_OTHER = re.compile(r"[\W_]+")
# Titles like "Introduction" are shared by chance; a title this short, in characters, tells nothing.
_SHORTEST_TITLE = 12
_BY_CITING = "id of the citing paper"


class LeakGuard:
    """Knows papers of evaluations by id, DOI and title; ``counts`` says how many it found, and by which.

    What ``without_leaks`` found, by whatever, ``of_others`` knows by its id.
    """

    def __init__(self, papers: Iterable[Paper], *, ids: Iterable[str] = ()) -> None:
        self._ids, self._dois, self._titles = set(ids), set[str](), set[str]()
        for paper in papers:
            self._ids.add(paper.id)
            if paper.doi:
                self._dois.add(paper.doi.casefold())
            for title in _titles(paper):
                self._titles.add(title)
        self.counts: Counter[str] = Counter()
        self._left_out: set[str] = set()
        self._citing: set[str] = set()

    def without_leaks(self, papers: Mapping[str, Paper]) -> dict[str, Paper]:
        """The papers that no evaluation uses; ``counts`` grows by the others, each once, by its reason."""
        kept = {}
        for name, paper in papers.items():
            reason = self._reason(paper)
            if reason:
                self.counts[reason] += 1
                self._left_out.add(paper.id)
            else:
                kept[name] = paper
        return kept

    def of_others(self, citations: Iterable[Citation]) -> Iterator[Citation]:
        """The sentences of papers that no evaluation uses; ``counts`` grows by each other paper, once."""
        known = self._ids | self._left_out
        for citation in citations:
            if citation.citing not in known:
                yield citation
            elif citation.citing not in self._citing:
                self._citing.add(citation.citing)
                self.counts[_BY_CITING] += 1

    def _reason(self, paper: Paper) -> str:
        if paper.id in self._ids:
            return "id"
        if paper.doi and paper.doi.casefold() in self._dois:
            return "doi"
        return "title" if any(title in self._titles for title in _titles(paper)) else ""


def _titles(paper: Paper) -> list[str]:
    """The title as letters and digits alone; that of a paper without an abstract is its one sentence."""
    plain = _OTHER.sub("", paper.title or paper.abstract).casefold()
    return [plain] if len(plain) >= _SHORTEST_TITLE else []
