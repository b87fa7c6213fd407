"""Splits a text into sentences with exact character offsets, in time linear in the text."""

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import sentencex

from models.counts import counted
from models.errors import InputError
from models.types import Facet, Sentence

# Stored in snapshots: other boundaries give other sentence numbers. Raise it with every change of a rule.
SPLITTER_VERSION = f"3/sentencex-{version('sentencex')}"
# A longer text is a list, a table or junk; an encoder reads about this much of a paper (500 WordPieces).
MAX_SENTENCE_CHARS = 2000
# How far a merge rule reads: longer than any abbreviation, but bounded, so that its cost is too.
_CONTEXT_CHARS = 40
# The window for sentencex, and the one used if that has no boundary: longer than any sentence kept whole.
_WINDOW_CHARS = 500
_WIDE_WINDOW_CHARS = MAX_SENTENCE_CHARS + 1

# The last space in Unicode: a search of all characters would take a tenth of a second at each start.
_LAST_SPACE = ord("\N{IDEOGRAPHIC SPACE}")

# sentencex never splits between quotes or brackets, even if the quote is an apostrophe or the bracket is
# never closed, and it searches for the partner in quadratic time. Masking them avoids both faults. Line ends,
# which hard-wrapped text has inside sentences, and lone surrogates, which UTF-8 cannot encode, are masked as
# well.
_MASK = str.maketrans(
    dict.fromkeys("<>\"'`()[]{}‘’‚‛“”„‟‹›«»「」『』（）【】〈〉《》", "_")
    | dict.fromkeys(map(chr, range(0xD800, 0xE000)), "_")
    | dict.fromkeys(filter(str.isspace, map(chr, range(_LAST_SPACE + 1))), " ")
)
_CLOSING = "\"'”’»)]}"
# 'They ask "why?" We ...' ends at the quote: sentencex gets 'why??'.
_CLOSERS_AFTER_STOP = re.compile(rf"[.!?…][{re.escape(_CLOSING)}]+(?=\s|$)")
# Inline maths: dollars next to the formula on both sides, so not "$5 or $10". A stop in it ends no sentence,
_MATHS = re.compile(r"\$(?=\S)[^$]{1,300}(?<=\S)\$(?!\d)")
# nor does a stop in a short bracket: "(Smith et al. 2003. See there)".
_BRACKETED = re.compile(r"\([^()]{1,200}\)|\[[^][]{1,200}\]")
_STOP = re.compile(r"[.!?。！？]")
# A single capital behind one of these words is no initial: "type B. Results show".
_LETTERED = (
    "class group hepatitis influenza language langue part phase stage subtask task type vitamin".split()  # noqa: SIM905 - a list of words reads better
)
# sentencex mistakes these for abbreviations: a variable ("for every n. We"), "art." (German: article),
# "sens." (French: sense), "etc." and acronyms ("MT. We"). The pattern begins with the stop because a search
# for one character is fast.
_NO_ABBREVIATION = re.compile(
    r"\.(?=\s+[A-Z])(?:(?<=\s[a-z]\.)|(?<=\s(?:art|etc)\.)|(?<=\ssens\.)|(?<=[A-Z]{2}\.)(?=\s+[A-Z][a-z\s])|"
    + "|".join(rf"(?<=\b(?i:{word})\s[A-Z]\.)" for word in _LETTERED)
    + ")"
)

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
_CLOSERS = re.compile(rf"[{re.escape(_CLOSING)}]{{1,9}}(?=\s|$)")
# An enumerator ("2.", "(iv)", "a)") or punctuation alone.
_NO_SENTENCE = re.compile(r"\s*+[(\[\"“‘']?(?:\d{1,2}|[ivx]{1,4}|[A-Za-z])[.)\]]++\s*+|\W++")
_WORD = re.compile(r"\w{1,40}")
_SPACE = re.compile(r"\s")
# Abbreviations that never end a sentence, in lower case and without the last stop.
_ABBREVIATIONS = frozenset(
    "e.g i.e cf vs viz approx resp wrt dr prof mr mrs ms st eq eqs eqn eqns fig figs".split()  # noqa: SIM905 - a list of words reads better
)
# Those that do not end a sentence before a number, a bracket or a single letter: "Tab. 4", "et al. (2003)".
_ABBREVIATIONS_BEFORE_NUMBERS = frozenset(
    "sec secs sect tab tabs рис табл no nos ref refs thm thms prop lem def cor alg app "  # noqa: SIM905 - the same
    "chap vol p pp ca al".split()
)
_NUMBER = re.compile(r"[\d(\[]|[A-Z]\b|[IVX]+\b")
_CAPITALISED = re.compile(r"[A-Z][a-z\s]")
# "Am 3. Mai": those that are no English words.
_GERMAN_MONTH = re.compile(r"(?:Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember)\b")


