"""The leak guard, which leaves papers of evaluations out of training and counts them."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from unicodedata import normalize

from models.training.examples import paper_of
from models.training.pairs.citing import Citation, with_and_without_marks
from models.types import Paper

_OTHER = re.compile(r"[\W_]+")
_NO_LETTER = re.compile(r"[\W\d_]+")
# Titles that papers share by chance are not compared: of fewer characters, and this one.
_MIN_TITLE_CHARS, _SHARED = 12, "introduction"
# Abstracts like "No abstract available." are shared by chance, too.
_MIN_ABSTRACT_LETTERS = 60
_OF_CITING, _OF_SENTENCE = "of the citing paper", "text of the sentence"
_DOI = "doi:"


class LeakGuard:
    """A filter for papers of evaluations, by id, DOI, title or text; ``counts`` has the number found by each.

    The text is the abstract, of which only letters count, because PubMed RCT has @ in place of numbers.
    A text that a recipe made of a paper stands for this paper, by id.
    ``without_leaked_citations`` compares the id of a citing paper, also with the papers that
    ``without_leaks`` left out, its DOI and title if given, and the sentence itself, with or without citation
    marks. ``named`` holds the names of the evaluations.
    """

    def __init__(
        self, papers: Iterable[Paper], *, ids: Iterable[str] = (), named: Sequence[str] = ()
    ) -> None:
        self.named = tuple(named)
        self._ids = set(ids)
        self._dois = {_doi(name) for name in self._ids}
        self._titles, self._texts = set[str](), set[str]()
        for paper in papers:
            self._ids.add(paper_of(paper.id))
            self._dois.add(_doi(paper.id, paper.doi))
            for title in _titles(paper):
                self._titles.add(title)
            if text := letters_of(paper.abstract):
                self._texts.add(text)
        self.counts: Counter[str] = Counter()
        self._left_out: set[str] = set()
        self._citing: set[str] = set()

    def without_leaks(self, papers: Mapping[str, Paper]) -> dict[str, Paper]:
        """Return the papers that no evaluation uses; ``counts`` counts each other paper by its reason."""
        kept = {}
        for name, paper in papers.items():
            reason = self._reason(paper)
            if reason:
                self.counts[reason] += 1
                self._left_out.add(paper.id)
            else:
                kept[name] = paper
        return kept

    def without_leaked_citations(self, citations: Iterable[Citation]) -> Iterator[Citation]:
        """Yield the sentences that no evaluation uses, nor their papers.

        Each citing paper that is left out is counted once, and each sentence of other papers.
        """
        known = self._ids | self._left_out
        for citation in citations:
            by_id = "id" if citation.citing in known else ""
            reason = by_id or self._used(_doi(citation.citing, citation.doi), _plain(citation.title))
            if not reason and not self._is_text(citation.context):
                yield citation
            elif not reason:
                self.counts[_OF_SENTENCE] += 1
            elif citation.citing not in self._citing:
                self._citing.add(citation.citing)
                self.counts[f"{reason} {_OF_CITING}"] += 1

    def _reason(self, paper: Paper) -> str:
        if paper.id in self._ids:
            return "id"
        if reason := self._used(_doi(paper.id, paper.doi), _titles(paper)):
            return reason
        text = letters_of(paper.abstract)
        return "text" if len(text) >= _MIN_ABSTRACT_LETTERS and text in self._texts else ""

    def _is_text(self, context: str) -> bool:
        """Return whether an evaluation has a citing sentence as a text, with or without citation marks."""
        if not self._texts:
            return False
        return not self._texts.isdisjoint(map(letters_of, with_and_without_marks(context)))

    def _used(self, doi: str, titles: Iterable[str]) -> str:
        """Return "doi" or "title" if an evaluation uses a paper with this DOI or title; empty otherwise."""
        if doi and doi in self._dois:
            return "doi"
        return "title" if any(title in self._titles for title in titles) else ""


def left_out(counts: Mapping[str, int], named: Sequence[str] | None) -> str:
    """Return a sentence on the papers left out; ``named`` holds the evaluations, None if not recorded."""
    if named is not None and not named:
        return "No evaluation was named, so no paper was left out as one of an evaluation."
    reasons = ", ".join(f"{count:,} by {reason}" for reason, count in sorted(counts.items())) or "none"
    which = "an evaluation uses them" if named is None else f"evaluations use them ({', '.join(named)})"
    return f"Papers and sentences left out because {which}: {reasons}."


def n_shared(texts: Iterable[Paper], others: Collection[Paper]) -> int:
    """Return how many of ``texts`` are also in ``others``, by title or by sentences, whatever their ids.

    If a recipe made one of two texts of a paper, such as a crop, the paper's id also decides.
    """
    known = {key for other in others for key in _keys(other)}
    ids = {paper_of(other.id) for other in others}
    made_of = {paper_of(other.id) for other in others if paper_of(other.id) != other.id}

    def is_shared(text: Paper) -> bool:
        own = paper_of(text.id)
        return own in (made_of if own == text.id else ids) or not known.isdisjoint(_keys(text))

    return sum(map(is_shared, texts))


def _doi(name: str, doi: str | None = None) -> str:
    """Return ``doi`` in one case, or else the DOI in an id like ``doi:10.1/x``, or else an empty text."""
    return (doi or (name.removeprefix(_DOI) if name.startswith(_DOI) else "")).casefold()


def _keys(paper: Paper) -> list[str]:
    """Return the keys to find copies of a text by: its title, and its sentences."""
    text = "".join(each.text for each in paper.sentences)
    return [*_titles(paper), _OTHER.sub("", normalize("NFKC", text)).casefold()]


def _titles(paper: Paper) -> list[str]:
    """Return the title, or else the abstract, in letters and digits; empty if many papers may have it."""
    return _plain(paper.title or paper.abstract)


def letters_of(text: str) -> str:
    """Return the letters of a text in one case, to find copies with other spaces, marks or numbers."""
    return _NO_LETTER.sub("", normalize("NFKC", text)).casefold()


def _plain(title: str) -> list[str]:
    plain = _OTHER.sub("", normalize("NFKC", title)).casefold()
    return [plain] if len(plain) >= _MIN_TITLE_CHARS and plain != _SHARED else []
