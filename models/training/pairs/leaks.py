"""The leak guard: papers that an evaluation uses are left out of training, and counted."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from models.training.pairs.citing import Citation
from models.types import Paper

_OTHER = re.compile(r"[\W_]+")
# Titles like "Introduction" are shared by chance; a title this short, in characters, tells nothing.
_SHORTEST_TITLE = 12
_OF_CITING = "of the citing paper"


class LeakGuard:
    """Knows papers of evaluations by id, DOI and title; ``counts`` says how many it found, and by which.

    What ``without_leaks`` found, by whatever, ``of_others`` knows by its id, and a citing paper also by its
    title and DOI where they are told. ``named`` are the names of the evaluations, for a report.
    """

    def __init__(
        self, papers: Iterable[Paper], *, ids: Iterable[str] = (), named: Sequence[str] = ()
    ) -> None:
        self.named = tuple(named)
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
            by_id = "id" if citation.citing in known else ""
            reason = by_id or self._used(citation.doi, _plain(citation.title))
            if not reason:
                yield citation
            elif citation.citing not in self._citing:
                self._citing.add(citation.citing)
                self.counts[f"{reason} {_OF_CITING}"] += 1

    def _reason(self, paper: Paper) -> str:
        if paper.id in self._ids:
            return "id"
        return self._used(paper.doi, _titles(paper))

    def _used(self, doi: str | None, titles: Iterable[str]) -> str:
        """The reason why a paper of this DOI and these titles is one of an evaluation; empty for none."""
        if doi and doi.casefold() in self._dois:
            return "doi"
        return "title" if any(title in self._titles for title in titles) else ""


def left_out(counts: Mapping[str, int], named: Sequence[str] | None) -> str:
    """What the leak guard found, in a sentence; ``named`` are the evaluations, None where none says which."""
    if named is not None and not named:
        return "No evaluation was named, so no paper was left out as one of an evaluation."
    told = ", ".join(f"{count:,} by {reason}" for reason, count in sorted(counts.items())) or "none"
    which = "an evaluation uses them" if named is None else f"evaluations use them ({', '.join(named)})"
    return f"Papers left out because {which}: {told}."


def n_shared(texts: Iterable[Paper], others: Iterable[Paper]) -> int:
    """How many of ``texts`` are also among ``others``, by title or by their sentences, whatever their ids."""
    known = {key for other in others for key in _keys(other)}
    return sum(not known.isdisjoint(_keys(text)) for text in texts)


def _keys(paper: Paper) -> list[str]:
    """What two copies of a text have in common: the title, and all sentences."""
    return [*_titles(paper), _OTHER.sub("", "".join(each.text for each in paper.sentences)).casefold()]


def _titles(paper: Paper) -> list[str]:
    """The title as letters and digits alone; that of a paper without an abstract is its one sentence."""
    return _plain(paper.title or paper.abstract)


def _plain(title: str) -> list[str]:
    plain = _OTHER.sub("", title).casefold()
    return [plain] if len(plain) >= _SHORTEST_TITLE else []