def split_sentences(text: str) -> tuple[Sentence, ...]:
    """Split ``text``; ``text[s.start:s.end] == s.text`` for every sentence ``s``.

    No sentence is empty, starts or ends with white space, or has more than MAX_SENTENCE_CHARS characters;
    every character that is not white space belongs to exactly one sentence. An empty line ends a sentence, a
    line end does not.
    """
    sentences: list[Sentence] = []
    for start, end in _spans(text):
        if end - start <= MAX_SENTENCE_CHARS:
            sentences.append(Sentence(text[start:end], start, end))
        else:
            sentences.extend(Sentence(text[i:j], i, j) for i, j in _cut(text, start, end))
    return tuple(sentences)


def sentences_from_list(
    parts: Sequence[str], facets: Sequence[Facet | None] | None = None
) -> tuple[str, tuple[Sentence, ...]]:
    """Join given sentences into ``(abstract, sentences)``: stripped, without empty ones, one space between.

    ``facets`` holds one label (or None) for each part, empty parts included; another number of labels raises
    InputError.
    """
    if facets is not None and len(facets) != len(parts):
        raise InputError(
            f"{counted(len(facets), 'facet')} for {counted(len(parts), 'sentence')}; give one facet for each "
            "sentence."
        )
    sentences: list[Sentence] = []
    start = 0
    for part, facet in zip(parts, facets or [None] * len(parts), strict=True):
        if text := part.strip():
            sentences.append(Sentence(text, start, start + len(text), facet))
            start += len(text) + 1
    return " ".join(sentence.text for sentence in sentences), tuple(sentences)


def normalised_text(text: str) -> str:
    """Return ``text`` normalised, so that texts that differ only in spacing and letter case are equal."""
    return " ".join(text.split()).casefold()


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ``(start, end)`` of each sentence, of any length, without white space at its ends."""
    forced = {match.end() for match in _PARAGRAPH_BREAK.finditer(text)} | {len(text)}
    start, lowered = 0, text.islower()
    for boundary in sorted(forced.union(_proposed(_masked(text)))):
        end = boundary
        if boundary not in forced:
            if _runs_on(text, start, boundary, lowered=lowered):
                continue
            if text[boundary] in _CLOSING and (closers := _CLOSERS.match(text, boundary)):
                end = closers.end()
        piece = text[start:end].rstrip()
        if sentence := piece.lstrip():
            yield start + len(piece) - len(sentence), start + len(piece)
        start = max(start, end)


def _masked(text: str) -> str:
    """Return ``text`` for sentencex, of the same length, with the characters that mislead it masked."""
    masked = _CLOSERS_AFTER_STOP.sub(lambda match: match[0][0] * len(match[0]), text)
    for unbroken in (_MATHS, _BRACKETED):
        masked = unbroken.sub(lambda match: _STOP.sub("_", match[0]), masked)
    masked = _NO_ABBREVIATION.sub("!", masked)
    return masked.translate(_MASK)


def _proposed(masked: str) -> Iterator[int]:
    """Yield the boundaries that sentencex finds.

    It gets one window at a time, from the last boundary found, because it looks back over a whole word at
    every stop, and text in scripts without spaces is one word.
    """
    start, size = 0, _WINDOW_CHARS
    while True:
        window = masked[start : start + size]
        found = start
        for boundary in sentencex.get_sentence_boundaries("en", window):
            # A boundary without a symbol is before a list item, inside the sentence with the list; one at
            # the end of the window does not count.
            if boundary["boundary_symbol"] is not None and boundary["end_index"] < len(window):
                found = start + boundary["end_index"]
                yield found
        if start + len(window) >= len(masked):
            return
        if found == start and size == _WINDOW_CHARS:
            size = _WIDE_WINDOW_CHARS
        else:
            start, size = found if found > start else start + len(window), _WINDOW_CHARS


def _runs_on(text: str, start: int, boundary: int, *, lowered: bool) -> bool:
    """Return whether the sentence that begins at ``start`` continues after ``boundary``."""
    # "iPhone" and "cfKG" may begin a sentence, "however" may not, unless all of the text is in lower case.
    is_low = not lowered and text[boundary].islower()
    if is_low and (word := _WORD.match(text, boundary)) and word.group().islower():
        return True
    if boundary - start < _CONTEXT_CHARS and _NO_SENTENCE.fullmatch(text, start, boundary):
        return True
    left = text[max(start, boundary - _CONTEXT_CHARS) : boundary].rsplit(maxsplit=1)
    written = left[-1].strip("([.") if left and left[-1].endswith(".") else ""
    last_word = written.lower()
    if last_word in _ABBREVIATIONS:
        return not (written.isupper() and _CAPITALISED.match(text, boundary))  # "MR. We": an acronym
    return (last_word in _ABBREVIATIONS_BEFORE_NUMBERS and _NUMBER.match(text, boundary) is not None) or (
        len(last_word) < 3 and last_word.isdecimal() and _GERMAN_MONTH.match(text, boundary) is not None
    )


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a span that is too long, at the last white space before the limit, or at the limit without one."""
    while end - start > MAX_SENTENCE_CHARS:
        head = text[start : start + MAX_SENTENCE_CHARS + 1]
        kept = head[: max((space.start() for space in _SPACE.finditer(head)), default=MAX_SENTENCE_CHARS)]
        yield start, start + len(kept.rstrip())
        rest = text[start + len(kept) : end]
        start = end - len(rest.lstrip())
    yield start, end
