"""The view of a query's further papers, to be like and to be unlike."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from models.errors import PaperNotFoundError
from models.types import Facet, Paper
from service.api.schemas.search.recommendations import RecommendationsOut, UnresolvedOut
from service.search.engine import SearchEngine
from service.search.query import SeedReason
from service.web.address.further import Further, present_facets, without
from service.web.address.links import Link
from service.web.address.page_query import PageQuery
from service.web.query_answer import QueryAnswer

_EVERYTHING: Final = "everything"
_NOT_INDEXED: Final = "No paper here has this title or id."


@dataclass(frozen=True, slots=True)
class Choice:
    """A respect that a further paper may count in; ``value`` is what forms send."""

    value: str
    words: str
    on: bool


@dataclass(frozen=True, slots=True)
class SeedView:
    """A further paper; ``problem`` says why it does not count, ``meant`` links to papers that it may mean.

    ``without`` is the address of the query without it, ``start`` of the query started from it instead.
    ``choices`` are the respects that it may count in, ``respect`` the chosen one, empty for everything.
    """

    id: str
    title: str
    negative: bool
    without: str
    start: str
    respect: str
    choices: tuple[Choice, ...]
    problem: str = ""
    meant: tuple[Link, ...] = ()


def view_seeds(answered: QueryAnswer) -> tuple[SeedView, ...]:
    """Return the further papers of an answered query, those to be like first."""
    out = answered.out
    if not isinstance(out, RecommendationsOut):
        return ()
    lost = {(each.negative, each.seed): each for each in out.unresolved}
    return tuple(
        _seed(answered.engine, answered.page_query, further, lost.get(place), negative=place[0])
        for further, place in _places(answered.page_query)
    )


def name_seeds(engine: SearchEngine, page_query: PageQuery) -> tuple[SeedView, ...]:
    """Return the further papers of a query without an answer, so that they can be removed or added to."""
    return tuple(
        _seed(engine, page_query, further, None, negative=place[0]) for further, place in _places(page_query)
    )


def respects(on: tuple[Facet, ...], facets: Collection[Facet | None]) -> tuple[Choice, ...]:
    """Return the choices: everything, each of ``facets``, and the chosen ``on`` if it is none of these."""
    single = present_facets(Facet, facets)
    choices = [
        Choice("", _EVERYTHING, on=not on),
        *(Choice(facet, facet, on=on == (facet,)) for facet in single),
    ]
    if not any(choice.on for choice in choices):
        choices.append(Choice(",".join(on), ", ".join(on), on=True))
    return tuple(choices)


def without_avoided_alone(page_query: PageQuery) -> PageQuery:
    """Return the query, without its papers to be unlike if nothing is left to be like: it has no answer."""
    some_to_be_like = page_query.paper or page_query.text or page_query.abstract or page_query.like
    return page_query if some_to_be_like else replace(page_query, not_like=())


def own_problem(answered: QueryAnswer) -> str:
    """Return why the query's own paper does not count next to further ones; empty if it does."""
    out = answered.out
    if answered.paper is None or not isinstance(out, RecommendationsOut):
        return ""
    return next((each.detail for each in out.unresolved if each.seed == 0 and not each.negative), "")


def _places(page_query: PageQuery) -> Iterator[tuple[Further, tuple[bool, int]]]:
    """Yield further papers with their place in an answer: whether negative, and their number there."""
    own = bool(page_query.paper or page_query.abstract or page_query.text)
    unlike = own and bool(page_query.unlike_sentences or page_query.unlike_facets)
    for number, further in enumerate(page_query.like, start=own):
        yield further, (False, number)
    for number, further in enumerate(page_query.not_like, start=unlike):
        yield further, (True, number)


def _why_lost(lost: UnresolvedOut) -> str:
    return _NOT_INDEXED if lost.reason is SeedReason.NOT_INDEXED else lost.detail


def _paper(engine: SearchEngine, name: str) -> Paper | None:
    try:
        return engine.snapshot.paper(engine.names.position(name))
    except PaperNotFoundError:
        return None


def _seed(
    engine: SearchEngine,
    page_query: PageQuery,
    further: Further,
    lost: UnresolvedOut | None,
    *,
    negative: bool,
) -> SeedView:
    part = "not_like" if negative else "like"
    side: tuple[Further, ...] = getattr(page_query, part)
    changed: dict[str, Any] = {part: without(side, further.name)}
    rest = replace(page_query, **changed)

    def instead(other: str) -> str:
        renamed = replace(further, name=other)
        return page_query.address(**{part: tuple(renamed if each == further else each for each in side)})

    paper = _paper(engine, further.name)
    facets = set() if paper is None else {sentence.facet for sentence in paper.sentences}
    return SeedView(
        id=further.name,
        title=(paper and paper.title) or further.name,
        negative=negative,
        without=(rest if negative else without_avoided_alone(rest)).address(),
        start=page_query.start_from(further, facets).address(),
        respect=", ".join(further.facets),
        choices=respects(further.facets, facets) if paper is not None else (),
        problem="" if lost is None else _why_lost(lost),
        meant=() if lost is None else tuple(Link(each.title, instead(each.id)) for each in lost.did_you_mean),
    )
