"""The further papers of a query in its address: papers to be like or unlike, each in chosen facets."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams

from models.facets import matching_facets
from models.types import Facet
from service.web.address.given import chosen, facets_of, one_of


@dataclass(frozen=True, slots=True)
class Further:
    """A further paper by any of its names; its sentences of ``facets`` count, or all if it is empty."""

    name: str
    facets: tuple[Facet, ...] = ()

    def parameters(self, side: str) -> Iterator[tuple[str, str]]:
        """Yield the paper as parameter ``side``, then its facets as ``in``, which applies to this paper."""
        yield side, self.name
        if self.facets:
            yield "in", ",".join(self.facets)

    def seed(self) -> dict[str, Any]:
        """Return the paper as a seed of ``/v1/recommendations``."""
        return {"paper_id": self.name, **facet_of(self.facets)}


def facet_of(facets: Sequence[Facet]) -> dict[str, Any]:
    """Return the ``facet`` field of a request: one facet as a string, several as a list, none as no field."""
    if not facets:
        return {}
    return {"facet": facets[0].value if len(facets) == 1 else [each.value for each in facets]}


def present_facets(facets: Iterable[Facet], by: Collection[Facet | None]) -> tuple[Facet, ...]:
    """Return those of ``facets`` that occur in a paper with sentences of the facets ``by``."""
    return tuple(facet for facet in facets if any(each in matching_facets(facet) for each in by if each))


def further_of(given: QueryParams) -> tuple[tuple[Further, ...], tuple[Further, ...]]:
    """Return the papers to be like and those to be unlike; a repeated one has the facets given last.

    Forms have boxes to ``add`` papers, a choice ``as`` of the side they go to, and facets in ``each`` that
    apply to all of the added papers, or ``in`` for the paper before. Raises QueryError.
    """
    added = facets_of(given, "each")
    like, unlike = dict[str, Further](), dict[str, Further]()
    sides = {"like": like, "not": unlike, "add": unlike if one_of(given, "as") == "not" else like}
    before: tuple[dict[str, Further], str] | None = None
    for name, value in given.multi_items():
        text = value.strip()
        if name in sides:
            before = (sides[name], text) if text else None
            if text:
                sides[name][text] = Further(text, added if name == "add" else ())
        elif name == "in" and text and before is not None:
            side, paper = before
            side[paper] = Further(
                paper, tuple(dict.fromkeys(chosen(Facet, each, name) for each in text.split(",")))
            )
    return tuple(like.values()), tuple(unlike.values())


def without(papers: Iterable[Further], name: str) -> tuple[Further, ...]:
    """Return ``papers`` except those called ``name``."""
    return tuple(each for each in papers if each.name != name)
