"""Converts between saved queries and addresses of the page."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.datastructures import QueryParams

from models.errors import QueryError
from models.types import Facet
from service.api.schemas.saved.queries import Kind, to_query
from service.saved.saved_queries import SavedQuery
from service.search.aspect import Contrast
from service.search.query import SearchQuery
from service.web.address.asked import DEFAULT_LIMIT, Asked
from service.web.address.further import Further

_Body = Mapping[str, Any]


def to_keep(asked: Asked) -> dict[str, Any]:
    """The body of ``POST /v1/queries`` that keeps what is asked, but for its name."""
    kind = Kind.RECOMMENDATIONS if asked.of_many else Kind.SEARCH
    return {kind.value: replace(asked, cursor="").body()}


def asked_again(saved: SavedQuery) -> Asked | None:
    """What the page asks to ask the same as ``saved``; ``None`` where it has no way to.

    Programs may have saved more than an address holds: weights, other scorers, lists of ids. Raises
    QueryError where another version of Akin saved it otherwise.
    """
    wanted = _as_shown(to_query(saved.head.kind, saved.body))
    body = json.loads(saved.body)
    tried = [_search(body)] if saved.head.kind == Kind.SEARCH else _recommendations(body)
    return next((asked for asked in tried if _query(asked) == wanted), None)


def asked_of(query: SearchQuery, paper_id: str) -> Asked | None:
    """What the page asks to ask the same as ``query``, which starts from this paper alone.

    ``None`` where it has no way to, as for several seeds, other scorers and lists of ids.
    """
    if len(query.seeds) != 1 or query.negatives:
        return None
    seed, filters = replace(query.seeds[0], paper_id=paper_id), query.filters
    unlike = seed.aspect.unlike or Contrast()
    asked = Asked(
        paper=paper_id,
        sentences=seed.aspect.sentences or (),
        facets=seed.aspect.facets,
        unlike_sentences=unlike.sentences or (),
        unlike_facets=unlike.facets,
        year_from=filters.year_from,
        year_to=filters.year_to,
        venues=tuple(filters.venues),
        fields=tuple(filters.fields),
        authors=tuple(filters.authors),
        words=query.words,
        limit=query.limit,
    )
    # Of recommendations from one paper these are as for a search.
    wanted = replace(query, seeds=(seed,), skip_unresolved=False, omit_pasted=False)
    return asked if _query(asked) == _as_shown(wanted) else None


def _query(asked: Asked) -> SearchQuery | None:
    try:
        # As the address gives it, which takes no more than so much.
        return _as_shown(Asked.of(QueryParams(list(asked.parameters()))).request().to_query())
    except QueryError:
        return None


def _as_shown(query: SearchQuery) -> SearchQuery:
    """The same papers, with all details of them, as the page shows them."""
    default = SearchQuery(query.seeds)
    return replace(query, include=default.include, max_alignments=default.max_alignments)


def _search(body: _Body) -> Asked:
    return replace(_filtered(body), **_start(body["query"]), **_like(body), **_unlike(body.get("unlike", {})))


def _recommendations(body: _Body) -> Iterator[Asked]:
    """The first seed as the paper asked with, which may have sentences to be like and unlike; or none so."""
    seeds, negatives = (_named(body.get(side, ())) for side in ("seeds", "negatives"))
    asked = _filtered(body)
    for n_contrasts in (1, 0):
        yield replace(
            asked,
            **_start(seeds[0]),
            **_like(seeds[0]),
            **_unlike(negatives[0] if negatives and n_contrasts else {}),
            like=_further(seeds[1:]),
            not_like=_further(negatives[n_contrasts:]),
        )
    yield replace(asked, like=_further(seeds), not_like=_further(negatives))


def _named(seeds: Sequence[str | dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"paper_id": seed} if isinstance(seed, str) else seed for seed in seeds]


def _start(given: _Body) -> dict[str, Any]:
    """What is started from; a text is an abstract of one sentence beside further papers."""
    abstract = given.get("abstract", "")
    if not isinstance(abstract, str):
        return {"text": abstract[0]}
    return {
        "paper": given.get("paper_id", ""),
        "text": given.get("text", ""),
        "title": given.get("title", ""),
        "abstract": abstract,
    }


def _like(given: _Body) -> dict[str, Any]:
    return {"sentences": tuple(given.get("sentences", ())), "facets": _facets(given)}


def _unlike(given: _Body) -> dict[str, Any]:
    return {"unlike_sentences": tuple(given.get("sentences", ())), "unlike_facets": _facets(given)}


def _facets(given: _Body) -> tuple[Facet, ...]:
    named = given.get("facet", ())
    return tuple(map(Facet, [named] if isinstance(named, str) else named))


def _further(seeds: Sequence[_Body]) -> tuple[Further, ...]:
    return tuple(Further(seed.get("paper_id", ""), _facets(seed)) for seed in seeds)


def _filtered(body: _Body) -> Asked:
    given = body.get("filters", {})
    return Asked(
        year_from=given.get("year_from"),
        year_to=given.get("year_to"),
        venues=tuple(given.get("venues", ())),
        fields=tuple(given.get("fields", ())),
        authors=tuple(given.get("authors", ())),
        words=body.get("words"),
        limit=body.get("limit", DEFAULT_LIMIT),
    )
