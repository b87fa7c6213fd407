"""``/library``: a search from the papers of an uploaded library, a file or a list; none of it is stored."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams

from models.errors import InputError
from service.access.keys import Caller
from service.access.policy import LANDING, READ, Dialect, requires
from service.api.dependencies.engine import EngineDep
from service.api.errors import slug_of, status_of
from service.web.address.given import MAX_FURTHER_PAPERS
from service.web.address.page_query import PageQuery
from service.web.address.refusals import in_words
from service.web.library import MAX_ENTRIES, MAX_LIBRARY_BYTES, find_library
from service.web.render import render
from service.web.uploads import BodyDep, FormField, form_parts
from service.web.views.library import view_library

router = APIRouter(prefix="/library", include_in_schema=False)
_FILE, _LIST = "file", "list"


@router.get("")
@requires(LANDING)
def page(request: Request) -> Response:
    """Show the form to upload a library; its papers will be added to the query in the address."""
    caller: Caller | None = getattr(request.state, "caller", None)
    try:
        return _form(PageQuery.of(request.query_params), refused=caller is None)
    except InputError as error:
        return _form(PageQuery(), problem=error)


@router.post("")
@requires(replace(READ, dialect=Dialect.PAGE, max_body_bytes=MAX_LIBRARY_BYTES))
def matched(request: Request, engine: EngineDep, body: BodyDep) -> Response:
    """Show which papers of a library the collection has, to choose the seeds from, and which are missing."""
    page_query = PageQuery()
    try:
        parts = form_parts(body, request.headers.get("content-type", ""))
        fields = [
            (each.name, each.content.decode(errors="replace"))
            for each in parts
            if each.name not in {_FILE, _LIST}
        ]
        page_query = PageQuery.of(QueryParams(fields))
        sent = _library(parts)
        library = find_library(engine, sent.content, sent.filename or "")
    except InputError as error:
        request.state.problem = slug_of(error)
        return _form(page_query, problem=error)
    view = view_library(page_query, library, sent.filename or "your list")
    return render("library.html", library=view, problem=None, refused=False, **_limits(page_query))


def _library(parts: list[FormField]) -> FormField:
    """Return the first file or list of a form that is not empty; raises InputError if there is none."""
    for each in parts:
        if each.name in {_FILE, _LIST} and each.content.strip():
            return each
    raise InputError("Choose a file, or paste a list; there was nothing in either.")


def _form(page_query: PageQuery, *, problem: InputError | None = None, refused: bool = False) -> Response:
    return render(
        "library.html",
        200 if problem is None else status_of(type(problem)),
        library=None,
        problem=None if problem is None else in_words(problem),
        refused=refused,
        **_limits(page_query),
    )


def _limits(page_query: PageQuery) -> dict[str, Any]:
    return {
        "page_query": page_query,
        "most_bytes": MAX_LIBRARY_BYTES,
        "most_entries": MAX_ENTRIES,
        "most": MAX_FURTHER_PAPERS,
    }
