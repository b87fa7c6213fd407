"""Conversion between saved queries and addresses of the page."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.datastructures import QueryParams

from models.errors import QueryError
from models.types import Facet
from service.api.schemas.saved.queries import Kind, to_query
from service.saved.saved_queries import SavedQuery
from service.search.aspect import Contrast
from service.search.query import SearchQuery, Seed
from service.web.address.further import Further
from service.web.address.page_query import DEFAULT_LIMIT, PageQuery

_Body = Mapping[str, Any]


def to_keep(page_query: PageQuery) -> dict[str, Any]:
    """Return the body of ``POST /v1/queries`` that saves the query, except for its name."""
    kind = Kind.RECOMMENDATIONS if page_query.has_further_papers else Kind.SEARCH
    return {kind.value: replace(page_query, cursor="").body()}


def page_query_of_saved(saved: SavedQuery) -> PageQuery | None:
    """Return the page's query that equals ``saved``, or ``None`` if an address cannot express it.

    Programs may have saved more than an address can have: weights, other scorers, lists of ids. Raises
    QueryError if another version of Akin saved the query in another form.
    """
    wanted = _as_shown(to_query(saved.summary.kind, saved.body))
    body = json.loads(saved.body)
    tried = [_search(body)] if saved.summary.kind == Kind.SEARCH else _recommendations(body)
    return next((page_query for page_query in tried if _query(page_query) == wanted), None)


def page_query_of(query: SearchQuery, paper_id: str) -> PageQuery | None:
    """Return the page's query that equals ``query``, which starts from this paper alone.

    Returns ``None`` if an address cannot express it: several seeds, negatives, other scorers, lists of ids.
    """
    if len(query.seeds) != 1 or query.negatives:
        return None
    seed, filters = replace(query.seeds[0], paper_id=paper_id), query.filters
    unlike = seed.aspect.unlike or Contrast()
    page_query = PageQuery(
        paper=paper_id,
        sentences=_ascending(seed.aspect.sentences),
        facets=seed.aspect.facets,
        unlike_sentences=_ascending(unlike.sentences),
        unlike_facets=unlike.facets,
        year_from=filters.year_from,
        year_to=filters.year_to,
        venues=tuple(filters.venues),
        fields=tuple(filters.fields),
        authors=tuple(filters.authors),
        words=query.words,
        limit=query.limit,
    )
    # Recommendations from one paper get the values that a search has for these.
    wanted = replace(query, seeds=(seed,), skip_unresolved=False, omit_pasted=False)
    return page_query if _query(page_query) == _as_shown(wanted) else None


def _query(page_query: PageQuery) -> SearchQuery | None:
    try:
        # Parse the query from its address, which also checks the address's limits.
        return _as_shown(PageQuery.of(QueryParams(list(page_query.parameters()))).request().to_query())
    except QueryError:
        return None


def _as_shown(query: SearchQuery) -> SearchQuery:
    """Return the query as the page requests it: with all details, sentences in order, and stripped texts."""
    default = SearchQuery(query.seeds)
    seeds, negatives = (tuple(map(_in_order, side)) for side in (query.seeds, query.negatives))
    shown = replace(query, include=default.include, max_alignments=default.max_alignments)
    return replace(shown, seeds=seeds, negatives=negatives)


def _in_order(seed: Seed) -> Seed:
    aspect, unlike = seed.aspect, seed.aspect.unlike
    if unlike is not None and unlike.sentences:
        unlike = replace(unlike, sentences=_ascending(unlike.sentences))
    numbers = aspect.sentences and _ascending(aspect.sentences)
    text = seed.text and seed.text.strip()
    return replace(seed, text=text, aspect=replace(aspect, sentences=numbers, unlike=unlike))


def _search(body: _Body) -> PageQuery:
    return replace(_filtered(body), **_start(body["query"]), **_like(body), **_unlike(body.get("unlike", {})))


def _recommendations(body: _Body) -> Iterator[PageQuery]:
    """Yield candidate queries: first seed as the paper, with or without sentences to be unlike; no paper."""
    seeds, negatives = (_named(body.get(side, ())) for side in ("seeds", "negatives"))
    filtered = _filtered(body)
    for n_contrasts in (1, 0):
        yield replace(
            filtered,
            **_start(seeds[0]),
            **_like(seeds[0]),
            **_unlike(negatives[0] if negatives and n_contrasts else {}),
            like=_further(seeds[1:]),
            not_like=_further(negatives[n_contrasts:]),
        )
    yield replace(filtered, like=_further(seeds), not_like=_further(negatives))


def _named(seeds: Sequence[str | dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"paper_id": seed} if isinstance(seed, str) else seed for seed in seeds]


def _start(given: _Body) -> dict[str, Any]:
    """Return the paper or text of a query; next to further papers, a text is an abstract of one sentence."""
    abstract = given.get("abstract", "")
    if not isinstance(abstract, str):
        return {"text": abstract[0]}
    return {
        "paper": given.get("paper_id", ""),
        "text": given.get("text", "").strip(),
        "title": given.get("title", ""),
        "abstract": abstract,
    }


def _like(given: _Body) -> dict[str, Any]:
    return {"sentences": _ascending(given.get("sentences")), "facets": _facets(given)}


def _unlike(given: _Body) -> dict[str, Any]:
    return {"unlike_sentences": _ascending(given.get("sentences")), "unlike_facets": _facets(given)}


def _ascending(numbers: Iterable[int] | None) -> tuple[int, ...]:
    """Return the numbers of sentences as an address has them: in order, each once."""
    return tuple(sorted({*(numbers or ())}))


def _facets(given: _Body) -> tuple[Facet, ...]:
    named = given.get("facet", ())
    return tuple(map(Facet, [named] if isinstance(named, str) else named))


def _further(seeds: Sequence[_Body]) -> tuple[Further, ...]:
    return tuple(Further(seed.get("paper_id", ""), _facets(seed)) for seed in seeds)


def _filtered(body: _Body) -> PageQuery:
    given = body.get("filters", {})
    return PageQuery(
        year_from=given.get("year_from"),
        year_to=given.get("year_to"),
        venues=tuple(given.get("venues", ())),
        fields=tuple(given.get("fields", ())),
        authors=tuple(given.get("authors", ())),
        words=body.get("words"),
        limit=body.get("limit", DEFAULT_LIMIT),
    )
