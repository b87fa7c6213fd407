"""The view of an answer: results and links to the next searches."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

import orjson

from service.api.schemas.search.results import SearchOut
from service.search.query import Reason
from service.web.address.links import Link
from service.web.address.page_query import Order, PageQuery, View
from service.web.paper_listing import name_unknown
from service.web.query_answer import MAX_SAVED, MAX_SORTED, QueryAnswer, sources
from service.web.saved import to_keep
from service.web.views.results.cards import Card, make_cards
from service.web.views.results.rows import Row, make_rows
from service.web.views.results.timeline import TimelineView, draw_timeline

_NO_SEED: Final = "None of these papers can be used; the reason is next to each."
_EXPORTS: Final = {"BibTeX": "bib", "RIS": "ris", "CSV": "csv"}
_TABLES: Final = {"LaTeX": "tex", "Markdown": "md", "TSV": "tsv"}


@dataclass(frozen=True, slots=True)
class ResultsView:
    """A page of results and the links on it; ``detail`` says why there are no results.

    ``rows`` are the cards as rows of a table, if the view is a table. ``heading`` says which of all papers
    they are, from number ``first`` on. ``orders`` are links that sort the list, empty if there is nothing
    to sort. ``exports`` are files of this page, ``whole`` files of the whole list (``whole_words`` describe
    it), ``tables`` and ``whole_tables`` the same as tables to paste into a paper. ``kept`` is the body that
    saves the query, except for its name.
    """

    cards: tuple[Card, ...]
    rows: tuple[Row, ...]
    timeline: TimelineView
    heading: str
    first: int
    detail: str
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
    whole_tables: tuple[Link, ...]
    words: Link
    kept: str
    curl: str


def view_results(answered: QueryAnswer, base_url: str, *, keyed: bool) -> ResultsView:
    """Return the cards of ``answered`` and its links.

    The command for programs uses ``base_url``, the service's address, and a key if ``keyed``.
    """
    page_query, out = answered.page_query, answered.out
    cards = make_cards(
        out.results, page_query, ranks=answered.ranks, n_chosen=n_chosen(answered), sources=sources(answered)
    )
    rows = make_rows(out.results, cards, page_query) if page_query.view is View.TABLE else ()
    return ResultsView(
        cards=cards,
        rows=rows,
        timeline=draw_timeline(
            [result.paper for result in out.results],
            ranks=answered.ranks,
            link=partial(years_address, page_query),
        ),
        heading=_heading(answered),
        first=answered.first,
        detail=_why_none(answered),
        warnings=tuple(each.message for each in out.warnings),
        took=f"{out.took_ms:,.0f} ms" if out.took_ms >= 1 else "under 1 ms",
        next=page_query.address(cursor=out.next_cursor) if out.next_cursor else "",
        previous=page_query.address(cursor=answered.previous_cursor) if answered.previous_cursor else "",
        start=page_query.address() if answered.first > 1 else "",
        permalink=page_query.address(),
        views=_choices(page_query, "view", {"Cards": View.CARDS, "Table": View.TABLE}),
        orders=_orders(answered),
        exports=_files(page_query, _EXPORTS),
        whole=_files(page_query, _EXPORTS, whole="&whole=1"),
        whole_words=_whole_words(answered),
        tables=_files(page_query, _TABLES),
        whole_tables=_files(page_query, _TABLES, whole="&whole=1"),
        words=Link(
            "Count shared words",
            page_query.address(words=None if page_query.words == 0 else 0.0),
            page_query.words != 0,
        ),
        kept=orjson.dumps(to_keep(page_query)).decode("utf-8", "replace"),
        curl=curl(page_query, base_url, keyed=keyed),
    )


def _why_none(answered: QueryAnswer) -> str:
    """Return why there are no results, or "" if there are; a filter may match no part of a name."""
    out = answered.out
    if out.reason is Reason.NO_SEED_RESOLVED:
        return _NO_SEED
    unknown = name_unknown(answered.engine, answered.page_query) if out.reason is Reason.FILTERED_OUT else ""
    return unknown or out.detail or ""


def years_address(page_query: PageQuery, first: int, last: int) -> str:
    """Return the address of the same search in these years, as far as its filters let them pass."""
    return page_query.address(
        year_from=max(first, page_query.year_from or first), year_to=min(last, page_query.year_to or last)
    )


def _heading(answered: QueryAnswer) -> str:
    """Return a heading that says which papers of the list are on this page, and in which order."""
    out, first, last = answered.out, answered.first, answered.first + len(answered.ranks) - 1
    if answered.page_query.order is Order.YEAR and out.total != 1:
        is_all = first == 1 and not out.next_cursor
        these = _sortable(out.total)
        return f"The {these}" if is_all else f"Papers {first} to {last} of the {these}"
    more = out.total is not None and out.total >= answered.engine.max_listed
    of_all = f" of {'at least ' if more else ''}{out.total:,}" if out.next_cursor and out.total else ""
    if first > 1:
        return f"Papers {first} to {last}{of_all}"
    if last == 1:
        return f"The closest{of_all} paper{'s' if of_all else ''}"
    return f"The {last} closest{of_all} papers"


def _sortable(total: int | None) -> str:
    """Return the number of papers, of a list of ``total``, that are sorted by year, in words."""
    return f"best {MAX_SORTED if total is None else min(total, MAX_SORTED)}, newest first"


def _orders(answered: QueryAnswer) -> tuple[Link, ...]:
    """Return links that sort the list, or none if it has one paper or no paper of this page has a year."""
    page_query, out = answered.page_query, answered.out
    dated = page_query.order is Order.YEAR or any(result.paper.year for result in out.results)
    if out.total == 1 or not dated:
        return ()
    newest = f"The {_sortable(out.total)}"
    # In another order the page would hold other papers, so these links lead to the first page.
    return _choices(
        page_query, "order", {"Best match first": Order.STRENGTH, newest: Order.YEAR}, from_first_page=True
    )


def _choices(
    page_query: PageQuery, part: str, choices: Mapping[str, StrEnum], *, from_first_page: bool = False
) -> tuple[Link, ...]:
    """Return links that set ``part`` to each of ``choices``, on the same page or the first one."""
    cursor = "" if from_first_page else page_query.cursor
    return tuple(
        Link(
            words, page_query.address(cursor=cursor, **{part: choice}), on=getattr(page_query, part) is choice
        )
        for words, choice in choices.items()
    )


def _files(page_query: PageQuery, endings: Mapping[str, str], *, whole: str = "") -> tuple[Link, ...]:
    return tuple(
        Link(words, page_query.address(f"/results.{ending}", cursor=page_query.cursor) + whole)
        for words, ending in endings.items()
    )


def _whole_words(answered: QueryAnswer) -> str:
    """Return a description of the whole list's files, or "" if this page is the whole list."""
    out, total = answered.out, answered.out.total
    if answered.first == 1 and not out.next_cursor:
        return ""
    if answered.page_query.order is Order.YEAR:
        return f"The {_sortable(total)}"
    if total is None or total > MAX_SAVED:
        return f"First {MAX_SAVED:,} results"
    return f"All {total:,} results"


