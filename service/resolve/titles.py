"""The title index in memory: similar titles and completions.

Case, accents and punctuation count for nothing in either. Some 300 bytes a paper, and a tenth of a second to
build for 20,000 papers: docs/decisions/collections/titles.md.
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

# Less alike is another title. Measured on 188,235 titles: one in five letters mistyped leaves 0.80 (of 95 in
# 100 titles), a word moved 0.77, the last two fifths cut off 0.73.
LEAST_SIMILARITY = 0.6
# Of what was typed so far and as much of a title. Lower, texts of other words come; one in five letters
# mistyped leaves 0.8.
LEAST_OF_OPENING = 0.7
# Sorts after every character of a title.
_LAST = "\U0010ffff"
# What was read of segments that are in use: a new generation shares most of them with the one before.
_READ: "WeakKeyDictionary[Segment, SegmentTitles]" = WeakKeyDictionary()
# A title up to its subtitle.
_SUBTITLE = r"(?s):\s.*"
# What separates the words of ASCII text in lower case.
_NO_ASCII_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class TitleMatch:
    """A paper by its position, and how much its title is like the one asked for: 0 to 1, 1 the same words."""

    position: int
    similarity: float


class Titles:
    """The titles of a collection, safe to share between threads.

    ``living`` holds the places in each part of the papers that are not deleted.
    """

    def __init__(self, parts: Sequence["SegmentTitles"], living: Sequence[Int64[np.ndarray, "_"]]) -> None:
        self._parts = parts
        self._living = living
        self._starts: list[int] = np.cumsum([0, *map(len, parts)]).tolist()

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Titles":
        """Those of a snapshot; a segment's are read once, however many snapshots hold it."""
        for segment in snapshot.segments:
            if segment not in _READ:
                _READ[segment] = SegmentTitles(segment.column("title"))
        return cls([_READ[segment] for segment in snapshot.segments], snapshot.of_segments(snapshot.living))

    def like(self, title: str, *, limit: int) -> list[TitleMatch]:
        """The papers whose title, with or without its subtitle, is most like ``title``, best first.

        Similarity is 1 minus the characters to insert and to delete over those of both texts. Ties go to the
        whole title, then to the first paper. Raises QueryError for a text without letter and digit.
        """
        asked = _folded_one(title)
        found = [
            (-similarity, short, start + position)
            for part, living, start in zip(self._parts, self._living, self._starts, strict=False)
            for similarity, short, position in part.like(asked, living, limit=limit)
        ]
        return [TitleMatch(position, -negative) for negative, _, position in sorted(found)[:limit]]

    def named(self, title: str) -> int | None:
        """The first paper whose title has the same words; ``None`` where there is none."""
        return self.all_named([title])[0]

    def all_named(self, titles: Sequence[str]) -> list[int | None]:
        """The same for each of many titles, in a hundredth of the time each."""
        return [self._named(asked) if asked else None for asked in folded(titles)]

    def same(self, title: str) -> list[int]:
        """All papers whose title has the same words."""
        (asked,) = folded([title])
        return list(self._all_named(asked)) if asked else []

    def _named(self, asked: str) -> int | None:
        return next(self._all_named(asked), None)

    def _all_named(self, asked: str) -> Iterator[int]:
        for part, living, start in zip(self._parts, self._living, self._starts, strict=False):
            yield from (start + place for place in part.named(asked, living))

    def beginning(self, prefix: str, *, limit: int) -> list[int]:
        """The positions of papers in whose title each word of ``prefix`` begins a word, in any order.

        Titles that begin with all of ``prefix`` come first, then the shorter before the longer. Raises
        QueryError for a text without letter and digit.
        """
        asked = _folded_one(prefix)
        found = [
            (not opens, length, start + position)
            for part, living, start in zip(self._parts, self._living, self._starts, strict=False)
            for opens, length, position in part.beginning(asked, living, limit=limit)
        ]
        return [position for _, _, position in sorted(found)[:limit]]

    def opening_like(self, prefix: str, *, limit: int) -> list[int]:
        """The positions of papers whose titles open most like ``prefix``, which may be mistyped.

        As much of a title is compared as was typed; ties go to the shorter title. Raises QueryError for a
        text without letter and digit.
        """
        asked = _folded_one(prefix)
        found = [
            (-similarity, length, start + position)
            for part, living, start in zip(self._parts, self._living, self._starts, strict=False)
            for similarity, length, position in part.opening_like(asked, living, limit=limit)
        ]
        return [position for _, _, position in sorted(found)[:limit]]


