"""The search engine and the ingest of papers, as dependencies of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.api.services import services_of
from service.collection.served import ServedCollection
from service.search.engine import SearchEngine


def get_engine(request: Request) -> SearchEngine:
    """The engine that answers this request, the same from its first line to its headers."""
    engine: SearchEngine = request.state.engine
    return engine


def get_collection(request: Request) -> ServedCollection:
    """The collection that takes papers in."""
    return services_of(request.app).collection


EngineDep = Annotated[SearchEngine, Depends(get_engine)]
CollectionDep = Annotated[ServedCollection, Depends(get_collection)]
