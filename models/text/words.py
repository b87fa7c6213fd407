"""The words of a text, as they are compared: folded, without stop words, stemmed.

A word is a run of letters and digits, two at least. Names are words too: two runs joined by a hyphen, of
which one is a number or a single character ("GPT-4" gives gpt and gpt4), and a run with + or # behind it
("C++"). Scripts that are written without spaces (Chinese, Japanese, Thai and their neighbours) give every two
characters that stand side by side. Stems are those of English; the words of other languages become what the
same stemmer makes of them, equal for equal words.
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
# Words of sentences, whatever they are about, and of what every abstract says of itself ("in this paper, we
# propose a novel method", "results show"). They count as rare as they are, but do not say what papers share.
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
# What of a text is a word; it is kept with words that are counted, as other rules give others.
RULES: Final = "2"
# Of a longer run only its beginning is compared, which bounds what hostile text costs.
MAX_WORD_CHARS: Final = 64
# How often a word of the title counts: by a little the best on CSFCube:
# docs/decisions/retrieval/shared-words.md.
TITLE_COUNTS: Final = 2

# Thai, Lao, Tibetan, Burmese, Khmer; Japanese syllables; Chinese characters.
_UNSPACED: Final = (
    "\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
)
# Marks that stand inside words, which `\w` leaves out: accents, Hebrew and Arabic points, Indic vowels.
_MARKS: Final = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_ASCII: Final = re.compile(r"[A-Za-z0-9]{2,}")
_RUN: Final = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_UNSPACED_RUN: Final = re.compile(rf"[{_UNSPACED}]")
_PLAIN: Final = re.compile(r"[^\W_]{2,}")  # the runs of a text without any of the characters above
_NOT_PLAIN: Final = re.compile(rf"[{_UNSPACED}{_MARKS}]")

_HYPHENS: Final = "\\-\u2010\u2011\u2013\u2212"
_WITHOUT_HYPHENS: Final = dict.fromkeys(map(ord, "-\u2010\u2011\u2013\u2212"))
_LETTER: Final = rf"[^\W_{_UNSPACED}]"
# The signs first: looking behind every character of a text takes twice as long.
_JOINT: Final = re.compile(
    rf"[{_HYPHENS}+#](?:(?<=[{_HYPHENS}])(?={_LETTER})|(?<=\+)\+(?=\d|(?!{_LETTER}))|(?<=\+)(?!\+|{_LETTER})|(?<=#)(?!{_LETTER}))"
)
# The runs before and after; of a longer run no name is made.
_MAX_NAME_CHARS: Final = 20
_BEFORE: Final = re.compile(rf"(?<!{_LETTER}){_LETTER}+\Z")
_AFTER: Final = re.compile(rf"(?:\d{{1,9}}+\.\d{{1,9}}+|{_LETTER}{{1,{_MAX_NAME_CHARS}}}+)(?!{_LETTER})")
_MARKS_OF_QUOTES: Final = '"\u201c-\u201e\u00ab\u00bb\u300c-\u300f'
# A quotation that does not end within so many characters is none; after a letter or digit a mark begins none.
_QUOTED: Final = re.compile(
    rf"(?<![^\W_])[{_MARKS_OF_QUOTES}]([^{_MARKS_OF_QUOTES}]{{1,100}}+)[{_MARKS_OF_QUOTES}](?![^\W_])"
)
_BETWEEN: Final = re.compile(r"[\W_]+")

# How often each stem counts in a text.
WordCounts = Mapping[str, int]


def stems(text: str, *, names: bool = True) -> list[str]:
    """The stems of the words of ``text`` in their order, then, if wanted, of its names; no stop words.

    Takes time linear in the length of the text.
    """
    # Other than of ASCII, the folded form of a whole text may have other words than the text.
    words = _runs(text.lower()) if text.isascii() else list(map(_folded, _runs(text)))
    if names:
        words += [_folded_name(text[start:end]) for start, end in _names(text)]
    return _stemmed([word for word in words if word not in STOP_WORDS])


def count_words(title: str, abstract: str) -> WordCounts:
    """How often each stem counts in a paper, those of its title twice."""
    counts = Counter(stems(title) * TITLE_COUNTS)
    counts.update(stems(abstract))
    return counts


def phrases(text: str) -> list[str]:
    """What stands between quotation marks in ``text`` and has a word, the marks left out."""
    return [found for found in _QUOTED.findall(text) if stems(found, names=False)]


def plain(text: str) -> str:
    """The letters and digits of ``text`` in one spelling, a space around every run and every unspaced one.

    So a text has a phrase where its plain form has that of the phrase.
    """
    folded = _UNSPACED_RUN.sub(r" \g<0> ", _folded(text))
    return f" {_BETWEEN.sub(' ', folded).strip()} "


def written_as(text: str, wanted: Collection[str]) -> dict[str, str]:
    """How ``text`` writes the ``wanted`` stems that it has: most often so, or first of those as often."""
    # In ASCII no stem begins unlike its word, so most words need not be stemmed.
    begin = {first for stem in wanted for first in (stem[0], stem[0].upper())}
    plain_text = text.isascii()
    times = Counter(
        [word for word in _written(text) if word[0] in begin or not (plain_text or word.isascii())]
    )
    forms: dict[str, str] = {}
    for word, stem in _with_stems(times, wanted).items():
        if stem not in forms or times[word] > times[forms[stem]]:
            forms[stem] = word
    return forms


def places(text: str, wanted: Collection[str]) -> list[tuple[int, int, str]]:
    """Where words with the ``wanted`` stems stand in ``text``, each ``text[start:end]`` with its stem.

    They come by where they begin, a name before the words in it.
    """
    ends = sorted([*_spans(text), *_names(text)], key=lambda span: (span[0], -span[1]))
    spans = [(start, end, text[start:end]) for start, end in ends]
    known = _with_stems({word for _, _, word in spans}, wanted)
    return [(start, end, known[word]) for start, end, word in spans if word in known]


@lru_cache(maxsize=1)
def everyday_stems() -> frozenset[str]:
    """The stems of words that stand in abstracts on anything: "we", "our", "propose", "results"."""
    return frozenset(_stemmed(f"{_OF_SENTENCES} {_OF_ABSTRACTS}".split()))


def _with_stems(words: Iterable[str], wanted: Collection[str]) -> dict[str, str]:
    """Those of the ``words`` that have ``wanted`` stems, with these."""
    found = ((word, stem_of(word)) for word in words)
    return {word: stem for word, stem in found if stem in wanted}


@lru_cache(maxsize=1 << 15)
def stem_of(word: str) -> str:
    """The stem of one word as it is written; empty for a stop word. Few words make up most of all texts."""
    folded = _folded_name(word)
    return "" if folded in STOP_WORDS else _stemmed([folded])[0]


def _written(text: str) -> list[str]:
    """The words of ``text`` as they stand there, then its names."""
    return _runs(text) + [text[start:end] for start, end in _names(text)]


def _runs(text: str) -> list[str]:
    """The words of ``text`` but its names."""
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


def _names(text: str) -> Iterator[tuple[int, int]]:
    """Where each name of ``text`` begins and ends; of three runs that hyphens join two names may overlap."""
    for joint in _JOINT.finditer(text):
        before = _BEFORE.search(text, max(joint.start() - _MAX_NAME_CHARS, 0), joint.start())
        if before is None:
            continue
        if joint[0][0] in "+#":
            yield before.start(), joint.end()
        elif (after := _AFTER.match(text, joint.end())) and _is_name(before[0], after[0]):
            yield before.start(), after.end()


def _is_name(first: str, second: str) -> bool:
    """Whether one of two runs is short, and not both are numbers."""
    numbers = first.isdigit() + second.replace(".", "").isdigit()
    return numbers == 1 or (numbers == 0 and min(len(first), len(second)) == 1)


def _folded(text: str) -> str:
    """One spelling, whatever the case, the width and the form of the characters."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _folded_name(name: str) -> str:
    """The same of a name, which is written without its hyphens."""
    return _folded(name).translate(_WITHOUT_HYPHENS)


def _stemmed(folded: Sequence[str]) -> list[str]:
    # A new stemmer each time: it keeps a cache and is not safe to share between threads.
    found: list[str] = Stemmer.Stemmer("english").stemWords(folded)
    return found
