"""Parses the address of a page into a query, and writes a query as an address."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as parts_of
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final
from urllib.parse import quote_plus

from starlette.datastructures import QueryParams

from models.errors import QueryError
from models.facets import matching_facets
from models.types import Facet, Sentence
from service.api.schemas.papers import ListIn
from service.api.schemas.search.recommendations import RecommendationsIn
from service.api.schemas.search.search import SearchIn
from service.web.address.further import Further, facet_of, further_of, present_facets, without
from service.web.address.given import (
    all_of,
    choice_of,
    expect_within_bounds,
    facets_of,
    number_of,
    numbers_of,
    one_of,
    weight_of,
)
from service.web.address.validation import validated

DEFAULT_LIMIT: Final = 10
# Characters of a pasted abstract: its address, up to three times as long, must fit into a line of HTTP.
MAX_PASTED: Final = 10_000
# The parts that go with any query: filters, and how many papers are shown and how.
_BESIDE: Final = ("year_from", "year_to", "venues", "fields", "authors", "limit", "view", "order")
_SEARCH: Final = "/v1/search"
_RECOMMENDATIONS: Final = "/v1/recommendations"
# The parameter of an address for each part of a query, in the order in which addresses list them.
_NAMES: Final = {
    "paper": "paper",
    "text": "text",
    "title": "title",
    "abstract": "abstract",
    "sentences": "s",
    "facets": "facet",
    "unlike_sentences": "u",
    "unlike_facets": "unlike",
    "like": "like",
    "not_like": "not",
    "year_from": "from",
    "year_to": "to",
    "venues": "venue",
    "fields": "field",
    "authors": "author",
    "words": "words",
    "limit": "n",
    "view": "view",
    "order": "sort",
    "cursor": "cursor",
    "opened": "open",
}

# All names of parameters; the last ones are only sent by forms.
KNOWN: Final = (*_NAMES.values(), "add", "as", "in", "each", "ticked")


class View(StrEnum):
    """The layouts of results."""

    CARDS = "cards"
    TABLE = "table"


class Order(StrEnum):
    """The orders of results: the strongest first, or the newest of the best."""

    STRENGTH = "strength"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A query as an address holds it: a ``paper`` of the collection, or a pasted one, or a ``text``.

    Sentences are chosen by number or by facet; ``like`` and ``not_like`` are further papers. ``words`` is
    the weight of shared words. ``view`` and ``order`` apply to the results; the result with the rank
    ``opened`` shows its alignment. Checks that the models of ``/v1`` make are not repeated here.
    """

    paper: str = ""
    text: str = ""
    title: str = ""
    abstract: str = ""
    sentences: tuple[int, ...] = ()
    facets: tuple[Facet, ...] = ()
    unlike_sentences: tuple[int, ...] = ()
    unlike_facets: tuple[Facet, ...] = ()
    like: tuple[Further, ...] = ()
    not_like: tuple[Further, ...] = ()
    year_from: int | None = None
    year_to: int | None = None
    venues: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    words: float | None = None
    limit: int = DEFAULT_LIMIT
    view: View = View.CARDS
    order: Order = Order.STRENGTH
    cursor: str = ""
    opened: int | None = None

    @classmethod
    def of(cls, given: QueryParams) -> "PageQuery":
        """Parse the parameters of an address, without the empty ones that forms send. Raises QueryError."""
        expect_within_bounds(given)
        year_from, year_to = (number_of(given, name) for name in ("from", "to"))
        limit = number_of(given, "n")
        like, not_like = further_of(given)
        # Forms also send which groups had ticked boxes: if none is ticked any more, the facet is dropped too.
        ticked = all_of(given, "ticked")
        gone = {name for name in ("s", "u") if name in ticked and not all_of(given, name)}
        return cls(
            paper=one_of(given, "paper"),
            text=one_of(given, "text"),
            title=one_of(given, "title"),
            abstract=one_of(given, "abstract"),
            sentences=numbers_of(given, "s"),
            facets=() if "s" in gone else facets_of(given, "facet"),
            unlike_sentences=numbers_of(given, "u"),
            unlike_facets=() if "u" in gone else facets_of(given, "unlike"),
            like=like,
            not_like=not_like,
            year_from=year_from,
            year_to=year_to,
            venues=all_of(given, "venue"),
            fields=all_of(given, "field"),
            authors=all_of(given, "author"),
            words=weight_of(given, "words"),
            limit=DEFAULT_LIMIT if limit is None else limit,
            view=choice_of(given, "view", View.CARDS),
            order=choice_of(given, "sort", Order.STRENGTH),
            cursor=one_of(given, "cursor"),
            opened=number_of(given, "open"),
        )

    @property
    def has_seeds(self) -> bool:
        """Whether the query names a paper or a text to search with."""
        return bool(self.paper or self.text or self.title or self.abstract or self.like or self.not_like)

    @property
    def has_only_filters(self) -> bool:
        """Whether the query has filters alone, so that their papers can be listed."""
        return not self.has_seeds and bool(self._filters())

    @property
    def beside(self) -> "PageQuery":
        """The query with only its filters, view, order and number of results, which go with any query."""
        return replace(PageQuery(), **{part: getattr(self, part) for part in _BESIDE})

    @property
    def has_further_papers(self) -> bool:
        """Whether the query has further papers."""
        return bool(self.like or self.not_like)

    def settled(self, sentences: Sequence[Sentence]) -> "PageQuery":
        """Return the query with sentences or facets, not both: forms send a facet and the boxes it ticked.

        The facets are kept if the ticked ``sentences`` are exactly theirs; otherwise the ticked ones count.
        """
        like = _settled(self.sentences, self.facets, sentences)
        unlike = _settled(self.unlike_sentences, self.unlike_facets, sentences)
        return replace(
            self, sentences=like[0], facets=like[1], unlike_sentences=unlike[0], unlike_facets=unlike[1]
        )

    def without_start(self) -> "PageQuery":
        """Return the query without its paper or text, and without the sentences and facets chosen in it."""
        left = replace(self, paper="", text="", title="", abstract="", sentences=(), facets=())
        return replace(left, unlike_sentences=(), unlike_facets=())

    def start_from(self, paper: Further, by: Collection[Facet | None]) -> "PageQuery":
        """Return the query started from ``paper`` instead; its sentences have the facets ``by``.

        Chosen facets that ``paper`` lacks are dropped; if it has facets set, they replace the chosen ones.
        """
        return replace(
            self.without_start(),
            paper=paper.name,
            facets=present_facets(paper.facets or self.facets, by),
            unlike_facets=present_facets(self.unlike_facets, by),
            like=without(self.like, paper.name),
            not_like=without(self.not_like, paper.name),
        )

    def address(self, path: str = "/", /, **changes: Any) -> str:
        """Return the address of this query with ``changes``.

        It shows the first page and opens no card, unless ``changes`` sets a cursor or ``opened``.
        """
        parameters = self.parameters(**{"cursor": "", "opened": None, **changes})
        return f"{path}?{'&'.join([f'{name}={_quoted(value)}' for name, value in parameters])}"

    def parameters(self, **changes: Any) -> Iterator[tuple[str, str]]:
        """Yield the names and values of the address's parameters, with ``changes``."""
        for (part, name, default), own in zip(_PARTS, _VALUES(self), strict=True):
            value = changes.get(part, own)
            if value is not default and value != default:
                for each in value if isinstance(value, tuple) else (value,):
                    yield from each.parameters(name) if isinstance(each, Further) else [(name, str(each))]

    @property
    def path(self) -> str:
        """The endpoint of ``/v1`` that answers this query."""
        return _RECOMMENDATIONS if self.has_further_papers else _SEARCH

    def body(self) -> dict[str, Any]:
        """Return the JSON body to send to ``path``, without empty fields."""
        body: dict[str, Any] = self._seeds() if self.has_further_papers else self._search()
        body |= {"filters": self._filters(), "words": self.words, "limit": self.limit, "cursor": self.cursor}
        return {name: value for name, value in body.items() if value not in ({}, [], "", None)}

    def request(self) -> SearchIn | RecommendationsIn:
        """Return the query as a request to ``path``; raises QueryError."""
        if self.title and not self.abstract:
            raise QueryError(
                "There is a title without an abstract. Paste its abstract too, or search for the title in "
                "the box at the top."
            )
        if len(list(filter(None, (self.paper, self.abstract, self.text)))) > 1:
            raise QueryError("Start from one thing: a paper, an abstract, or a few words of your own.")
        if len(self.abstract) > MAX_PASTED:
            raise QueryError(
                f"This text is too long for a link: it has {len(self.abstract):,} characters, "
                f"and {MAX_PASTED:,} are allowed; paste only the abstract, or use the API."
            )
        if self.not_like and not (self.like or self._paper()):
            raise QueryError("There are only papers to avoid; add one to be similar to.")
        if self.has_further_papers:
            return validated(RecommendationsIn, self.body())
        return validated(SearchIn, self.body())

    def listing(self) -> ListIn:
        """Return a request to ``/v1/papers`` for the papers that pass the filters; raises QueryError."""
        given = {**self._filters(), "limit": self.limit, "cursor": self.cursor or None}
        return validated(ListIn, given)

    def _filters(self) -> dict[str, Any]:
        filters = {
            "year_from": self.year_from,
            "year_to": self.year_to,
            "venues": list(self.venues),
            "fields": list(self.fields),
            "authors": list(self.authors),
        }
        return {name: value for name, value in filters.items() if value not in (None, [])}

    def _search(self) -> dict[str, Any]:
        unlike = _chosen(self.unlike_sentences, self.unlike_facets)
        return {"query": self._paper(), **_chosen(self.sentences, self.facets), "unlike": unlike}

    def _seeds(self) -> dict[str, Any]:
        """Return the seeds and negatives; sentences to be unlike become a separate negative."""
        own, unlike = self._paper(), _chosen(self.unlike_sentences, self.unlike_facets)
        chosen = _chosen(self.sentences, self.facets)
        if "text" in own and not self.facets:  # with facets it stays a text, compared only with these
            own = {"abstract": [own["text"]]}
        seeds = [{**own, **chosen}] if own else []
        negatives = [{**own, **unlike}] if own and unlike else []
        return {
            "seeds": seeds + [each.seed() for each in self.like],
            "negatives": negatives + [each.seed() for each in self.not_like],
        }

    def _paper(self) -> dict[str, Any]:
        given = {"paper_id": self.paper, "title": self.title, "abstract": self.abstract, "text": self.text}
        return {name: value for name, value in given.items() if value}


# The parts of a query, the parameter of each, and its default: a page has more than a hundred addresses.
_PARTS: Final = tuple((part.name, _NAMES[part.name], part.default) for part in parts_of(PageQuery))
_VALUES: Final = attrgetter(*(part for part, _, _ in _PARTS))  # of all of them, in one call
_quoted = lru_cache(maxsize=64)(quote_plus)  # most values are in all addresses of a page


def _chosen(numbers: tuple[int, ...], facets: tuple[Facet, ...]) -> dict[str, Any]:
    return {**({"sentences": list(numbers)} if numbers else {}), **facet_of(facets)}


def _settled(
    numbers: tuple[int, ...], facets: tuple[Facet, ...], sentences: Sequence[Sentence]
) -> tuple[tuple[int, ...], tuple[Facet, ...]]:
    if not (numbers and facets):
        return numbers, facets
    wanted = {match for facet in facets for match in matching_facets(facet)}
    held = {number for number, sentence in enumerate(sentences) if sentence.facet in wanted}
    return ((), facets) if held == set(numbers) else (numbers, ())
