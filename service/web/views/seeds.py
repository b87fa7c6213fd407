"""Further papers of a query, to be like and to be unlike, as the page lists them."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.api.schemas.recommendations import RecommendationsOut, UnresolvedOut
from service.search.engine import SearchEngine
from service.web.answered import Answered
from service.web.asked import Asked
from service.web.links import Link, toggled


@dataclass(frozen=True, slots=True)
class SeedView:
    """A further paper; ``problem`` says why it does not count, ``meant`` which may have been meant.

    ``without`` asks the same without it, ``start`` with it alone.
    """

    id: str
    title: str
    negative: bool
    without: str
    start: str
    problem: str = ""
    meant: tuple[Link, ...] = ()


def view_seeds(answered: Answered) -> tuple[SeedView, ...]:
    """The further papers of the query, those to be like first."""
    out = answered.out
    if not isinstance(out, RecommendationsOut):
        return ()
    titles = {(seed.negative, seed.seed): seed.title for seed in out.seeds}
    lost = {(each.negative, each.seed): each for each in out.unresolved}
    return tuple(
        _seed(answered.asked, paper_id, titles.get(place, ""), lost.get(place), negative=place[0])
        for paper_id, place in _places(answered.asked)
    )


def name_seeds(engine: SearchEngine, asked: Asked) -> tuple[SeedView, ...]:
    """The further papers of a query that has no answer, so that they can be left out or added to."""
    return tuple(
        _seed(asked, paper_id, _title(engine, paper_id), None, negative=place[0])
        for paper_id, place in _places(asked)
    )


def own_problem(answered: Answered) -> str:
    """Why the paper asked with, beside further ones, does not count; empty where it does."""
    out = answered.out
    if answered.paper is None or not isinstance(out, RecommendationsOut):
        return ""
    return next((each.detail for each in out.unresolved if each.seed == 0 and not each.negative), "")


def _places(asked: Asked) -> Iterator[tuple[str, tuple[bool, int]]]:
    """Ids of further papers, and how an answer names them: whether negative, and their number there."""
    own = bool(asked.paper or asked.abstract or asked.text)
    unlike = own and bool(asked.unlike_sentences or asked.unlike_facets)
    for number, paper_id in enumerate(asked.like, start=own):
        yield paper_id, (False, number)
    for number, paper_id in enumerate(asked.not_like, start=unlike):
        yield paper_id, (True, number)


def _title(engine: SearchEngine, paper_id: str) -> str:
    position = engine.identifiers.position(paper_id)
    return "" if position is None else engine.snapshot.paper(position).title


def _seed(asked: Asked, paper_id: str, title: str, lost: UnresolvedOut | None, *, negative: bool) -> SeedView:
    def instead(other: str) -> str:
        if negative:
            return asked.address(
                not_like=tuple(other if each == paper_id else each for each in asked.not_like)
            )
        return asked.address(like=tuple(other if each == paper_id else each for each in asked.like))

    return SeedView(
        id=paper_id,
        title=title or paper_id,
        negative=negative,
        without=asked.address(not_like=toggled(asked.not_like, paper_id))
        if negative
        else asked.address(like=toggled(asked.like, paper_id)),
        start=Asked(paper=paper_id).address(),
        problem="" if lost is None else lost.detail,
        meant=() if lost is None else tuple(Link(each.title, instead(each.id)) for each in lost.did_you_mean),
    )
