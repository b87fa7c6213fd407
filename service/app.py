"""The HTTP application; run it with ``akin serve`` or ``uvicorn --factory service.app:create_app``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from service.auth import KeyRing
from service.cursors import Cursors
from service.door import Door, size_threads
from service.problems import RESPONSES, add_problem_handlers
from service.routes import (
    analyze,
    health,
    papers,
    recommendations,
    search,
    semantic_scholar,
    sentences,
    titles,
)
from service.search import SearchEngine, open_engine
from service.secret import read_secret
from service.settings import Settings

# What a page of another origin, where those are allowed, may send and read beside the usual.
_ASKED = ("Authorization", "Content-Type", "X-API-Key")
_TOLD = (
    "Retry-After",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "X-Request-ID",
    "X-Akin-Generation",
    "X-Akin-Next-Cursor",
    "X-Akin-Reason",
)


def create_app(settings: Settings | None = None, engine: SearchEngine | None = None) -> FastAPI:
    """The application over ``engine``, or over the snapshot ``settings`` (default: the environment) name."""
    settings = settings or Settings()
    keys = KeyRing(settings.catalog)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        size_threads(settings)
        app.state.engine = engine or _warm_engine(settings)
        app.state.cursors = Cursors(read_secret(settings.data, settings.secret))
        async with keys.kept_fresh():
            yield

    app = FastAPI(
        title="Akin",
        summary="Papers akin to yours, in the respect you choose.",
        lifespan=lifespan,
        responses=RESPONSES,
        redirect_slashes=False,
    )
    app.add_middleware(Door, settings=settings, keys=keys)
    if origins := settings.cors_origin_list:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=_ASKED,
            expose_headers=_TOLD,
        )
    add_problem_handlers(app)
    app.include_router(search.router)
    app.include_router(recommendations.router)
    app.include_router(sentences.router)
    app.include_router(analyze.router)
    # Before single papers, whose ids may be anything.
    app.include_router(titles.router)
    app.include_router(papers.router)
    app.include_router(semantic_scholar.router)
    app.include_router(health.router)
    return app


def _warm_engine(settings: Settings) -> SearchEngine:
    engine = open_engine(settings)
    engine.warm_up()
    return engine
