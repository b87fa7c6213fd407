"""``/v1/papers``: papers by their names, adding and deleting them."""

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response

from indexer.corpus.rows import MAX_ID_CHARS, MAX_TITLE_CHARS
from service.access.policy import READ, WRITE, requires
from service.api.dependencies.engine import CollectionDep, EngineDep
from service.api.dependencies.formats import accepted, documented, paper_file
from service.api.formats import PAPER_FORMATS, SUFFIXES, Format
from service.api.json_body import JSONBodyRoute
from service.api.middleware.routing import PATH_PATTERN
from service.api.schemas.base import PaperAnswerOut, PaperOut
from service.api.schemas.papers import FetchedOut, FetchIn, PapersIn, PapersOut
from service.search.engine import SearchEngine
from service.search.lookup import fetch_papers

router = APIRouter(prefix="/v1/papers", tags=["papers"], route_class=JSONBodyRoute)

_PENDING: dict[int | str, dict[str, Any]] = {
    202: {"description": "The paper is deleted; it may appear in answers for a few more seconds"}
}
_SHOWN: dict[int | str, dict[str, Any]] = {
    200: {"model": PapersOut, "description": "The papers are searchable (the request waited for it)"}
}
Wait = Annotated[
    bool,
    Query(
        description="Respond once the papers are searchable, or after five seconds; at once if too many "
        "requests are waiting for this."
    ),
]
_MAX_SUFFIX_CHARS = max(map(len, SUFFIXES))
_PaperId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=MAX_ID_CHARS + _MAX_SUFFIX_CHARS,
        pattern=PATH_PATTERN,
        description="The id of a paper.",
    ),
]
_PaperName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=MAX_TITLE_CHARS + _MAX_SUFFIX_CHARS,
        pattern=PATH_PATTERN,
        description="The id, DOI, arXiv id, address or title of a paper.",
    ),
]


@router.post("/fetch")
@requires(READ)
def fetch(body: FetchIn, engine: EngineDep) -> FetchedOut:
    """Return papers by ids, DOIs, arXiv ids, addresses or titles, in the order given; null if not found."""
    return FetchedOut.of(fetch_papers(engine, body.ids), engine.snapshot.generation)


@router.post("", status_code=202, responses=_SHOWN)
@requires(WRITE)
async def add(
    body: PapersIn, collection: CollectionDep, request: Request, response: Response, wait: Wait = False
) -> PapersOut:
    """Add papers, or replace those with the same ids: stored once this answers, searchable in seconds."""
    change = await to_thread.run_sync(lambda: collection.ingest.add(body.to_papers()))
    request.state.turn.leave()  # others may store while this request waits
    collection.publishing.wake()
    if wait and await collection.ingest.until_shown(change.number):
        response.status_code = 200
    request.state.engine = collection.engines.current  # also for the headers
    return PapersOut(
        accepted=len(body.papers),
        unchanged=len(body.papers) - change.n_changed,
        change=change.number,
        generation=request.state.engine.snapshot.generation,
    )


@router.delete("/{paper_id:path}", status_code=204, responses=_PENDING)
@requires(WRITE)
async def delete(paper_id: _PaperId, collection: CollectionDep, request: Request) -> Response:
    """Delete a paper: certain once this answers; after 204, it is in no later answer of this process.

    A list whose first page was read before stays as it was, so its further pages may have the paper.
    A paper that is not there, or no longer, gives 204 too. A paper is deleted by its id only; for another
    name of it, the answer is 422 and gives the id.
    """
    change = await to_thread.run_sync(collection.ingest.delete, paper_id)
    if change is None:
        return Response(status_code=204)
    request.state.turn.leave()  # others may store while this request waits
    collection.publishing.wake()
    # The absence of the paper is not enough: a generation that is being published now may have it.
    if not await collection.ingest.until_shown(change):
        return Response(status_code=202)
    position = await to_thread.run_sync(collection.engines.current.snapshot.find, paper_id)
    return Response(status_code=204 if position is None else 202)


# ``:path`` because identifiers such as DOIs hold slashes.
@router.get(
    "/{paper_id:path}",
    summary="Read Paper",
    response_model=PaperAnswerOut,
    responses=documented(*PAPER_FORMATS),
)
@requires(READ)
def paper(
    paper_id: _PaperName, engine: EngineDep, request: Request, response: Response
) -> PaperAnswerOut | Response:
    """Return one paper by any of its names; as BibTeX or RIS by Accept or by a suffix (.bib, .ris)."""
    snapshot = engine.snapshot
    position, form = _named(engine, paper_id)
    form = form or accepted(request, response, PAPER_FORMATS)
    found = PaperOut.model_validate(snapshot.paper(position))
    if form is not Format.JSON:
        return paper_file(form, found)
    return PaperAnswerOut(paper=found, generation=snapshot.generation)


def _named(engine: SearchEngine, name: str) -> tuple[int, Format | None]:
    """Return the position of a paper, and the format if ``name`` has a suffix that is not part of its id.

    So a paper whose id ends in ``.bib`` is found by its id. Raises PaperNotFoundError.
    """
    find = engine.names.identifiers.position
    if (position := find(name)) is not None:
        return position, None
    for suffix, form in SUFFIXES.items():
        if name.endswith(suffix) and (position := find(name.removesuffix(suffix))) is not None:
            return position, form
    titles = [name, *(name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix))]
    for title, position in zip(titles, engine.names.positions(titles), strict=True):
        if position is not None:
            return position, SUFFIXES.get(name.removeprefix(title))
    return engine.names.position(name), None
