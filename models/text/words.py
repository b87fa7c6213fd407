"""The words of a text, normalised for comparison: folded, without stop words, stemmed.

A word is a run of at least two letters or digits. Names are words too: two runs joined by a hyphen, if one is
a number or a single character ("GPT-4" gives gpt and gpt4), and a run with + or # after it ("C++"). In
scripts without spaces (Chinese, Japanese, Thai and their neighbours), every two adjacent characters are a
word. All words go through the English stemmer; in other languages, equal words still get equal stems.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import Stemmer

# Lucene's stop words for English, which say nothing about the topic of a paper.
STOP_WORDS: Final = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no"}
    | {"not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this"}
    | {"to", "was", "will", "with"}
)
# Words of sentences on any topic, and words with which abstracts describe themselves ("in this paper, we
# propose a novel method", "results show"). They are weighted by their rarity, but not shown as shared words.
_OF_SENTENCES: Final = """
    i me my mine we us our ours you your yours he him his she her hers its they them theirs oneself itself
    themselves ourselves who whom whose which what whatever when whenever where wherever why how whether
    while whereas although though because since unless until than those each every either neither both all
    any some several many much more most less least few other others another same own only also too very
    quite rather even still yet already often usually typically generally always never sometimes once
    again again here however thus therefore hence moreover furthermore additionally finally first second
    third firstly secondly respectively namely especially particularly specifically about above across
    after against along among amongst around before behind below beneath beside besides between beyond
    despite down during except from further instead like near off onto out over per regarding through
    throughout toward towards under up upon using via versus within without can cannot could may might
    must shall should would am been being were do does did done doing have has had having nor so just well
    one two three et al eg ie etc
"""
_OF_ABSTRACTS: Final = """
    paper article study work letter thesis author propose present introduce describe investigate examine
    aim show demonstrate indicate suggest conclude result finding find found approach method novel new
    recent previous existing use base experiment outperform achieve perform significant significantly
"""
# The version of the rules for words, stored with word counts, because other rules give other words.
RULES: Final = "2"
# Only the beginning of a longer run is compared, which bounds the cost of hostile text.
MAX_WORD_CHARS: Final = 64
# How often a word of the title counts: slightly the best number on CSFCube
# (docs/decisions/retrieval/shared-words.md).
TITLE_COUNTS: Final = 2

# Thai, Lao, Tibetan, Burmese, Khmer; Japanese syllables; Chinese characters.
_UNSPACED: Final = (
    "\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
)
# Marks inside words that `\w` leaves out: accents, Hebrew and Arabic points, Indic vowels.
_MARKS: Final = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_ASCII: Final = re.compile(r"[A-Za-z0-9]{2,}")
_RUN: Final = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_UNSPACED_RUN: Final = re.compile(rf"[{_UNSPACED}]")
_PLAIN: Final = re.compile(r"[^\W_]{2,}")  # the runs of a text without unspaced characters and marks
_NOT_PLAIN: Final = re.compile(rf"[{_UNSPACED}{_MARKS}]")

_HYPHENS: Final = "\\-\u2010\u2011\u2013\u2212"
_WITHOUT_HYPHENS: Final = dict.fromkeys(map(ord, "-\u2010\u2011\u2013\u2212"))
_LETTER: Final = rf"[^\W_{_UNSPACED}]"
# The signs come first: a look behind every character of a text takes twice as long.
_JOINT: Final = re.compile(
    rf"[{_HYPHENS}+#](?:(?<=[{_HYPHENS}])(?={_LETTER})|(?<=\+)\+(?=\d|(?!{_LETTER}))|(?<=\+)(?!\+|{_LETTER})|(?<=#)(?!{_LETTER}))"
)
# The longest run before or after a joint; longer runs are in no name.
_MAX_NAME_CHARS: Final = 20
_BEFORE: Final = re.compile(rf"(?<!{_LETTER}){_LETTER}+\Z")
_AFTER: Final = re.compile(rf"(?:\d{{1,9}}+\.\d{{1,9}}+|{_LETTER}{{1,{_MAX_NAME_CHARS}}}+)(?!{_LETTER})")
_MARKS_OF_QUOTES: Final = '"\u201c-\u201e\u00ab\u00bb\u300c-\u300f'
# A quotation ends within 100 characters; a mark after a letter or digit does not begin one.
_QUOTED: Final = re.compile(
    rf"(?<![^\W_])[{_MARKS_OF_QUOTES}]([^{_MARKS_OF_QUOTES}]{{1,100}}+)[{_MARKS_OF_QUOTES}](?![^\W_])"
)
_BETWEEN: Final = re.compile(r"[\W_]+")

# How often each stem counts in a text.
WordCounts = Mapping[str, int]


def stems(text: str, *, names: bool = True) -> list[str]:
    """Return the stems of the words of ``text`` in order, then those of its ``names``; without stop words.

    Takes time linear in the length of the text.
    """
    # Unless a text is ASCII, its folded form may have other words than the text, so each word is folded.
    words = _runs(text.lower()) if text.isascii() else list(map(_folded, _runs(text)))
    if names:
        words += [_folded_name(text[start:end]) for start, end in _names(text)]
    return _stemmed([word for word in words if word not in STOP_WORDS])


def count_words(title: str, abstract: str) -> WordCounts:
    """Return how often each stem counts in a paper; stems of the title count twice."""
    counts = Counter(stems(title) * TITLE_COUNTS)
    counts.update(stems(abstract))
    return counts


def phrases(text: str) -> list[str]:
    """Return the quotations in ``text`` that have a word, without their quotation marks."""
    return [found for found in _QUOTED.findall(text) if stems(found, names=False)]


def plain(text: str) -> str:
    """Return the folded letters and digits of ``text``, with a space around each run or unspaced character.

    A text contains a phrase if its plain form contains the plain form of the phrase.
    """
    folded = _UNSPACED_RUN.sub(r" \g<0> ", _folded(text))
    return f" {_BETWEEN.sub(' ', folded).strip()} "


def spellings_of(text: str, wanted: Collection[str]) -> dict[str, str]:
    """Return the most frequent spelling of each ``wanted`` stem in ``text``; the first if several tie."""
    begin, plain_text = _first_characters(wanted), text.isascii()
    times = Counter(
        [word for word in _written(text) if word[0] in begin or not (plain_text or word.isascii())]
    )
    forms: dict[str, str] = {}
    for word, stem in _with_stems(times, wanted).items():
        if stem not in forms or times[word] > times[forms[stem]]:
            forms[stem] = word
    return forms


def places(text: str, wanted: Collection[str]) -> list[tuple[int, int, str]]:
    """Return ``(start, end, stem)`` of each word ``text[start:end]`` that has one of the ``wanted`` stems.

    They are sorted by ``start``, a name before the word that begins with it.
    """
    if not wanted:
        return []
    spans = [*(_ascii_spans(text, wanted) if text.isascii() else _spans(text)), *_names(text)]
    found = ((start, end, stem_of(text[start:end])) for start, end in spans)
    return sorted((place for place in found if place[2] in wanted), key=lambda place: (place[0], -place[1]))


@lru_cache(maxsize=1)
def common_stems() -> frozenset[str]:
    """Return the stems of words in abstracts on any topic: "we", "our", "propose", "results"."""
    return frozenset(_stemmed(f"{_OF_SENTENCES} {_OF_ABSTRACTS}".split()))


def _first_characters(wanted: Collection[str]) -> set[str]:
    """Return the characters that ASCII words of the ``wanted`` stems begin with: those of the stems."""
    return {first for stem in wanted for first in (stem[0], stem[0].upper())}


def _ascii_spans(text: str, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each word of ASCII ``text`` that has one of the ``wanted`` stems.

    Only these are looked for: to find out where every word begins takes most of the time.
    """
    begin, words, at = _first_characters(wanted), _ASCII.findall(text), 0
    known = {word for word in {*words} if word[0] in begin and stem_of(word[:MAX_WORD_CHARS]) in wanted}
    for word in words if known else ():
        if word in known:
            while True:
                at = text.index(word, at)
                end = at + len(word)
                if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                    break  # else it is a part of a longer word
                at = end
            yield at, at + min(len(word), MAX_WORD_CHARS)
            at = end


