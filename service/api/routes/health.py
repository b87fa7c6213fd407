"""Health: liveness, readiness, and degraded parts."""

from fastapi import APIRouter, HTTPException, Request

from service.access.keys import KEYS_NOT_READ
from service.access.policy import PUBLIC, requires
from service.api.dependencies.engine import EngineDep
from service.api.schemas.operations import AliveOut, DegradationOut, ReadyOut
from service.api.services import services_of
from service.search.reachable import reachable_papers

router = APIRouter(tags=["operations"])


@router.get("/livez")
@requires(PUBLIC)
def livez() -> AliveOut:
    """Check that the process is alive."""
    return AliveOut()


@router.get("/readyz")
@requires(PUBLIC)
def readyz(request: Request, engine: EngineDep) -> ReadyOut:
    """Check that a verified snapshot is open and its encoder loaded; 503 once the process is shutting down.

    Also 503 until the database of keys has been read once: every request that may need a key is then refused;
    and while no machine of a cluster responds, as every search is refused.
    """
    services = services_of(request.app)
    if services.draining:
        raise HTTPException(503, "The process is shutting down; use another one.")
    if not services.keys.known:
        raise HTTPException(503, f"{KEYS_NOT_READ.detail} {KEYS_NOT_READ.remedy}")
    reachable_papers(engine.snapshot)  # raises ShardAwayError, which is a 503
    manifest = engine.snapshot.manifest
    return ReadyOut(
        degraded=[DegradationOut.model_validate(each) for each in services.degraded()],
        generation=manifest.generation,
        papers=manifest.n_papers,
        vectors=manifest.n_rows,
        encoder=manifest.encoder.name,
    )
