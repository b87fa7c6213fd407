"""``GET /batch``: many papers at once, watched on a page; its results as files by addresses of their own."""

from enum import StrEnum

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.access.keys import Caller
from service.access.policy import LANDING, OWN, requires
from service.api.dependencies.callers import CallerDep
from service.api.formats import Format
from service.api.routes.batches import BatchesDep, batch_results
from service.api.schemas.batches import MOST_QUERIES
from service.web.render import render

router = APIRouter(prefix="/batch", include_in_schema=False)


class Ending(StrEnum):
    """How the address of a file of results ends: a link cannot say what it accepts."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"

    @property
    def form(self) -> Format:
        """The format that it stands for."""
        return Format[self.name]


@router.get("")
@requires(LANDING)
def page(request: Request) -> Response:
    """The page to start a batch on and to watch it; which one, its script reads in the address."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return render(
        "batch.html",
        most=MOST_QUERIES,
        refused=caller is None,
        keyed=caller is None or caller.key is not None,
    )


@router.get("/{batch_id}.{ending}")
@requires(OWN)
def results(
    batch_id: str, ending: Ending, request: Request, batches: BatchesDep, caller: CallerDep
) -> StreamingResponse:
    """All results of a batch that are done, as a file."""
    return batch_results(batch_id, request, batches, caller, ending.form)
