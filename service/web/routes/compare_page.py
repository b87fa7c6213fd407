"""``GET /compare?a=ID&b=ID``: two papers of the collection side by side."""

from fastapi import APIRouter, Request, Response

from models.errors import InputError
from service.access.policy import READ, requires
from service.api.dependencies.engine import EngineDep
from service.api.errors import slug_of, status_of
from service.match.side_by_side import side_by_side
from service.search.query import Seed
from service.web.address.refusals import in_words
from service.web.render import render
from service.web.views.results.sides import view_sides

router = APIRouter(include_in_schema=False)
_MAX_NAME_CHARS = 4_000


@router.get("/compare")
@requires(READ)
def compare_page(request: Request, engine: EngineDep, a: str = "", b: str = "") -> Response:
    """Both papers, for each sentence the nearest of the other, what only one of them has, and the match."""
    try:
        compared = side_by_side(engine, _named(a), _named(b))
    except InputError as error:
        request.state.problem = slug_of(error)
        return render("compare.html", status_of(type(error)), sides=None, problem=in_words(error), a=a, b=b)
    return render("compare.html", sides=view_sides(compared), problem="", a=a, b=b)


def _named(given: str) -> Seed:
    name = given.strip()
    if not name or len(name) > _MAX_NAME_CHARS:
        raise InputError("Two papers are compared: name both, by id, DOI, arXiv id, address or title.")
    return Seed(name)
