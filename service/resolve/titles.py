"""The title index in memory: similar titles and completions.

Both ignore case, accents and punctuation. The index takes about 300 bytes per paper, and a tenth of a second
to build for 20,000 papers: docs/decisions/collections/titles.md.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float32, Int32, Int64
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from indexer.snapshot.segment import Segment
from indexer.snapshot.snapshot import Snapshot
from models.errors import QueryError

# A less similar title is another title. Measured on 188,235 titles: with one in five letters mistyped the
# similarity is 0.80 (in 95 of 100 titles), with a word moved 0.77, with the last two fifths cut off 0.73.
MIN_SIMILARITY = 0.6
# A title as similar as this differs by a typing error or two; another word makes more difference.
NEARLY_SAME = 0.9
# Between the typed text and as many characters of a title. A lower value finds titles with other words; with
# one in five letters mistyped the similarity is 0.8.
MIN_OPENING_SIMILARITY = 0.7
# Sorts after every character of a title.
_LAST = "\U0010ffff"
# The titles of segments in use: a new generation shares most segments with the previous one.
_READ: "WeakKeyDictionary[Segment, SegmentTitles]" = WeakKeyDictionary()
# The subtitle of a title.
_SUBTITLE = r"(?s):\s.*"
# The separators of words in lower-case ASCII text.
_NO_ASCII_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class TitleMatch:
    """The position of a paper, and the similarity of its title: 0 to 1, 1 for the same words."""

    position: int
    similarity: float


class Titles:
    """The titles of a collection, safe to share between threads.

    ``live`` has, for each part, the places of the papers that are not deleted.
    """

    def __init__(self, parts: Sequence["SegmentTitles"], live: Sequence[Int64[np.ndarray, " _"]]) -> None:
        self._parts = parts
        self._live = live
        self._starts: list[int] = np.cumsum([0, *map(len, parts)]).tolist()

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Titles":
        """Return the titles of a snapshot; a segment is read once, however many snapshots contain it."""
        for segment in (each for each in snapshot.segments if each not in _READ):
            _READ[segment] = SegmentTitles(segment.column("title"))
        live = [snapshot.kept(number) for number in range(len(snapshot.segments))]
        return cls([_READ[segment] for segment in snapshot.segments], live)

    def find(self, title: str, *, limit: int) -> list[TitleMatch]:
        """Return papers by a title that may be misspelt or shortened, best first.

        Titles that are nearly the same come first, then those that contain its words (as ``beginning``), then
        similar ones (as ``like``). Raises QueryError for a text without letter or digit.
        """
        similar = self.like(title, limit=limit)
        known = {each.position: each for each in similar}
        same = [each for each in similar if each.similarity >= NEARLY_SAME]
        holding = [
            known.get(position) or self._match(title, position)
            for position in self.beginning(title, limit=limit)
        ]
        return list(dict.fromkeys([*same, *holding, *similar]))[:limit]

    def like(self, title: str, *, limit: int) -> list[TitleMatch]:
        """Return the papers whose title, with or without subtitle, is most similar to ``title``, best first.

        Similarity is 1 minus the inserted and deleted characters divided by the length of both texts. On ties
        the whole title comes first, then the first paper. Raises QueryError for a text without letter or
        digit.
        """
        text = _folded_one(title)
        found = [
            (-similarity, short, start + position)
            for part, live, start in zip(self._parts, self._live, self._starts, strict=False)
            for similarity, short, position in part.like(text, live, limit=limit)
        ]
        return [TitleMatch(position, -negative) for negative, _, position in sorted(found)[:limit]]

    def named(self, title: str) -> int | None:
        """Return the position of the first paper whose title has the same words, or ``None``."""
        return self.all_named([title])[0]

    def all_named(self, titles: Sequence[str]) -> list[int | None]:
        """The same as ``named`` for many titles, in a hundredth of the time per title."""
        return [next(self._all_named(text), None) if text else None for text in folded(titles)]

    def same(self, title: str) -> list[int]:
        """Return the positions of all papers whose title has the same words."""
        (text,) = folded([title])
        return list(self._all_named(text)) if text else []

    def _match(self, title: str, position: int) -> TitleMatch:
        number = bisect_right(self._starts, position) - 1
        similarity = self._parts[number].similarity(_folded_one(title), position - self._starts[number])
        return TitleMatch(position, similarity)

    def _all_named(self, text: str) -> Iterator[int]:
        for part, live, start in zip(self._parts, self._live, self._starts, strict=False):
            yield from (start + place for place in part.named(text, live))

    def beginning(self, prefix: str, *, limit: int) -> list[int]:
        """Return the positions of papers in whose title each word of ``prefix`` begins a word, in any order.

        Titles that begin with the whole ``prefix`` come first, then shorter titles before longer ones. Raises
        QueryError for a text without letter or digit.
        """
        text = _folded_one(prefix)
        found = [
            (not opens, length, start + position)
            for part, live, start in zip(self._parts, self._live, self._starts, strict=False)
            for opens, length, position in part.beginning(text, live, limit=limit)
        ]
        return [position for _, _, position in sorted(found)[:limit]]

    def opening_like(self, prefix: str, *, limit: int) -> list[int]:
        """Return the positions of papers whose titles begin most like ``prefix``, which may be mistyped.

        As many characters of a title are compared as were typed; on ties the shorter title comes first.
        Raises QueryError for a text without letter or digit.
        """
        text = _folded_one(prefix)
        found = [
            (-similarity, length, start + position)
            for part, live, start in zip(self._parts, self._live, self._starts, strict=False)
            for similarity, length, position in part.opening_like(text, live, limit=limit)
        ]
        return [position for _, _, position in sorted(found)[:limit]]


class SegmentTitles:
    """The titles of one segment; a paper's place is its number in the segment."""

    def __init__(self, titles: pa.ChunkedArray) -> None:
        folded = fold(titles)
        self._n_papers = len(titles)
        self._folded: list[str] = folded.to_pylist()
        # Papers are often cited without their subtitle.
        short = np.flatnonzero(np.asarray(pc.match_substring_regex(titles, _SUBTITLE)))
        shortened = pc.replace_substring_regex(titles.take(pa.array(short)), _SUBTITLE, "")
        self._forms = self._folded + fold(shortened).to_pylist()
        self._paper_of_form: Int64[np.ndarray, " n_forms"] = np.concatenate([np.arange(len(titles)), short])
        self._vocabulary, self._bounds, self._papers_of_word = _postings(folded)
        # Places in alphabetical order of the titles, and by length, shortest title first.
        self._by_text: Int32[np.ndarray, " n_papers"] = np.asarray(pc.sort_indices(folded)).astype(np.int32)
        self._lengths = np.asarray(pc.utf8_length(folded))
        by_length = np.argsort(self._lengths, kind="stable")
        self._by_length: Int32[np.ndarray, " n_papers"] = by_length.astype(np.int32)

    def __len__(self) -> int:
        return self._n_papers

    def named(self, text: str, live: Int64[np.ndarray, " n_live"]) -> list[int]:
        """Return the places of the live papers with this folded title, in order."""
        key = self._folded.__getitem__
        first, last = (find(self._by_text, text, key=key) for find in (bisect_left, bisect_right))
        if first == last:
            return []
        places = np.sort(self._by_text[first:last])
        # Both ascend. A linear search in ``live`` would take as long as everything else for many titles.
        at = np.searchsorted(live, places)
        return [
            place
            for place, number in zip(places.tolist(), at.tolist(), strict=True)
            if number < len(live) and live[number] == place
        ]

    def like(
        self, text: str, live: Int64[np.ndarray, " n_live"], *, limit: int
    ) -> list[tuple[float, bool, int]]:
        """Return the best titles: similarity, whether only without the subtitle, and place."""
        found = _similarities(text, self._forms, least=MIN_SIMILARITY)
        is_there = np.zeros(self._n_papers, dtype=bool)
        is_there[live] = True
        forms = np.flatnonzero((found >= MIN_SIMILARITY) & is_there[self._paper_of_form])
        best: dict[int, tuple[float, bool, int]] = {}
        # Whole titles come before titles without subtitle, and the sort is stable.
        for form in forms[np.argsort(-found[forms], kind="stable")].tolist():
            place = int(self._paper_of_form[form])
            best.setdefault(place, (float(found[form]), bool(form >= self._n_papers), place))
            if len(best) == limit:
                break
        return list(best.values())

    def similarity(self, text: str, place: int) -> float:
        """Return the similarity of the title at ``place``, with or without its subtitle."""
        short = self._paper_of_form[self._n_papers :]  # ascending, after a form for each paper
        first, last = np.searchsorted(short, [place, place + 1]).tolist()
        forms = [self._folded[place], *self._forms[self._n_papers + first : self._n_papers + last]]
        return max(float(Indel.normalized_similarity(text, form)) for form in forms)

    def beginning(
        self, text: str, live: Int64[np.ndarray, " n_live"], *, limit: int
    ) -> list[tuple[bool, int, int]]:
        """Return, best first, whether a matching title begins with the text, its length and its place."""
        holds = np.zeros(self._n_papers, dtype=bool)
        holds[live] = True
        for word in dict.fromkeys(text.split()):
            holds &= self._holding(word)
        found = self._by_length[holds[self._by_length]]
        opens = np.zeros(self._n_papers, dtype=bool)
        opens[self._by_text[slice(*self._opening(text))]] = True
        first = opens[found]
        best = np.concatenate([found[first], found[~first]])[:limit].tolist()
        return [(bool(opens[place]), int(self._lengths[place]), place) for place in best]

    def opening_like(
        self, text: str, live: Int64[np.ndarray, " n_live"], *, limit: int
    ) -> list[tuple[float, int, int]]:
        """Return similarity, length and place of the titles that begin most like ``text``, best first."""
        openings = [self._folded[place][: len(text)] for place in live.tolist()]
        found = _similarities(text, openings, least=MIN_OPENING_SIMILARITY)
        best = np.lexsort((self._lengths[live], -found))[:limit]
        return [
            (float(found[i]), int(self._lengths[live[i]]), int(live[i]))
            for i in best[found[best] >= MIN_OPENING_SIMILARITY].tolist()
        ]

    def _holding(self, word: str) -> Bool[np.ndarray, " n_papers"]:
        """Return which titles contain a word that begins with ``word``."""
        first = bisect_left(self._vocabulary, word)
        end = bisect_left(self._vocabulary, word + _LAST)
        holds = np.zeros(self._n_papers, dtype=bool)
        holds[self._papers_of_word[self._bounds[first] : self._bounds[end]]] = True
        return holds

    def _opening(self, text: str) -> tuple[int, int]:
        """Return the range, in alphabetical order, of the titles that begin with ``text``."""
        title_at = self._folded.__getitem__
        first = bisect_left(self._by_text, text, key=title_at)
        return first, bisect_left(self._by_text, text + _LAST, lo=first, key=title_at)


