"""``GET /``: the search page and its results; ``GET /results.bib`` and other files."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from models.errors import InputError, PaperNotFoundError
from models.types import Facet, Paper
from service.access.policy import PAGE, READ, Dialect, requires
from service.api.dependencies.answers import AnswersDep
from service.api.dependencies.cursors import Paging, PagingDep
from service.api.dependencies.engine import EngineDep
from service.api.dependencies.formats import ranked_file
from service.api.errors import slug_of, status_of
from service.api.formats import Format
from service.api.services import public_address, services_of
from service.search.engine import SearchEngine
from service.search.lookup import find_titles, nearest_papers
from service.web.address.further import Further
from service.web.address.links import Link
from service.web.address.page_query import MAX_PASTED, PageQuery
from service.web.address.refusals import correction, in_words, not_here, without_malformed, without_names
from service.web.library import MAX_LIBRARY_BYTES
from service.web.paper_listing import browse, names_meant, with_names
from service.web.query_answer import QueryAnswer, answer, by_id, named, read, whole_list
from service.web.render import render
from service.web.tables import TABLES
from service.web.views.browse import view_browsed
from service.web.views.collection import Example, describe_collection
from service.web.views.figures import read_figures
from service.web.views.query import QueryView, view_query
from service.web.views.results.results import n_read, view_results
from service.web.views.seeds import SeedView, name_seeds, own_problem, respects, view_seeds
from service.web.views.summary import filters_of, summarize

router = APIRouter(include_in_schema=False)
_FILE_NAME = "akin-results"
_FORMATS = {"bib": Format.BIBTEX, "ris": Format.RIS, "csv": Format.CSV}
# The most titles to suggest for a short text or an unknown name.
_MAX_TITLES = 3
_MAX_TITLE_CHARS = 300


@router.get("/")
@requires(PAGE)
def page(request: Request, engine: EngineDep, paging: PagingDep, answers: AnswersDep) -> Response:
    """Show the search page or, if its address has a query, that query and its results."""
    page_query = PageQuery()
    try:
        # Step by step, so that an error page shows the query as far as it was understood.
        page_query = PageQuery.of(request.query_params)
        if not (page_query.has_seeds or page_query.has_only_filters):
            return _home(request, engine)
        engine = paging.engine(page_query.cursor)
        page_query = by_id(engine, page_query)
        page_query = with_names(engine, page_query)
        if page_query.has_only_filters:
            return _browsed(engine, paging, page_query)
        answered = answer(engine, paging, answers, page_query)
    except InputError as error:
        return _refused(request, engine, page_query, error)
    return render("results.html", **_views(request, engine, answered))


@router.get("/results.{ending}")
@requires(replace(READ, dialect=Dialect.EITHER))
def export(
    ending: str, request: Request, engine: EngineDep, paging: PagingDep, answers: AnswersDep
) -> Response:
    """Send the results of a page as a file, or with ``whole=1`` the list from its first page on."""
    if ending not in _FORMATS and ending not in TABLES:
        raise InputError(f"Results come as .{', .'.join((*_FORMATS, *TABLES))}.")
    page_query = PageQuery.of(request.query_params)
    engine = paging.engine(page_query.cursor)
    page_query = named(engine, page_query)
    whole = request.query_params.get("whole") == "1"
    answered = (
        whole_list(engine, paging, page_query) if whole else answer(engine, paging, answers, page_query)
    )
    if ending in _FORMATS:
        form = _FORMATS[ending]
        return ranked_file(form, answered.out, name=_FILE_NAME, ranks=answered.ranks, for_spreadsheets=True)
    media_type, write = TABLES[ending]
    return Response(
        write(answered.out.results).encode("utf-8", "replace"),
        media_type=f"{media_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{_FILE_NAME}.{ending}"'},
    )


def _browsed(engine: SearchEngine, paging: Paging, page_query: PageQuery) -> Response:
    """Show the papers that pass the filters, for a query with filters alone."""
    listed = view_browsed(browse(paging, page_query))
    return render("browse.html", listed=listed, **_query_views(engine, page_query, None, ()))


def _home(request: Request, engine: SearchEngine) -> Response:
    """Show the page without a query; it describes the collection only to callers that may search it."""
    if not hasattr(request.state, "caller"):
        return render(
            "home.html", collection=None, figures=None, page_query=PageQuery(), most_bytes=MAX_LIBRARY_BYTES
        )
    return render(
        "home.html",
        collection=describe_collection(engine.snapshot),
        figures=read_figures(services_of(request.app).settings.data, engine.snapshot.manifest.encoder.name),
        href=_address_of,
        listed=_listed,
        page_query=PageQuery(),
        most_bytes=MAX_LIBRARY_BYTES,
    )


def _address_of(example: Example) -> str:
    return PageQuery(
        paper=example.paper_id,
        text=example.text,
        facets=() if example.facet is None else (example.facet,),
        unlike_facets=() if example.unlike is None else (example.unlike,),
    ).address()


def _listed(**filters: Any) -> str:
    """Return the address that lists the papers that pass these filters."""
    return PageQuery(**filters).address()


def _views(request: Request, engine: SearchEngine, answered: QueryAnswer) -> dict[str, Any]:
    page_query = answered.page_query
    query = view_query(page_query, answered.paper, n_read=n_read(answered))
    return {
        **_query_views(engine, page_query, query, view_seeds(answered)),
        "results": view_results(
            answered, public_address(request), keyed=request.state.caller.key is not None
        ),
        "titles": _titles(engine, page_query),
        "problem": own_problem(answered),
        "called": (),
        "correction": None,
        "near": (),
        "unknown": "",
    }


def _refused(request: Request, engine: SearchEngine, page_query: PageQuery, error: InputError) -> Response:
    """Show the page with the query, and why it cannot be answered."""
    request.state.problem = slug_of(error)
    try:
        # A text that is too long is only shown in its box, open to be shortened.
        too_long = len(page_query.abstract) > MAX_PASTED
        query = None if too_long else view_query(page_query, read(engine, page_query))
    except InputError:
        query = None
    meant = names_meant(engine, page_query)
    unknown = page_query.paper if isinstance(error, PaperNotFoundError) else ""
    malformed = page_query == PageQuery()
    mending = without_malformed(request.query_params) if malformed else correction(page_query, error)
    return render(
        "results.html",
        status_of(type(error)),
        **_query_views(engine, page_query, query, name_seeds(engine, page_query)),
        results=None,
        titles=(),
        problem=not_here(page_query) if unknown else in_words(error),
        called=meant[1] if meant else (),
        correction=without_names(page_query, meant[0]) if meant else mending,
        near=_near(engine, page_query) if unknown else (),
        unknown=unknown,
    )


def _near(engine: SearchEngine, page_query: PageQuery) -> tuple[Link, ...]:
    """Return papers that an unknown name may mean, with links to the query started from each instead."""
    return tuple(
        Link(each.title or each.id, _started(page_query, each))
        for each in nearest_papers(engine, page_query.paper, limit=_MAX_TITLES)
    )


def _started(page_query: PageQuery, paper: Paper) -> str:
    return page_query.start_from(Further(paper.id), {at.facet for at in paper.sentences}).address()


def _query_views(
    engine: SearchEngine, page_query: PageQuery, query: QueryView | None, seeds: tuple[SeedView, ...]
) -> dict[str, Any]:
    """Return the parts of a query that every page shows, whether it has an answer or not."""
    return {
        "page_query": page_query,
        "query": query,
        "seeds": seeds,
        "respects": respects(page_query.facets, tuple(Facet)),
        "filters": filters_of(page_query),
        "summary": summarize(page_query, query.title if query else "", seeds),
        "names": describe_collection(engine.snapshot),
    }


def _titles(engine: SearchEngine, page_query: PageQuery) -> tuple[Link, ...]:
    """Return links to papers with titles similar to the query's text, on the first page alone."""
    # This scans all titles, so it is not repeated for each page, nor done for texts too long for a title.
    if not 0 < len(page_query.text) <= _MAX_TITLE_CHARS or page_query.cursor or page_query.opened is not None:
        return ()
    try:
        found = find_titles(engine, page_query.text, limit=_MAX_TITLES).results
    except InputError:  # a text without any word
        return ()
    return tuple(Link(each.title, _started(page_query, each)) for each in (match.paper for match in found))