def curl(page_query: PageQuery, base_url: str, *, keyed: bool) -> str:
    """Return the query as a curl command; the key in it is a shell variable.

    The API has no order by year: for that order the command gets the papers that the page sorts, in one page.
    """
    if page_query.order is Order.YEAR:
        page_query = replace(page_query, cursor="", limit=MAX_SORTED)
    body = orjson.dumps(page_query.body(), option=orjson.OPT_INDENT_2).decode("utf-8", "replace")
    url = shlex.quote(f"{base_url}{page_query.path}")
    key = '  -H "Authorization: Bearer $AKIN_KEY" \\\n' if keyed else ""
    return f"curl {url} \\\n{key}  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"


def n_chosen(answered: QueryAnswer) -> int:
    """Return how many sentences of the query's own paper count, at least 1."""
    out = answered.out
    if isinstance(out, SearchOut):
        return max(1, len(out.query.selected))
    own = [seed for seed in out.seeds if seed.seed == 0 and not seed.negative]
    return max(1, len(own[0].selected) if own else 1)


def n_read(answered: QueryAnswer) -> int | None:
    """Return how many sentences of the query's own paper the encoder read, or ``None`` if unknown."""
    out = answered.out
    if answered.paper is None:
        return None
    if isinstance(out, SearchOut):
        return len(answered.paper.sentences) - out.query.dropped_sentences
    dropped = [seed.dropped_sentences for seed in out.seeds if seed.seed == 0 and not seed.negative]
    return len(answered.paper.sentences) - dropped[0] if dropped else None
