"""``/v1/batches``: many searches in one request, done in the background and read when they are done."""

from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from models.errors import BatchNotFoundError, BatchUnfinishedError
from service.access.in_turn import in_turn
from service.access.keys import Caller
from service.access.policy import MAX_BATCH_BYTES, OWN, requires
from service.api.batch_files import ResultRange, as_file
from service.api.dependencies.callers import CallerDep, owner_of, seen_by
from service.api.dependencies.engine import EngineDep
from service.api.dependencies.formats import accepted, documented, file_headers
from service.api.dependencies.profiles import kept_profiles
from service.api.errors import RESPONSES
from service.api.formats import BATCH_FORMATS, Format
from service.api.json_body import JSONBodyRoute
from service.api.middleware.routing import PATH_PATTERN
from service.api.schemas.batches import (
    MAX_LISTED,
    MAX_QUERIES,
    MAX_TOTAL_SEEDS,
    BatchIn,
    BatchListOut,
    BatchOut,
    MatchBatchIn,
    ProfilesBatchIn,
)
from service.api.services import services_of
from service.batches.content import BatchContent, hash_of, new_job
from service.batches.job import Job
from service.batches.jobs import Jobs
from service.batches.scheduler import Batches
from service.match.answer import Matcher
from service.match.query import MatchQuery
from service.search.engine import SearchEngine

router = APIRouter(prefix="/v1/batches", tags=["batches"], route_class=JSONBodyRoute)
_BY_ID = "/{batch_id}"
_BatchId = Annotated[str, Path(pattern=PATH_PATTERN, description="The `id` of a batch that was started.")]
_IDEMPOTENCY = "Requests with the same key and the same body start only one batch."
_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {**RESPONSES[422], "description": "The request conflicts with the current state"}
}
_STARTED: dict[int | str, dict[str, Any]] = {
    202: {"headers": {"Location": {"description": "The address of the batch", "schema": {"type": "string"}}}}
}


async def _get_batches(request: Request) -> Batches:
    return services_of(request.app).batches


async def _batch_format(request: Request, response: Response) -> Format:
    return accepted(request, response, BATCH_FORMATS)


BatchesDep = Annotated[Batches, Depends(_get_batches)]
BatchFormatDep = Annotated[Format, Depends(_batch_format)]
AfterParam = Annotated[str, Query(pattern="^([0-9]{1,11}-[A-Za-z0-9_-]{22})?$", description="next_after.")]
IdempotencyKey = Annotated[
    str | None, Header(min_length=1, max_length=255, pattern="^[!-~]+$", description=_IDEMPOTENCY)
]
Start = Annotated[int, Query(ge=0, le=MAX_QUERIES, description="The number of the first result to return.")]


@router.post("", status_code=202, responses={**_STARTED, **_CONFLICT})
@requires(replace(OWN, max_body_bytes=MAX_BATCH_BYTES, remedy="split the batch"))
def start_batch(
    body: BatchIn,
    request: Request,
    response: Response,
    engine: EngineDep,
    batches: BatchesDep,
    caller: CallerDep,
    idempotency_key: IdempotencyKey = None,
) -> BatchOut:
    """Start a batch of up to 10,000 searches, recommendations or submissions on the current collection."""
    owner, body_hash = owner_of(caller), hash_of(body)
    # The profiles that the body names may have changed since.
    job = batches.earlier(owner, idempotency_key, body_hash)
    if job is None:
        new = new_job(
            _content_of(body, request, engine),
            owner=owner,
            idempotency_key=idempotency_key,
            body_hash=body_hash,
            generation=engine.snapshot.generation,
        )
        job = batches.start(new)
    response.headers["Location"] = f"{router.prefix}/{job.id}"
    return _out(batches.jobs(), job)


