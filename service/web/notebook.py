"""Results for notebooks: the cards of the page as one piece of HTML that loads no other files."""

from collections.abc import Sequence
from functools import cache
from typing import Final, Protocol

from markupsafe import Markup

from models.counts import counted
from service.api.schemas.base import PaperOut
from service.api.schemas.search.recommendations import RecommendationOut
from service.api.schemas.search.results import ResultOut
from service.api.schemas.search.sentences import FoundSentenceOut
from service.web.address.page_query import PageQuery
from service.web.assets import FOLDER
from service.web.render import rendered
from service.web.views.results.alignment import Source
from service.web.views.results.cards import make_cards, paper_links, web_address
from service.web.views.results.sentences import CardSentence

_MAX_CARDS: Final = 25  # per list: a notebook is saved with everything it shows


class ShownSeed(Protocol):
    """A seed of the query."""

    @property
    def seed(self) -> int:
        """The number of the seed."""

    @property
    def negative(self) -> bool:
        """Whether the seed is a negative."""

    @property
    def title(self) -> str:
        """The title, "" if it has none."""


def cards_of(
    results: Sequence[object],
    *,
    title: str,
    total: int | None,
    n_chosen: int,
    seeds: Sequence[ShownSeed],
    notes: Sequence[str],
) -> str:
    """Return the first of ``results``, which have the fields of the HTTP interface, as HTML.

    They were found for ``n_chosen`` sentences of the paper with this ``title``, or for ``seeds``; ``total``
    is the length of the whole list, if known. ``notes`` are remarks on the list.
    """
    kind = RecommendationOut if seeds else ResultOut
    shown = [kind.model_validate(each) for each in results[:_MAX_CARDS]]
    sources = [Source(each.title or "A text", (), each.seed, each.negative) for each in seeds]
    found = (
        counted(len(results), "paper") if total is None else f"{len(results):,} of {counted(total, 'paper')}"
    )
    more = f", the first {len(shown)} shown" if len(shown) < len(results) else ""
    cards = make_cards(
        shown, PageQuery(), ranks=range(1, len(shown) + 1), n_chosen=max(1, n_chosen), sources=sources
    )
    return rendered(
        "notebook.html",
        cards=cards,
        head=f"{found} similar to “{title}”{more}",
        notes=notes,
        style=_style(),
    )


def cards_of_sentences(results: Sequence[object], *, text: str, notes: Sequence[str]) -> str:
    """Return the first of the sentences that are similar to ``text``, with their papers, as HTML."""
    shown = [FoundSentenceOut.model_validate(each, from_attributes=True) for each in results[:_MAX_CARDS]]
    more = f", the first {len(shown)} shown" if len(shown) < len(results) else ""
    return rendered(
        "notebook.html",
        cards=[_sentence_card(rank, each) for rank, each in enumerate(shown, 1)],
        head=f"{counted(len(results), 'sentence')} similar to “{text}”{more}",
        notes=notes,
        style=_style(),
    )


def _sentence_card(rank: int, found: FoundSentenceOut) -> dict[str, object]:
    """Return the card of a sentence, with what the template reads of it."""
    paper = PaperOut(**found.paper.model_dump(), abstract="", sentences=(), fields=())
    facet = found.facet
    return {
        "rank": rank,
        "id": paper.id,
        "heading": ((paper.title or "Without a title", False),),
        "out": web_address(paper),
        "about": paper_links(PageQuery(), paper, linked=False),
        "sentences": [
            CardSentence(found.sentence, ((found.text, False),), facet, 0, 0.0, "", "", facet is not None)
        ],
        "distance": f"{found.distance:.3f}",
    }


@cache
def _style() -> Markup:
    """Return the style sheet of cards for a part of a page, with that part as its root."""
    return Markup((FOLDER / "cards.css").read_text(encoding="utf-8").replace(":root", "&"))  # noqa: S704 - ours
