"""The search engine, and what takes papers in, as dependencies of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.collection.ingest import Ingest
from service.search.engine import SearchEngine


def get_engine(request: Request) -> SearchEngine:
    """The engine that answers this request, the same from its first line to its headers."""
    engine: SearchEngine = request.state.engine
    return engine


def get_ingest(request: Request) -> Ingest:
    """What takes papers in."""
    ingest: Ingest = request.app.state.ingest
    return ingest


EngineDep = Annotated[SearchEngine, Depends(get_engine)]
IngestDep = Annotated[Ingest, Depends(get_ingest)]
