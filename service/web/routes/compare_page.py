"""``GET /compare?a=ID&b=ID``: two papers side by side; the first may be a pasted one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fastapi import APIRouter, Request, Response

from models.errors import InputError, PaperNotFoundError
from service.access.policy import READ, Dialect, requires
from service.api.dependencies.engine import EngineDep
from service.api.errors import slug_of, status_of
from service.api.schemas.base import pasted_paper
from service.match.side_by_side import side_by_side
from service.search.engine import SearchEngine
from service.search.query import Seed
from service.web.address.links import short
from service.web.address.page_query import MAX_PASTED
from service.web.address.refusals import in_words
from service.web.render import render
from service.web.views.results.sides import view_sides

router = APIRouter(include_in_schema=False)
_MAX_NAME_CHARS = 4_000
_ORDINALS: Final = {"a": "first", "b": "second"}


@router.get("/compare")
@requires(replace(READ, dialect=Dialect.PAGE))
def compare_page(
    request: Request, engine: EngineDep, a: str = "", b: str = "", title: str = "", abstract: str = ""
) -> Response:
    """Show both papers, each sentence's nearest one in the other, sentences of one alone, and the match.

    If there is an ``abstract``, paper A is the pasted paper.
    """
    given = {"a": a, "b": b, "title": title, "abstract": abstract}
    if not any(given.values()):
        return render("compare.html", 200, sides=None, problem="", missing="", **given)
    try:
        compared = side_by_side(engine, _pasted(title, abstract) if abstract else _named(a), _named(b))
    except InputError as error:
        request.state.problem = slug_of(error)
        missing = _missing(engine, {"b": b} if abstract else {"a": a, "b": b})
        problem = _in_words(missing, given[missing]) if missing else in_words(error)
        page = {"sides": None, "problem": problem, "missing": missing}
        return render("compare.html", status_of(type(error)), **page, **given)
    return render("compare.html", 200, sides=view_sides(compared), problem="", missing="", **given)


def _missing(engine: SearchEngine, names: Mapping[str, str]) -> str:
    """Return the side of the first paper that is not named or not in the collection, "" if both are."""
    for side, given in names.items():
        try:
            engine.names.position(given.strip())
        except PaperNotFoundError:
            return side
    return ""


def _in_words(missing: str, given: str) -> str:
    which = _ORDINALS[missing]
    if not given.strip():
        return f"The {which} paper is not named yet: give its title, DOI, arXiv id or id."
    return f"The {which} paper is not in this collection: {short(given.strip())}. Give another name of it."


def _pasted(title: str, abstract: str) -> Seed:
    if not abstract.strip():
        raise InputError("The abstract contains only white space; paste it again, or name a paper.")
    if len(title) > _MAX_NAME_CHARS or len(abstract) > MAX_PASTED:
        raise InputError("This text is too long for a link; paste only the abstract, or use the API.")
    return Seed(paper=pasted_paper(title, abstract))


def _named(given: str) -> Seed:
    name = given.strip()
    if not name or len(name) > _MAX_NAME_CHARS:
        raise InputError("Name two papers to compare, by id, DOI, arXiv id, address or title.")
    return Seed(name)
