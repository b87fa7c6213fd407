"""The search engine and the ingest of papers, as dependencies of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.api.services import services_of
from service.collection.served import ServedCollection
from service.search.engine import SearchEngine


async def get_engine(request: Request) -> SearchEngine:
    """Return the engine of this request; the same one is used for the body and the headers of its answer."""
    engine: SearchEngine = request.state.engine
    return engine


async def get_collection(request: Request) -> ServedCollection:
    """Return the collection that papers are added to."""
    return services_of(request.app).collection


EngineDep = Annotated[SearchEngine, Depends(get_engine)]
CollectionDep = Annotated[ServedCollection, Depends(get_collection)]