class SegmentTitles:
    """The titles of one segment; a paper's place is its number there."""

    def __init__(self, titles: pa.ChunkedArray) -> None:
        folded = fold(titles)
        self._n_papers = len(titles)
        self._folded: list[str] = folded.to_pylist()
        # Cited, a paper often goes by its title alone, without the subtitle.
        short = np.flatnonzero(np.asarray(pc.match_substring_regex(titles, _SUBTITLE)))
        self._forms = (
            self._folded
            + fold(pc.replace_substring_regex(titles.take(pa.array(short)), _SUBTITLE, "")).to_pylist()
        )
        self._paper_of_form: Int64[np.ndarray, " n_forms"] = np.concatenate([np.arange(len(titles)), short])
        self._vocabulary, self._bounds, self._papers_of_word = _postings(folded)
        # Positions in alphabetical order of the titles, and shortest title first.
        self._by_text: Int32[np.ndarray, " n_papers"] = np.asarray(pc.sort_indices(folded)).astype(np.int32)
        self._lengths = np.asarray(pc.utf8_length(folded))
        by_length = np.argsort(self._lengths, kind="stable")
        self._by_length: Int32[np.ndarray, " n_papers"] = by_length.astype(np.int32)

    def __len__(self) -> int:
        return self._n_papers

    def named(self, asked: str, living: Int64[np.ndarray, " n_living"]) -> list[int]:
        """The living papers with this title, in folded form, in their order."""
        key = self._folded.__getitem__
        first, last = (find(self._by_text, asked, key=key) for find in (bisect_left, bisect_right))
        if first == last:
            return []
        places = np.sort(self._by_text[first:last])
        # Both ascend; looking through all that live would take as long as all else of a list of titles.
        at = np.searchsorted(living, places)
        return [
            place
            for place, number in zip(places.tolist(), at.tolist(), strict=True)
            if number < len(living) and living[number] == place
        ]

    def like(
        self, asked: str, living: Int64[np.ndarray, " n_living"], *, limit: int
    ) -> list[tuple[float, bool, int]]:
        """Similarity, whether only to the title without its subtitle, and place of the titles most alike."""
        found = _similarities(asked, self._forms, least=LEAST_SIMILARITY)
        is_there = np.zeros(self._n_papers, dtype=bool)
        is_there[living] = True
        forms = np.flatnonzero((found >= LEAST_SIMILARITY) & is_there[self._paper_of_form])
        best: dict[int, tuple[float, bool, int]] = {}
        # Forms are in order: whole titles first.
        for form in forms[np.argsort(-found[forms], kind="stable")].tolist():
            place = int(self._paper_of_form[form])
            best.setdefault(place, (float(found[form]), bool(form >= self._n_papers), place))
            if len(best) == limit:
                break
        return list(best.values())

    def beginning(
        self, asked: str, living: Int64[np.ndarray, " n_living"], *, limit: int
    ) -> list[tuple[bool, int, int]]:
        """Whether it opens so, length and place of the titles that hold the words begun, best first."""
        holds = np.zeros(self._n_papers, dtype=bool)
        holds[living] = True
        for word in dict.fromkeys(asked.split()):
            holds &= self._holding(word)
        found = self._by_length[holds[self._by_length]]
        opens = np.zeros(self._n_papers, dtype=bool)
        opens[self._by_text[slice(*self._opening(asked))]] = True
        first = opens[found]
        best = np.concatenate([found[first], found[~first]])[:limit].tolist()
        return [(bool(opens[place]), int(self._lengths[place]), place) for place in best]

    def opening_like(
        self, asked: str, living: Int64[np.ndarray, " n_living"], *, limit: int
    ) -> list[tuple[float, int, int]]:
        """Similarity, length and place of the titles that open most like ``asked``, best first."""
        openings = [self._folded[place][: len(asked)] for place in living.tolist()]
        found = _similarities(asked, openings, least=LEAST_OF_OPENING)
        best = np.lexsort((self._lengths[living], -found))[:limit]
        return [
            (float(found[i]), int(self._lengths[living[i]]), int(living[i]))
            for i in best[found[best] >= LEAST_OF_OPENING].tolist()
        ]

    def _holding(self, word: str) -> Bool[np.ndarray, " n_papers"]:
        """Which titles hold a word that begins with ``word``."""
        first = bisect_left(self._vocabulary, word)
        end = bisect_left(self._vocabulary, word + _LAST)
        holds = np.zeros(self._n_papers, dtype=bool)
        holds[self._papers_of_word[self._bounds[first] : self._bounds[end]]] = True
        return holds

    def _opening(self, asked: str) -> tuple[int, int]:
        """From where to where, in alphabetical order, titles begin with ``asked``."""
        title_at = self._folded.__getitem__
        first = bisect_left(self._by_text, asked, key=title_at)
        return first, bisect_left(self._by_text, asked + _LAST, lo=first, key=title_at)


def _similarities(asked: str, texts: Sequence[str], *, least: float) -> Float32[np.ndarray, " n_texts"]:
    """How much each of ``texts`` is like ``asked``, 0 for those that are less so than ``least``."""
    found: Float32[np.ndarray, " n_texts"] = cdist(
        [asked], texts, scorer=Indel.normalized_similarity, score_cutoff=least, dtype=np.float32
    )[0]
    return found


def fold(titles: Any) -> Any:
    """Texts (Arrow) in lower case, without accents, every run of what is no letter or digit as one space."""
    plain = pc.replace_substring_regex(pc.utf8_normalize(titles, "NFKD"), r"\p{Mn}+", "")
    spaced = pc.replace_substring_regex(pc.utf8_lower(plain), r"[^\pL\pN\pM]+", " ")
    folded = pc.utf8_trim(spaced, " ")
    return folded.combine_chunks() if isinstance(folded, pa.ChunkedArray) else folded


def folded(texts: Sequence[str]) -> list[str]:
    """As ``fold``, of plain texts; empty where there is no letter and no digit."""
    if all(map(str.isascii, texts)):  # most are; the first step in Arrow alone takes 2.5 ms
        return [_NO_ASCII_WORD.sub(" ", text.lower()).strip(" ") for text in texts]
    # A lone surrogate, which Arrow cannot hold, is no letter anyway.
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
    """The words in alphabetical order, and the papers of word ``i`` between bounds ``i`` and ``i + 1``."""
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
