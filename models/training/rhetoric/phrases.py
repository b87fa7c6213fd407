"""Phrases that mark rhetorical functions, and the sentences of a corpus that contain them.

Distant supervision after Sugimoto and Aizawa (SDP 2022; semantics 4.4): a list of phrases for each rhetorical
function gives n-grams, and a sentence with n-grams of exactly one function is an example of this function.
We depart from the paper where it needs resources that we cannot ship: words are reduced to Snowball stems
instead of lemmas; alternatives are written in the list instead of taken from PPDB; and without a dependency
parser, an n-gram need not contain the root of its sentence.
"""

import itertools
import random
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import Stemmer

from models.errors import InputError
from models.types import Paper

PHRASES = Path(__file__).with_name("phrases.toml")
MAX_WORDS = 5  # of an n-gram, as in the paper; a longer phrase is split into its runs of five words
MIN_WORDS = 2  # one word says little about a sentence
_WORD = re.compile(r"[^\W_]+")
_CHOICE = re.compile(r"\(([^()]*)\)")
_LEFT_OVER = re.compile(r"[()|]")  # once the choices are taken out
_stemmer = Stemmer.Stemmer("english")

NGram = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PhraseList:
    """The n-grams (of stems) that stand for exactly one function each.

    ``ambiguous`` holds the n-grams left out because several functions share them, with these functions.
    """

    functions: tuple[str, ...]
    ngrams: Mapping[NGram, str]
    ambiguous: Mapping[NGram, tuple[str, ...]]

    def functions_in(self, text: str) -> frozenset[str]:
        """Return the functions that have an n-gram in ``text``."""
        words = stems(text)
        return frozenset(
            self.ngrams[ngram]
            for n in range(MIN_WORDS, MAX_WORDS + 1)
            for start in range(len(words) - n + 1)
            if (ngram := tuple(words[start : start + n])) in self.ngrams
        )


@dataclass(frozen=True, slots=True)
class Example:
    """The sentence number ``sentence`` (from 0) of ``paper``, as an example of ``function``."""

    paper: Paper
    sentence: int
    function: str


@dataclass(frozen=True, slots=True)
class MinedExamples:
    """The examples kept, and the number of sentences found for each function before the limit.

    ``n_unclear`` is the number of sentences with n-grams of several functions.
    """

    examples: tuple[Example, ...]
    n_found: Mapping[str, int]
    n_sentences: int
    n_unclear: int


def read_phrases(path: Path = PHRASES, *, least_words: int = MIN_WORDS) -> PhraseList:
    """Read a phrase list: a TOML table for each function with an array ``phrases``.

    ``(a|b c|)`` in a phrase stands for ``a``, ``b c`` or nothing. N-grams of fewer than ``least_words`` words
    are left out, as are functions without longer ones; MAX_WORDS is the paper's choice. Raises InputError for
    a file that cannot be read as a list or leaves fewer than two functions, and for a phrase of fewer than
    two words, with unpaired or nested brackets, or with ``|`` outside of brackets.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a phrase list (TOML): {error}.") from error
    owners: dict[NGram, set[str]] = defaultdict(set)
    for function, table in tables.items():
        phrases = table.get("phrases") if isinstance(table, dict) else None
        if not phrases or not isinstance(phrases, list) or not all(isinstance(p, str) for p in phrases):
            raise InputError(f'{path}: [{function}] must hold phrases = ["...", ...].')
        for phrase in phrases:
            if _LEFT_OVER.search(_CHOICE.sub("", phrase)):
                raise InputError(
                    f"{path}: [{function}] has {phrase!r}, with an unpaired or nested bracket, or | outside "
                    "of brackets; write choices like (a|b c|)."
                )
            for ngram in phrase_ngrams(phrase):
                if len(ngram) < MIN_WORDS:
                    raise InputError(
                        f"{path}: [{function}] has {phrase!r}, which may be {' '.join(ngram)!r}; "
                        f"a phrase needs at least {MIN_WORDS} words."
                    )
                if len(ngram) >= least_words:
                    owners[ngram].add(function)
    named = tuple(function for function in tables if any(function in found for found in owners.values()))
    if len(named) < 2:
        raise InputError(
            f"{path} has {len(named)} functions with phrases of {least_words} words or more; at least two "
            "are needed."
        )
    alone = {ngram: next(iter(functions)) for ngram, functions in owners.items() if len(functions) == 1}
    shared = {ngram: tuple(sorted(functions)) for ngram, functions in owners.items() if len(functions) > 1}
    return PhraseList(named, alone, shared)


def phrase_ngrams(phrase: str) -> set[NGram]:
    """Return the n-grams of a phrase: each of its readings, or its runs of MAX_WORDS words if longer."""
    found: set[NGram] = set()
    parts = _CHOICE.split(phrase)  # every second part is a choice
    choices = [part.split("|") if i % 2 else [part] for i, part in enumerate(parts)]
    for reading in itertools.product(*choices):
        words = stems(" ".join(reading))
        found.update(tuple(words[i : i + MAX_WORDS]) for i in range(max(1, len(words) - MAX_WORDS + 1)))
    return found


def stems(text: str) -> list[str]:
    """Return the Snowball stems of the words of ``text``, in lower case and in order."""
    return list(_stemmer.stemWords(_WORD.findall(text.lower())))


def mine(papers: Iterable[Paper], phrases: PhraseList, *, per_function: int, seed: int) -> MinedExamples:
    """Collect sentences with n-grams of exactly one function, at most ``per_function`` random ones of each.

    The examples are in the order of the papers.
    """
    found: dict[str, list[tuple[int, Example]]] = defaultdict(list)
    counts: Counter[str] = Counter()
    n_sentences = n_unclear = 0
    # Reservoir sampling: a uniform sample for each function in one pass, because a corpus may be large.
    draws = {function: random.Random(f"{seed}:{function}") for function in phrases.functions}  # noqa: S311 - no secret
    for paper in papers:
        for number, sentence in enumerate(paper.sentences):
            n_sentences += 1
            functions = phrases.functions_in(sentence.text)
            if len(functions) != 1:
                n_unclear += len(functions) > 1
                continue
            (function,) = functions
            counts[function] += 1
            kept, example = found[function], (n_sentences, Example(paper, number, function))
            if len(kept) < per_function:
                kept.append(example)
            elif (place := draws[function].randrange(counts[function])) < per_function:
                kept[place] = example
    in_order = sorted(itertools.chain.from_iterable(found.values()), key=lambda pair: pair[0])
    return MinedExamples(
        tuple(example for _, example in in_order),
        {function: counts[function] for function in phrases.functions},
        n_sentences,
        n_unclear,
    )
