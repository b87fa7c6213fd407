"""Results as cards: each sentence with its weight, what it meets in the query, and where one may go on."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from models.types import Facet
from models.words import places, stem_of
from service.api.schemas.base import PaperOut, SentenceOut
from service.api.schemas.recommendations import SeedAlignmentOut
from service.api.schemas.search import ResultOut, StrengthOut
from service.web.asked import Asked
from service.web.views.alignment import AlignmentView, Source, draw_alignment, share_in_words

LEVELS: Final = 10
# The share of a match from which a sentence has the deepest tint.
_FULL_SHARE: Final = 0.5
# Below this part of what a query sentence counts, a pair is not lit.
_LEAST_PART: Final = 0.08
# Sentences up to which a card shows the whole abstract; of longer ones those that match best.
_WHOLE: Final = 12
_SHORT: Final = 6
_MOST_AUTHORS: Final = 6
_MOST_WORDS: Final = 8
# Where papers are that ids begin with.
_ARCHIVES: Final = {
    "arxiv": "https://arxiv.org/abs/",
    "acl": "https://aclanthology.org/",
    "pmid": "https://pubmed.ncbi.nlm.nih.gov/",
    "doi": "https://doi.org/",
}
# A DOI as it is written into an address.
_SAFE_IN_DOI: Final = "/:;()._-"


@dataclass(frozen=True, slots=True)
class CardSentence:
    """A sentence of a result: ``level`` 0 to 10 by ``share``, its part of the match in words.

    ``text`` comes in pieces, each with whether it is a shared word that counts. ``opens`` a run of sentences
    of one facet; ``follows`` where sentences before it are left out. ``meets`` names the query sentences it
    matches with their levels, as ``0:7 3:2``.
    """

    number: int
    text: tuple[tuple[str, bool], ...]
    facet: Facet | None
    level: int
    share: str
    meets: str
    opens: bool
    follows_gap: bool = False


@dataclass(frozen=True, slots=True)
class CardWord:
    """A word that query and result share; ``share`` is its part of what they all count, in words."""

    term: str
    share: str
    unlike: bool


@dataclass(frozen=True, slots=True)
class AkinTo:
    """Of several seeds one that a result is akin to, and how much of the match is with it."""

    title: str
    share: str
    negative: bool


@dataclass(frozen=True, slots=True)
class Card:
    """One result as it is shown; addresses are empty where there is none.

    ``heading`` is the title in pieces, each with whether it is a shared word that counts.
    ``sentences`` are those that are shown at once, ``whole`` all where that are more. ``bar`` is 1 to 100,
    within its page: 100 is the closest. ``strength`` is a word, ``nearer_than`` a sentence on it.
    ``alignment`` is that of an opened card, ``why`` opens it.
    """

    rank: int
    id: str
    title: str
    heading: tuple[tuple[str, bool], ...]
    authors: str
    venue: str
    year: int | None
    score: str
    strength: str
    nearer_than: str
    bar: int
    sentences: tuple[CardSentence, ...]
    whole: tuple[CardSentence, ...]
    words: tuple[CardWord, ...]
    akin_to: tuple[AkinTo, ...]
    alignment: AlignmentView | None
    why: str
    out: str
    start: str
    more: str
    less: str


def make_cards(
    results: Sequence[ResultOut],
    asked: Asked,
    *,
    first_rank: int,
    n_chosen: int,
    sources: Sequence[Source],
) -> tuple[Card, ...]:
    """The cards of a page, found for ``sources``; ``n_chosen`` sentences of the first of them count."""
    scores = [result.score for result in results]
    return tuple(
        _card(result, asked, rank, bar=_bar(result.score, scores), n_chosen=n_chosen, sources=sources)
        for rank, result in enumerate(results, start=first_rank)
    )


def web_address(paper: PaperOut) -> str:
    """Where a paper is on the web: by its DOI, as its corpus says, or by its id; never but on the web."""
    if paper.doi:
        doi = paper.doi.lower().removeprefix("https://doi.org/").removeprefix("doi:")
        return _archive_address(f"doi:{doi}") if doi.startswith("10.") else ""
    url = paper.url or ""
    return url if url.lower().startswith(("https://", "http://")) else _archive_address(paper.id)


def _archive_address(paper_id: str) -> str:
    """Where a paper is by its id, if that is one of the arXiv, the ACL Anthology, PubMed or a DOI."""
    archive, _, name = paper_id.partition(":")
    return f"{_ARCHIVES[archive]}{quote(name, safe=_SAFE_IN_DOI)}" if name and archive in _ARCHIVES else ""


def _card(
    result: ResultOut,
    asked: Asked,
    rank: int,
    *,
    bar: int,
    n_chosen: int,
    sources: Sequence[Source],
) -> Card:
    paper = result.paper
    shared = _shared(result)
    sentences = tuple(_sentences(result, n_chosen, shared))
    shown = _shown(sentences)
    return Card(
        rank=rank,
        id=paper.id,
        title=paper.title or "Without a title",
        heading=tuple(_pieces(paper.title, shared)) or (("Without a title", False),),
        authors=_authors(paper.authors),
        venue=paper.venue or "",
        year=paper.year,
        score=f"{result.score:.3f}".replace("-", "−"),
        strength=result.strength.label if result.strength else "",
        nearer_than=_nearer_than(result.strength) if result.strength else "",
        bar=bar,
        sentences=shown,
        whole=sentences if len(shown) < len(sentences) else (),
        words=tuple(
            CardWord(each.term, share_in_words(abs(each.share)), unlike=each.share < 0)
            for each in result.words.terms[:_MOST_WORDS]
        ),
        akin_to=tuple(_akin_to(result, sources)) if len(sources) > 1 else (),
        # Of an opened card alone: drawings are many times as large as all else.
        alignment=draw_alignment(result, sources) if rank == asked.opened else None,
        why=f"{asked.address(cursor=asked.cursor, opened=rank)}#result-{rank}",
        out=web_address(paper),
        start=Asked(paper=paper.id).address(),
        more=asked.address(like=(*asked.like, paper.id)),
        less=asked.address(not_like=(*asked.not_like, paper.id)),
    )


def _nearer_than(strength: StrengthOut) -> str:
    return f"Nearer than {strength.nearer_than:.0%} of the papers here are to their own nearest paper."


def _bar(score: float, scores: Sequence[float]) -> int:
    best, worst = max(scores), min(scores)
    # A list of equals is a list of full bars; the last of a page still has one that can be seen.
    return 100 if best == worst else round(100 - 80 * (best - score) / (best - worst))


def _sentences(result: ResultOut, n_chosen: int, shared: Collection[str]) -> Iterator[CardSentence]:
    shares = {each.sentence: each.weight for each in result.highlights}
    meets = _meets(result, n_chosen)
    before: SentenceOut | None = None
    for number, sentence in enumerate(result.paper.sentences):
        share = shares.get(number, shares.get(None, 0.0))
        yield CardSentence(
            number=number,
            text=tuple(_pieces(result.paper.abstract[sentence.start : sentence.end], shared)),
            facet=sentence.facet,
            level=_level(share / _FULL_SHARE),
            share=share_in_words(share),
            meets=" ".join(f"{query}:{level}" for query, level in sorted(meets[number].items())),
            opens=sentence.facet is not None and (before is None or before.facet != sentence.facet),
        )
        before = sentence


def _shared(result: ResultOut) -> frozenset[str]:
    """The stems of the shared words that are shown, those held against the result aside."""
    return frozenset(stem_of(each.term) for each in result.words.terms[:_MOST_WORDS] if each.share > 0)


def _pieces(text: str, shared: Collection[str]) -> Iterator[tuple[str, bool]]:
    """``text`` in pieces, the words with ``shared`` stems apart."""
    done = 0
    for start, end, _ in places(text, shared):
        if start > done:
            yield text[done:start], False
        if end > done:  # words of unspaced scripts overlap, names hold words
            yield text[max(start, done) : end], True
            done = end
    if done < len(text):
        yield text[done:], False


def _meets(result: ResultOut, n_chosen: int) -> defaultdict[int, dict[int, int]]:
    """For each sentence of a result the query's own sentences that it matches, with their levels."""
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
        # Were all query sentences to count alike, each would have 1 / n_chosen of the total to give.
        part = weight / total * n_chosen
        if part >= _LEAST_PART:
            met[sentence][query] = _level(part)
    return met


