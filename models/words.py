"""The words of a text, as they are compared: folded, without stop words, stemmed.

A word is a run of letters and digits, two at least. Scripts that are written without spaces (Chinese,
Japanese, Thai and their neighbours) give every two characters that stand side by side. Stems are those of
English; the words of other languages become what the same stemmer makes of them, equal for equal words.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import Stemmer

# Lucene's, for English: words that say nothing of what a paper is about.
STOP_WORDS: Final = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no"}
    | {"not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this"}
    | {"to", "was", "will", "with"}
)
# Of a longer run only its beginning is compared, which bounds what hostile text costs.
MAX_WORD_CHARS: Final = 64
# How often a word of the title counts: by a little the best on CSFCube (docs/why.md, "Shared words").
TITLE_COUNTS: Final = 2

# Thai, Lao, Tibetan, Burmese, Khmer; Japanese syllables; Chinese characters.
_UNSPACED: Final = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
# Marks that stand inside words, which `\w` leaves out: accents, Hebrew and Arabic points, Indic vowels.
_MARKS: Final = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_ASCII: Final = re.compile(r"[A-Za-z0-9]{2,}")
_RUN: Final = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_UNSPACED_RUN: Final = re.compile(rf"[{_UNSPACED}]")
_PLAIN: Final = re.compile(r"[^\W_]{2,}")  # the runs of a text without any of the characters above
_NOT_PLAIN: Final = re.compile(rf"[{_UNSPACED}{_MARKS}]")

# How often each stem counts in a text.
WordCounts = Mapping[str, int]


def stems(text: str) -> list[str]:
    """The stems of the words of ``text`` in their order, stop words left out; linear in its length."""
    return _stemmed([word for word in map(_folded, _written(text)) if word not in STOP_WORDS])


def count_words(title: str, abstract: str) -> WordCounts:
    """How often each stem counts in a paper, those of its title twice."""
    counts = Counter(stems(title) * TITLE_COUNTS)
    counts.update(stems(abstract))
    return counts


def written_as(text: str, wanted: Collection[str]) -> dict[str, str]:
    """How ``text`` writes the ``wanted`` stems that it has: most often so, or first of those as often."""
    times = Counter(_written(text))
    forms: dict[str, str] = {}
    for word, stem in _with_stems(times, wanted).items():
        if stem not in forms or times[word] > times[forms[stem]]:
            forms[stem] = word
    return forms


def places(text: str, wanted: Collection[str]) -> list[tuple[int, int, str]]:
    """Where words with the ``wanted`` stems stand in ``text``, each ``text[start:end]`` with its stem."""
    spans = [(start, end, text[start:end]) for start, end in _spans(text)]
    known = _with_stems({word for _, _, word in spans}, wanted)
    return [(start, end, known[word]) for start, end, word in spans if word in known]


def _with_stems(words: Iterable[str], wanted: Collection[str]) -> dict[str, str]:
    """Those of the ``words`` that have ``wanted`` stems, with these."""
    found = ((word, _stem(word)) for word in words)
    return {word: stem for word, stem in found if stem in wanted}


@lru_cache(maxsize=1 << 15)
def _stem(word: str) -> str:
    """The stem of one word as it is written; empty for a stop word. Few words make up most of all texts."""
    folded = _folded(word)
    return "" if folded in STOP_WORDS else _stemmed([folded])[0]


def _written(text: str) -> list[str]:
    """The words of ``text`` as they stand there."""
    if text.isascii():  # three times as fast
        return [word[:MAX_WORD_CHARS] for word in _ASCII.findall(text)]
    if not _NOT_PLAIN.search(text):  # twice
        return [word[:MAX_WORD_CHARS] for word in _PLAIN.findall(text)]
    return [text[start:end] for start, end in _spans(text)]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each word of ``text`` begins and ends."""
    for run in (_ASCII if text.isascii() else _RUN).finditer(text):
        start, end = run.span()
        if _UNSPACED_RUN.match(text, start):
            yield from ((at, at + 2) for at in range(start, end - 1))
        elif end - start > 1:
            yield start, min(end, start + MAX_WORD_CHARS)


def _folded(word: str) -> str:
    """One spelling of a word, whatever its case and the width or form of its characters."""
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def _stemmed(folded: Sequence[str]) -> list[str]:
    # A new stemmer each time: it keeps a cache and is not safe to share between threads.
    found: list[str] = Stemmer.Stemmer("english").stemWords(folded)
    return found