@router.get("")
@requires(OWN)
def latest_batches(batches: BatchesDep, caller: CallerDep, after: AfterParam = "") -> BatchListOut:
    """Return the batches of the caller, for a key of scope admin those of all, the last started first."""
    try:
        jobs = batches.jobs()
    except BatchNotFoundError:  # there never was one
        return BatchListOut(batches=[], next_after=None)
    started_at, _, job_id = after.partition("-")
    place = (int(started_at), job_id) if after else None
    found = jobs.latest(owner=seen_by(caller), after=place, limit=MAX_LISTED + 1)
    shown = found[:MAX_LISTED]
    return BatchListOut(
        batches=[BatchOut.of(*each) for each in zip(shown, jobs.all_ready(shown), strict=True)],
        next_after=f"{shown[-1].created_at}-{shown[-1].id}" if len(found) > MAX_LISTED else None,
    )


@router.get(_BY_ID)
@requires(OWN)
def batch(batch_id: _BatchId, batches: BatchesDep, caller: CallerDep) -> BatchOut:
    """Return the state of a batch: how much of it is done."""
    jobs = batches.jobs()
    return _out(jobs, jobs.get(batch_id, owner=seen_by(caller)))


@router.get(
    f"{_BY_ID}/results",
    response_class=StreamingResponse,
    responses={**documented(*BATCH_FORMATS), **_CONFLICT},
)
@requires(OWN)
def batch_results(
    batch_id: _BatchId,
    request: Request,
    batches: BatchesDep,
    caller: CallerDep,
    form: BatchFormatDep,
    start: Start = 0,
) -> StreamingResponse:
    """Return the results in order, starting with number ``start``, as far as they are done.

    ``X-Akin-Next-Start`` is the ``start`` of the next request; once ``X-Akin-Batch-State`` is ``done`` or
    ``failed``, there are no further results.
    """
    return results_file(batch_id, request, batches, caller, form, start=start)


def results_file(
    batch_id: str,
    request: Request,
    batches: Batches,
    caller: Caller,
    form: Format,
    *,
    start: int = 0,
    for_spreadsheets: bool = False,
) -> StreamingResponse:
    """Return the results of a batch from ``start`` on as a file, ``for_spreadsheets`` as in ``as_file``."""
    jobs = batches.jobs()
    job = jobs.get(batch_id, owner=seen_by(caller))
    if form is Format.PARQUET and job.state.active:
        raise BatchUnfinishedError(
            "The batch is not finished, and Parquet is only available for all results; wait for it, or "
            "request NDJSON."
        )
    stop = max(start, jobs.n_ready(job))
    stretch = ResultRange(job.id, start, stop)
    return StreamingResponse(
        in_turn(request.state.queue, as_file(form, jobs, stretch, for_spreadsheets=for_spreadsheets)),
        headers={
            **file_headers(form, "akin-batch"),
            "X-Akin-Generation": job.generation,
            "X-Akin-Next-Start": str(stop),
            "X-Akin-Batch-State": job.state.value,
        },
    )


@router.delete(_BY_ID, status_code=204)
@requires(OWN)
def end_batch(batch_id: _BatchId, batches: BatchesDep, caller: CallerDep) -> None:
    """Cancel a batch if it is not finished, and remove it with its results: read them first.

    A batch that is not there, or no longer, gives 204 too.
    """
    with suppress(BatchNotFoundError):
        batches.jobs().remove(batch_id, owner=seen_by(caller))


def _content_of(body: BatchIn, request: Request, engine: SearchEngine) -> BatchContent | MatchQuery:
    if isinstance(body, ProfilesBatchIn):
        most = MAX_TOTAL_SEEDS
        kept = kept_profiles(request, body.named, most_papers=most, with_conflicts=False)
        return body.to_content(kept)
    if isinstance(body, MatchBatchIn):
        query = body.to_content(kept_profiles(request, body.named, most_papers=MAX_TOTAL_SEEDS))
        # Refuse what would make every submission fail before anything is stored.
        Matcher(engine, query.profiles, query.options).columns(name for _, name in query.conflicts)
        return query
    return body.to_content()


def _out(jobs: Jobs, job: Job) -> BatchOut:
    return BatchOut.of(job, jobs.n_ready(job))