def _level(part: float) -> int:
    """0 for nothing, 1 to LEVELS for parts up to the whole."""
    return min(LEVELS, math.ceil(LEVELS * part - 1e-9)) if part > 0 else 0


def _shown(sentences: tuple[CardSentence, ...]) -> tuple[CardSentence, ...]:
    """All sentences of a short abstract, the best matches of a long one, in its order."""
    if len(sentences) <= _WHOLE:
        return sentences
    weights = sorted(sentences, key=lambda each: (-each.level, each.number))[:_SHORT]
    kept = sorted(weights, key=lambda each: each.number)
    previous = [-1, *(each.number for each in kept)]
    return tuple(
        replace(each, follows_gap=each.number != before + 1, opens=each.facet is not None)
        for each, before in zip(kept, previous, strict=False)
    )


def _akin_to(result: ResultOut, sources: Sequence[Source]) -> Iterator[AkinTo]:
    """The papers asked with that make up the match, heaviest first."""
    titles = {(source.negative, source.seed): source.title for source in sources}
    weights: defaultdict[tuple[bool, int], float] = defaultdict(float)
    for each in result.alignments:
        if isinstance(each, SeedAlignmentOut):
            weights[each.negative, each.seed] += each.weight
    for key, weight in sorted(weights.items(), key=lambda item: -item[1]):
        yield AkinTo(titles.get(key, "another paper"), share_in_words(weight), key[0])


def _authors(authors: tuple[str, ...]) -> str:
    named = ", ".join(authors[:_MOST_AUTHORS])
    return f"{named} and {len(authors) - _MOST_AUTHORS} more" if len(authors) > _MOST_AUTHORS else named
