"""``/batch``: searches for many papers: matching of lines, progress, results on pages and as files."""

from dataclasses import replace
from enum import StrEnum
from itertools import chain
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from models.errors import InputError
from service.access.keys import Caller
from service.access.policy import LANDING, OWN, READ, Dialect, requires
from service.api.batch_files import queries_in, results_of
from service.api.dependencies.callers import CallerDep, seen_by
from service.api.dependencies.engine import EngineDep
from service.api.formats import Format
from service.api.routes.batches import AfterParam, BatchesDep, latest_batches, results_file
from service.api.schemas.batches import MAX_QUERIES
from service.web.library import MAX_LIBRARY_BYTES, find_library
from service.web.render import render
from service.web.uploads import BodyDep, form_parts
from service.web.views.batch import stretch_shown, view_lines, view_results

router = APIRouter(prefix="/batch", include_in_schema=False)
_LIST: Final = "list"
_A_PAGE: Final = 20  # earlier batches


class Ending(StrEnum):
    """The extensions of a results file in its address: a link cannot send an Accept header."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"

    @property
    def form(self) -> Format:
        """The format of the file."""
        return Format[self.name]


@router.get("")
@requires(LANDING)
def page(request: Request) -> Response:
    """Show the page that starts a batch and watches it; its script reads the batch's id from the address."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return render(
        "batch/page.html",
        most=MAX_QUERIES,
        refused=caller is None,
        keyed=caller is None or caller.key is not None,
    )


@router.post("/lines")
@requires(replace(READ, dialect=Dialect.PAGE, max_body_bytes=MAX_LIBRARY_BYTES))
def matched(request: Request, engine: EngineDep, body: BodyDep) -> Response:
    """Show which lines name papers of the collection, and near papers for the others; nothing is stored."""
    sent = form_parts(body, request.headers.get("content-type", ""))
    lines = next((each.content for each in sent if each.name == _LIST and each.content.strip()), None)
    if lines is None:
        raise InputError("There is nothing to search for; paste titles, DOIs or ids, one per line.")
    library = find_library(engine, lines, "", most=MAX_QUERIES)
    if library.is_cut:
        most = f"{MAX_QUERIES:,}"
        raise InputError(f"These are more than {most} papers; one batch takes {most} at most. Start several.")
    return render("batch/lines.html", lines=view_lines(engine, library))


@router.get("/earlier")
@requires(replace(OWN, dialect=Dialect.PAGE))
def earlier(batches: BatchesDep, caller: CallerDep, after: AfterParam = "") -> Response:
    """List the batches that the caller sees, the last started first."""
    found = latest_batches(batches, caller, after).batches
    shown = found[:_A_PAGE]
    last = f"{shown[-1].created_at.timestamp():.0f}-{shown[-1].id}" if len(found) > len(shown) else ""
    return render("batch/earlier.html", batches=shown, older=last)


@router.get("/{batch_id}/papers")
@requires(replace(OWN, dialect=Dialect.PAGE))
def papers(
    batch_id: str,
    batches: BatchesDep,
    caller: CallerDep,
    start: Annotated[int, Query(ge=0, le=MAX_QUERIES)] = 0,
) -> Response:
    """Show a page of a batch's results, from number ``start`` (from 0), or the last if it has fewer."""
    jobs = batches.jobs()
    job = jobs.get(batch_id, owner=seen_by(caller))
    n_ready = jobs.n_ready(job)
    stretch = stretch_shown(job.id, start, n_ready)
    found = list(chain.from_iterable(results_of(jobs, stretch)))
    queries = list(queries_in(jobs, stretch))
    return render("batch/papers.html", batch=view_results(job, found, queries, stretch.start, n_ready))


@router.get("/{batch_id}.{ending}")
@requires(replace(OWN, dialect=Dialect.EITHER))
def results(
    batch_id: str, ending: Ending, request: Request, batches: BatchesDep, caller: CallerDep
) -> StreamingResponse:
    """Send all finished results of a batch as a file."""
    return results_file(batch_id, request, batches, caller, ending.form, for_spreadsheets=True)