def _similarities(text: str, texts: Sequence[str], *, least: float) -> Float32[np.ndarray, " n_texts"]:
    """Return the similarity of each of ``texts`` to ``text``, 0 if it is less than ``least``."""
    found: Float32[np.ndarray, " n_texts"] = cdist(
        [text], texts, scorer=Indel.normalized_similarity, score_cutoff=least, dtype=np.float32
    )[0]
    return found


def fold(titles: Any) -> Any:
    """Return texts (Arrow) in lower case, without accents, with a space for each run of other characters."""
    plain = pc.replace_substring_regex(pc.utf8_normalize(titles, "NFKD"), r"\p{Mn}+", "")
    spaced = pc.replace_substring_regex(pc.utf8_lower(plain), r"[^\pL\pN\pM]+", " ")
    folded = pc.utf8_trim(spaced, " ")
    return folded.combine_chunks() if isinstance(folded, pa.ChunkedArray) else folded


def folded(texts: Sequence[str]) -> list[str]:
    """The same as ``fold``, but for Python strings; a text without letters and digits becomes empty."""
    if all(map(str.isascii, texts)):  # most are; the first step in Arrow alone takes 2.5 ms
        return [_NO_ASCII_WORD.sub(" ", text.lower()).strip(" ") for text in texts]
    # Arrow cannot store a lone surrogate, which is no letter anyway.
    readable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    found: list[str] = fold(pa.array(readable, pa.string())).to_pylist()
    return found


def _folded_one(text: str) -> str:
    (found,) = folded([text])
    if not found:
        raise QueryError("The text contains no letter and no digit; give words of a title.")
    return found


def _postings(
    folded: Any,
) -> tuple[list[str], Int64[np.ndarray, " n_words_plus_1"], Int32[np.ndarray, " n_postings"]]:
    """Return the sorted words, and papers: those of word ``i`` lie between bounds ``i`` and ``i + 1``."""
    words = pc.split_pattern(folded, " ")
    encoded = words.flatten().dictionary_encode()
    papers = np.asarray(pc.list_parent_indices(words)).astype(np.int32)
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    of_posting = ranks[np.asarray(encoded.indices)]
    by_word = np.argsort(of_posting, kind="stable")
    bounds = np.searchsorted(of_posting[by_word], np.arange(len(order) + 1)).astype(np.int64)
    return encoded.dictionary.take(pa.array(order)).to_pylist(), bounds, papers[by_word]
