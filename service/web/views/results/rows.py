"""The rows of results: best match, problem, method and result of each paper."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.types import Facet
from service.api.schemas.search.results import ResultOut
from service.web.address.page_query import PageQuery
from service.web.views.results.cards import Card
from service.web.views.results.sentences import CardSentence


@dataclass(frozen=True, slots=True)
class KeySentences:
    """The numbers of the sentences that summarize a paper; ``None`` if it has no such sentence.

    ``match`` is the one with the largest share of the match, ``problem`` the first of the objective or else
    the last of the background; ``method`` and ``result`` are the first sentences of these facets.
    """

    match: int | None
    problem: int | None
    method: int | None
    result: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """A result as a row; ``card`` is the whole result, shown below if ``opened``; ``toggle`` changes that."""

    card: Card
    match: CardSentence | None
    problem: CardSentence | None
    method: CardSentence | None
    result: CardSentence | None
    opened: bool
    toggle: str


def key_sentences(result: ResultOut) -> KeySentences:
    """Return the key sentences of one result."""
    of_facet: dict[Facet | None, list[int]] = {}
    for number, sentence in enumerate(result.paper.sentences):
        of_facet.setdefault(sentence.facet, []).append(number)
    aims, known = of_facet.get(Facet.OBJECTIVE, []), of_facet.get(Facet.BACKGROUND, [])
    heaviest = max(result.highlights, key=lambda each: each.weight, default=None)
    return KeySentences(
        match=None if heaviest is None else heaviest.sentence,
        problem=(*aims[:1], *known[-1:], None)[0],
        method=(*of_facet.get(Facet.METHOD, [])[:1], None)[0],
        result=(*of_facet.get(Facet.RESULT, [])[:1], None)[0],
    )


def make_rows(results: Sequence[ResultOut], cards: Sequence[Card], page_query: PageQuery) -> tuple[Row, ...]:
    """Return the rows of a page of ``results`` with these ``cards``."""
    return tuple(_row(result, card, page_query) for result, card in zip(results, cards, strict=True))


def _row(result: ResultOut, card: Card, page_query: PageQuery) -> Row:
    sentences: dict[int | None, CardSentence] = {each.number: each for each in card.whole or card.sentences}
    key = key_sentences(result)
    opened = card.rank == page_query.opened
    return Row(
        card=card,
        match=sentences.get(key.match),
        problem=sentences.get(key.problem),
        method=sentences.get(key.method),
        result=sentences.get(key.result),
        opened=opened,
        toggle=f"{page_query.address(cursor=page_query.cursor)}#result-{card.rank}" if opened else card.why,
    )
