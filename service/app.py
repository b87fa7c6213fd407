"""The HTTP application; run it with ``akin serve`` or ``uvicorn --factory service.app:create_app``."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response

from service.problems import RESPONSES, add_problem_handlers, identity
from service.routes import analyze, health, papers, search, sentences
from service.search import SearchEngine, open_engine
from service.settings import Settings


def create_app(settings: Settings | None = None, engine: SearchEngine | None = None) -> FastAPI:
    """The application over ``engine``, or over the snapshot ``settings`` (default: the environment) name."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.engine = engine or _warm_engine(settings or Settings())
        yield

    app = FastAPI(
        title="Akin",
        summary="Papers akin to yours, in the respect you choose.",
        lifespan=lifespan,
        responses=RESPONSES,
    )
    app.middleware("http")(_identify)
    add_problem_handlers(app)
    app.include_router(search.router)
    app.include_router(sentences.router)
    app.include_router(analyze.router)
    app.include_router(papers.router)
    app.include_router(health.router)
    return app


def _warm_engine(settings: Settings) -> SearchEngine:
    engine = open_engine(settings)
    engine.warm_up()
    return engine


async def _identify(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Give every request an id and every response the generation it came from."""
    request.state.request_id = uuid.uuid4().hex
    response = await call_next(request)
    response.headers.update(identity(request))
    return response
