"""Whether the process lives and whether it can answer."""

from fastapi import APIRouter, HTTPException, Request

from service.routes.engine import EngineDep
from service.schemas.operations import HealthOut

router = APIRouter(tags=["operations"])


@router.get("/livez")
def livez() -> HealthOut:
    """The process answers."""
    return HealthOut(status="ok")


@router.get("/readyz")
def readyz(request: Request, engine: EngineDep) -> HealthOut:
    """A verified snapshot is open and its encoder loaded; 503 from the moment the process is asked to end."""
    if getattr(request.app.state, "draining", False):
        raise HTTPException(503, "The process is about to end; ask another.")
    manifest = engine.snapshot.manifest
    return HealthOut(
        status="ok",
        generation=manifest.generation,
        papers=manifest.n_papers,
        vectors=manifest.n_rows,
        encoder=manifest.encoder.name,
    )
