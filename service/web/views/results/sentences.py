"""The sentences of a card: highlights and their matches in the query."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from models.text.words import places, stem_of
from models.types import Facet
from service.api.schemas.base import SentenceOut
from service.api.schemas.search.recommendations import SeedAlignmentOut
from service.api.schemas.search.results import ResultOut
from service.web.views.results.alignment import share_in_words

_LEVELS: Final = 10
# The share of the match with the deepest tint.
_FULL_SHARE: Final = 0.5
# A pair below this part of a query sentence's weight is not highlighted.
_MIN_PART: Final = 0.08
# A card shows abstracts of up to this many sentences whole, and this many best sentences of longer ones.
_WHOLE: Final = 12
_SHORT: Final = 6
# The most shared words that a card lists and marks.
MAX_WORDS: Final = 8


@dataclass(frozen=True, slots=True)
class CardSentence:
    """A sentence of a result; ``weight`` is its share of the match, ``level`` 1 to 10 by it, 0: not marked.

    ``text`` is in pieces, each with whether it is a shared word that counts. ``share`` is the weight as
    text, empty if the encoder reads papers as a whole. ``opens`` if it starts a run of sentences of one
    facet, ``follows_gap`` if sentences before it are left out. ``meets`` lists the query sentences that it
    matches with their levels, such as ``0:7 3:2``.
    """

    number: int
    text: tuple[tuple[str, bool], ...]
    facet: Facet | None
    level: int
    weight: float
    share: str
    meets: str
    opens: bool
    follows_gap: bool = False


def card_sentences(result: ResultOut, n_chosen: int) -> tuple[CardSentence, ...]:
    """Return all sentences of a result, found for ``n_chosen`` sentences of the query."""
    shares = {each.sentence: each.weight for each in result.highlights}
    marked = {each.sentence for each in result.highlights if each.marked}
    meets, shared = _meets(result, n_chosen), shared_stems(result)
    before: SentenceOut | None = None
    sentences = []
    for number, sentence in enumerate(result.paper.sentences):
        weight = shares.get(number, 0.0)
        sentences.append(
            CardSentence(
                number=number,
                text=tuple(pieces(result.paper.abstract[sentence.start : sentence.end], shared)),
                facet=sentence.facet,
                level=_level(weight / _FULL_SHARE) if number in marked else 0,
                weight=weight,
                share="" if None in shares else share_in_words(weight),
                meets=" ".join(f"{query}:{level}" for query, level in sorted(meets[number].items())),
                opens=sentence.facet is not None and (before is None or before.facet != sentence.facet),
            )
        )
        before = sentence
    return tuple(sentences)


def shown_at_once(sentences: tuple[CardSentence, ...]) -> tuple[CardSentence, ...]:
    """Return all sentences of a short abstract, or the best matches of a long one, in text order."""
    if len(sentences) <= _WHOLE:
        return sentences
    heaviest = sorted(sentences, key=lambda each: (-each.weight, each.number))[:_SHORT]
    kept = sorted(heaviest, key=lambda each: each.number)
    previous = [-1, *(each.number for each in kept)]
    return tuple(
        replace(each, follows_gap=each.number != before + 1, opens=each.facet is not None)
        for each, before in zip(kept, previous, strict=False)
    )


def shared_stems(result: ResultOut) -> frozenset[str]:
    """Return the stems of the shared words shown, without those that count against the result."""
    return frozenset(stem_of(each.term) for each in result.words.terms[:MAX_WORDS] if each.share > 0)


def pieces(text: str, shared: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield ``text`` in pieces, each with whether it is a word with one of the ``shared`` stems."""
    done = 0
    for start, end, _ in places(text, shared):
        if start > done:
            yield text[done:start], False
        if end > done:  # words of unspaced scripts overlap, and names contain words
            yield text[max(start, done) : end], True
            done = end
    if done < len(text):
        yield text[done:], False


def _meets(result: ResultOut, n_chosen: int) -> defaultdict[int, dict[int, int]]:
    """Return, for each sentence of a result, the query's own sentences that it matches and their levels."""
    own = [
        (each.query_sentence, each.sentence, each.weight)
        for each in result.alignments
        if each.query_sentence is not None
        and each.sentence is not None
        and not (isinstance(each, SeedAlignmentOut) and (each.seed or each.negative))
        and each.weight > 0
    ]
    total = sum(weight for _, _, weight in own)
    met: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for query, sentence, weight in own:
        # With equal weights, each query sentence would have 1 / n_chosen of the total.
        part = weight / total * n_chosen
        if part >= _MIN_PART:
            met[sentence][query] = _level(part)
    return met


def _level(part: float) -> int:
    """Return 0 for no part, and 1 to _LEVELS for parts up to 1."""
    return min(_LEVELS, math.ceil(_LEVELS * part - 1e-9)) if part > 0 else 0
