"""Whether the process lives and whether it can answer."""

from fastapi import APIRouter

from service.routes.engine import EngineDep
from service.schemas.operations import HealthOut

router = APIRouter(tags=["operations"])


@router.get("/livez")
def livez() -> HealthOut:
    """The process answers."""
    return HealthOut(status="ok")


@router.get("/readyz")
def readyz(engine: EngineDep) -> HealthOut:
    """A verified snapshot is open and its encoder loaded."""
    manifest = engine.snapshot.manifest
    return HealthOut(
        status="ok",
        generation=manifest.generation,
        papers=manifest.n_papers,
        vectors=manifest.n_rows,
        encoder=manifest.encoder.name,
    )
