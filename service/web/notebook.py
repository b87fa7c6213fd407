"""Results as a notebook shows them: the cards of the page, in one piece of HTML that loads nothing."""

from collections.abc import Sequence
from functools import cache
from typing import Final, Protocol

from markupsafe import Markup

from models.counts import counted
from service.api.schemas.search.recommendations import RecommendationOut
from service.api.schemas.search.results import ResultOut
from service.web.address.asked import Asked
from service.web.assets import FOLDER
from service.web.render import rendered
from service.web.views.results.alignment import Source
from service.web.views.results.cards import make_cards

_MOST_CARDS: Final = 25  # of one list: a notebook is saved with all that it shows


class ShownSeed(Protocol):
    """A paper that was asked with."""

    @property
    def seed(self) -> int:
        """Its number."""

    @property
    def negative(self) -> bool:
        """Whether it is one to keep away from."""

    @property
    def title(self) -> str:
        """Its title, empty where it has none."""


def cards_of(
    results: Sequence[object],
    *,
    title: str,
    total: int | None,
    n_chosen: int,
    seeds: Sequence[ShownSeed],
    notes: Sequence[str],
) -> str:
    """The first of ``results``, which have the fields of the HTTP interface, as HTML.

    They were found for ``n_chosen`` sentences of the paper with this ``title``, or for ``seeds``; ``total``
    papers are in the whole list, where that is known. ``notes`` are what to know of it.
    """
    kind = RecommendationOut if seeds else ResultOut
    shown = [kind.model_validate(each) for each in results[:_MOST_CARDS]]
    sources = [Source(each.title or "A text", (), each.seed, each.negative) for each in seeds]
    found = (
        counted(len(results), "paper") if total is None else f"{len(results):,} of {counted(total, 'paper')}"
    )
    more = f", the first {len(shown)} shown" if len(shown) < len(results) else ""
    return rendered(
        "notebook.html",
        cards=make_cards(
            shown,
            Asked(),
            ranks=range(1, len(shown) + 1),
            n_chosen=max(1, n_chosen),
            sources=sources,
        ),
        head=f"{found} similar to “{title}”{more}",
        notes=notes,
        style=_style(),
    )


@cache
def _style() -> Markup:
    """The style of cards for a part of a page: its root is that part."""
    return Markup((FOLDER / "cards.css").read_text(encoding="utf-8").replace(":root", "&"))  # noqa: S704 - ours
