"""The search engine as a dependency of endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from service.search import SearchEngine


def get_engine(request: Request) -> SearchEngine:
    """The engine the application was started with."""
    engine: SearchEngine = request.app.state.engine
    return engine


EngineDep = Annotated[SearchEngine, Depends(get_engine)]