def _with_stems(words: Iterable[str], wanted: Collection[str]) -> dict[str, str]:
    """Return the ``words`` that have ``wanted`` stems, with their stems."""
    found = ((word, stem_of(word)) for word in words)
    return {word: stem for word, stem in found if stem in wanted}


@lru_cache(maxsize=1 << 15)
def stem_of(word: str) -> str:
    """Return the stem of a word, empty for a stop word; cached, because few words make up most texts."""
    folded = _folded_name(word)
    return "" if folded in STOP_WORDS else _stemmed([folded])[0]


def _written(text: str) -> list[str]:
    """Return the words of ``text`` as written, then its names."""
    return _runs(text) + [text[start:end] for start, end in _names(text)]


def _runs(text: str) -> list[str]:
    """Return the words of ``text``, without its names."""
    if text.isascii():  # three times as fast
        return [word[:MAX_WORD_CHARS] for word in _ASCII.findall(text)]
    if not _NOT_PLAIN.search(text):  # twice as fast
        return [word[:MAX_WORD_CHARS] for word in _PLAIN.findall(text)]
    return [text[start:end] for start, end in _spans(text)]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each word of ``text``."""
    for run in (_ASCII if text.isascii() else _RUN).finditer(text):
        start, end = run.span()
        if _UNSPACED_RUN.match(text, start):
            yield from ((at, at + 2) for at in range(start, end - 1))
        elif end - start > 1:
            yield start, min(end, start + MAX_WORD_CHARS)


def _names(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each name of ``text``; names in three runs joined by hyphens may overlap."""
    for joint in _JOINT.finditer(text):
        if _joins_words(text, *joint.span()):
            continue
        before = _BEFORE.search(text, max(joint.start() - _MAX_NAME_CHARS, 0), joint.start())
        if before is None:
            continue
        if joint[0][0] in "+#":
            yield before.start(), joint.end()
        elif (after := _AFTER.match(text, joint.end())) and _is_name(before[0], after[0]):
            yield before.start(), after.end()


def _joins_words(text: str, start: int, end: int) -> bool:
    """Return whether the joint ``text[start:end]`` has ASCII letters on both sides, as in no name.

    Most joints are hyphens between words, and this takes a tenth of the time of looking for the runs.
    """
    first, second = text[start - 2 : start], text[end : end + 2]
    return len(second) == 2 and all(each.isascii() and each.isalpha() for each in (first, second))


def _is_name(first: str, second: str) -> bool:
    """Return whether exactly one of two runs is a number, or neither is and one has a single character."""
    numbers = first.isdigit() + second.replace(".", "").isdigit()
    return numbers == 1 or (numbers == 0 and min(len(first), len(second)) == 1)


def _folded(text: str) -> str:
    """Return one spelling of ``text``, whatever the case, width and form of its characters."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _folded_name(name: str) -> str:
    """Return a name folded and without hyphens."""
    return _folded(name).translate(_WITHOUT_HYPHENS)


def _stemmed(folded: Sequence[str]) -> list[str]:
    # A new stemmer each time: it keeps a cache and is not safe to share between threads.
    found: list[str] = Stemmer.Stemmer("english").stemWords(folded)
    return found
