"""The view of an answer: results and links to the next searches."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import orjson

from service.api.schemas.search.results import SearchOut
from service.search.query import Reason
from service.web.address.asked import Asked, Order, View
from service.web.address.links import Link
from service.web.answered import MOST_SAVED, Answered, sources
from service.web.saved import to_keep
from service.web.views.results.cards import Card, make_cards
from service.web.views.results.rows import Row, make_rows
from service.web.views.results.timeline import TimelineView, draw_timeline

_NO_SEED: Final = "None of these papers can be used; the reason stands next to each."
_EXPORTS: Final = {"BibTeX": "bib", "RIS": "ris", "CSV": "csv"}
_TABLES: Final = {"LaTeX": "tex", "Markdown": "md", "TSV": "tsv"}


@dataclass(frozen=True, slots=True)
class ResultsView:
    """A page of results and where to go on from it; ``detail`` says why there are none.

    ``rows`` are the cards as lines of a table, where that is how they are shown. ``total`` is how many papers
    all pages have together, where that is known; where the list ``is_cut``, more may follow. ``orders`` sort
    the papers of this page, and are none where none of them has a year. ``exports`` are files of this page,
    ``whole`` those of the list, as ``whole_words`` say, ``tables`` those to paste into a paper. ``kept`` is
    the body that saves the query, but for its name.
    """

    cards: tuple[Card, ...]
    rows: tuple[Row, ...]
    timeline: TimelineView
    first: int
    last: int
    detail: str
    total: int | None
    is_cut: bool
    warnings: tuple[str, ...]
    took: str
    next: str
    previous: str
    start: str
    permalink: str
    views: tuple[Link, ...]
    orders: tuple[Link, ...]
    exports: tuple[Link, ...]
    whole: tuple[Link, ...]
    whole_words: str
    tables: tuple[Link, ...]
    words: Link
    kept: str
    curl: str


def view_results(answered: Answered, base_url: str, *, keyed: bool) -> ResultsView:
    """The cards of ``answered`` and its links.

    For programs: ``base_url`` is the service's, which asks for a key if ``keyed``.
    """
    asked, out = answered.asked, answered.out
    cards = make_cards(
        out.results,
        asked,
        first_rank=answered.first_rank,
        n_chosen=n_chosen(answered),
        sources=sources(answered),
    )
    rows = make_rows(out.results, cards, asked) if asked.view is View.TABLE else ()
    return ResultsView(
        cards=tuple(_sorted(cards, asked.order, lambda card: card)),
        rows=tuple(_sorted(rows, asked.order, lambda row: row.card)),
        timeline=draw_timeline(
            [result.paper for result in out.results],
            first_rank=answered.first_rank,
            link=lambda first, last: asked.address(year_from=first, year_to=last),
        ),
        first=answered.first_rank,
        last=answered.first_rank + len(cards) - 1,
        detail=_NO_SEED if out.reason is Reason.NO_SEED_RESOLVED else out.detail or "",
        total=out.total,
        is_cut=out.total is not None and out.total >= answered.engine.longest_list,
        warnings=tuple(each.message for each in out.warnings),
        took=f"{out.took_ms:,.0f} ms" if out.took_ms >= 1 else "under 1 ms",
        next=asked.address(cursor=out.next_cursor) if out.next_cursor else "",
        previous=asked.address(cursor=answered.previous_cursor) if answered.previous_cursor else "",
        start=asked.address() if answered.first_rank > 1 else "",
        permalink=asked.address(),
        views=_choices(asked, "view", {"Cards": View.CARDS, "Table": View.TABLE}),
        orders=_orders(asked, cards),
        exports=_files(asked, _EXPORTS),
        whole=_files(asked, _EXPORTS, whole="&whole=1"),
        whole_words=_whole_words(answered),
        tables=_files(asked, _TABLES),
        words=Link(
            "Count shared words", asked.address(words=None if asked.words == 0 else 0.0), asked.words != 0
        ),
        kept=orjson.dumps(to_keep(asked)).decode("utf-8", "replace"),
        curl=curl(asked, base_url, keyed=keyed),
    )


_Shown = TypeVar("_Shown")


def _sorted(shown: Sequence[_Shown], order: Order, card_of: Callable[[_Shown], Card]) -> list[_Shown]:
    """In the order asked for; papers without a year come last, of one year the stronger first."""

    def newest(each: _Shown) -> tuple[int, int]:
        card = card_of(each)
        return -(card.year or 0), card.rank

    return sorted(shown, key=newest) if order is Order.YEAR else list(shown)


def _orders(asked: Asked, cards: Sequence[Card]) -> tuple[Link, ...]:
    """Links that sort the papers shown, which are those of ``cards``; none where there is nothing to sort."""
    if len(cards) < 2 or not any(card.year for card in cards):
        return ()
    newest = f"These {len(cards)}, newest first"
    return _choices(asked, "order", {"Best match first": Order.STRENGTH, newest: Order.YEAR})


def _choices(asked: Asked, part: str, choices: Mapping[str, StrEnum]) -> tuple[Link, ...]:
    """Links that show the same page in each of these ways."""
    return tuple(
        Link(words, asked.address(cursor=asked.cursor, **{part: choice}), on=getattr(asked, part) is choice)
        for words, choice in choices.items()
    )


def _files(asked: Asked, endings: Mapping[str, str], *, whole: str = "") -> tuple[Link, ...]:
    return tuple(
        Link(words, asked.address(f"/results.{ending}", cursor=asked.cursor) + whole)
        for words, ending in endings.items()
    )


def _whole_words(answered: Answered) -> str:
    """What the files of the whole list hold; empty where this page is all of it."""
    out, total = answered.out, answered.out.total
    if answered.first_rank == 1 and not out.next_cursor:
        return ""
    if total is None or total > MOST_SAVED:
        return f"First {MOST_SAVED:,} results"
    return f"All {total:,} results"


def curl(asked: Asked, base_url: str, *, keyed: bool) -> str:
    """The same query as a command line; a key stands in it as a variable of the shell."""
    body = orjson.dumps(asked.body(), option=orjson.OPT_INDENT_2).decode("utf-8", "replace")
    url = shlex.quote(f"{base_url}{asked.path}")
    key = '  -H "Authorization: Bearer $AKIN_KEY" \\\n' if keyed else ""
    return f"curl {url} \\\n{key}  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"


def n_chosen(answered: Answered) -> int:
    """How many sentences of the paper asked with count."""
    out = answered.out
    if isinstance(out, SearchOut):
        return max(1, len(out.query.selected))
    own = [seed for seed in out.seeds if seed.seed == 0 and not seed.negative]
    return max(1, len(own[0].selected) if own else 1)


def n_read(answered: Answered) -> int | None:
    """How many sentences of the paper asked with the encoder read; ``None`` where that is not known."""
    out = answered.out
    if answered.paper is None:
        return None
    if isinstance(out, SearchOut):
        return len(answered.paper.sentences) - out.query.dropped_sentences
    dropped = [seed.dropped_sentences for seed in out.seeds if seed.seed == 0 and not seed.negative]
    return len(answered.paper.sentences) - dropped[0] if dropped else None
