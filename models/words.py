"""The words of a text, as they are compared: folded, without stop words, stemmed.

A word is a run of letters and digits, two at least. Scripts that are written without spaces (Chinese,
Japanese, Thai and their neighbours) give every two characters that stand side by side. Stems are those of
English; the words of other languages become what the same stemmer makes of them, equal for equal words.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    forms: dict[str, Counter[str]] = {}
    for start, end, stem in places(text, wanted):
        forms.setdefault(stem, Counter())[text[start:end]] += 1
    return {stem: written.most_common(1)[0][0] for stem, written in forms.items()}


def places(text: str, wanted: Collection[str]) -> list[tuple[int, int, str]]:
    """Where words with the ``wanted`` stems stand in ``text``, each ``text[start:end]`` with its stem."""
    spans = [(*span, _folded(text[slice(*span)])) for span in _likely_spans(text, wanted)]
    spans = [span for span in spans if span[2] not in STOP_WORDS]
    found = zip(spans, _stemmed([folded for _, _, folded in spans]), strict=True)
    return [(start, end, stem) for (start, end, _), stem in found if stem in wanted]


def _likely_spans(text: str, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where each word of ``text`` begins and ends that begins like one of the ``wanted`` stems.

    The stemmer leaves the first character of a word as it is, and the second of all but short ones.
    """
    firsts = {stem[:1] for stem in wanted}
    pairs = {stem[:2] for stem in wanted if len(stem) > 3} | {
        stem[0] for stem in wanted if 0 < len(stem) <= 3
    }
    if text.isascii():  # some times as fast
        for run in _ASCII.finditer(text):
            pair = run[0][:2].lower()
            if pair in pairs or pair[0] in pairs:
                yield run.start(), min(run.end(), run.start() + MAX_WORD_CHARS)
        return
    for start, end in _spans(text):
        if text[start].lower() in firsts or not text[start].isascii():
            yield start, end


def _written(text: str) -> Iterable[str]:
    """The words of ``text`` as they stand there."""
    if text.isascii():  # three times as fast
        return [word[:MAX_WORD_CHARS] for word in _ASCII.findall(text)]
    return (text[start:end] for start, end in _spans(text))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each word of ``text`` begins and ends."""
    for run in _RUN.finditer(text):
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
