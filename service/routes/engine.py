"""The search engine, and what takes papers in, as dependencies of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.engines import Engines
from service.ingest import Ingest
from service.search import SearchEngine


def get_engine(request: Request) -> SearchEngine:
    """The engine that answers this request, the same from its first line to its headers."""
    engine: SearchEngine = request.state.engine
    return engine


def get_engines(request: Request) -> Engines:
    """The engines of the service, of this generation and of earlier ones."""
    engines: Engines = request.app.state.engines
    return engines


def get_ingest(request: Request) -> Ingest:
    """What takes papers in."""
    ingest: Ingest = request.app.state.ingest
    return ingest


EnginesDep = Annotated[Engines, Depends(get_engines)]
EngineDep = Annotated[SearchEngine, Depends(get_engine)]
IngestDep = Annotated[Ingest, Depends(get_ingest)]
