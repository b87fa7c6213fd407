"""The HTTP application; run it with ``akin serve`` or ``uvicorn --factory service.app:create_app``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware

from service.access.feeds import FeedTokens
from service.access.keys import KeyRing
from service.access.queue import Queues
from service.api.answers import Answers
from service.api.dependencies.parameters import expect_known_parameters
from service.api.errors import RESPONSES, add_problem_handlers
from service.api.examples import DESCRIPTION, TAGS
from service.api.middleware.access_control import AccessControl, queues_of, size_threads
from service.api.middleware.access_log import AccessLog
from service.api.middleware.load_shedding import LoadShedding
from service.api.middleware.routing import RouteResolution, expect_resolved
from service.api.openapi import DocumentedAPI
from service.api.routes import batches, health, match, papers, semantic_scholar, titles, vectors
from service.api.routes import metrics as metrics_route
from service.api.routes.saved import profiles, queries
from service.api.routes.search import analyze, recommendations, search, sentences
from service.api.services import Services, services_of
from service.batches.scheduler import Batches
from service.batches.worker import ChunkWorker
from service.cache.store import Cache, open_cache
from service.collection.cursors import Cursors
from service.collection.generations import Engines
from service.collection.metrics import add_collection_metrics
from service.collection.pinned import PinnedEngines
from service.collection.served import ServedCollection
from service.observability.metrics import Metrics
from service.observability.tracing import Spans, open_spans
from service.saved.profiles import Profiles
from service.saved.saved_queries import SavedQueries
from service.search.engine import SearchEngine
from service.secret import read_secret
from service.settings import Settings
from service.store import LazyStore
from service.timings import DEFAULTS, Timings
from service.web.address.refusals import PROBLEM_PAGES
from service.web.render import load_templates
from service.web.routes import batch_page, compare_page, docs, library_page, page, saved_page, static

# Titles come before single papers, because a paper's id may be any text.
_ROUTES = (
    search,
    recommendations,
    sentences,
    match,
    profiles,
    batches,
    queries,
    analyze,
    titles,
    vectors,
    papers,
    semantic_scholar,
    health,
    metrics_route,
    docs,
    page,
    library_page,
    batch_page,
    compare_page,
    saved_page,
    static,
)
# Additional headers that pages of other origins, if allowed, may send (asked) and read (told).
_CORS_REQUEST_HEADERS = ("Authorization", "Content-Type", "Idempotency-Key", "X-API-Key")
_CORS_RESPONSE_HEADERS = (
    "Retry-After",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "X-Request-ID",
    "X-Akin-Generation",
    "X-Akin-Next-Cursor",
    "X-Akin-Reason",
    "X-Akin-Coverage",
    "X-Akin-Warnings",
    "X-Akin-Unresolved",
    "X-Akin-Next-Start",
    "X-Akin-Batch-State",
    "Location",
)


def create_app(
    settings: Settings | None = None,
    engine: SearchEngine | None = None,
    *,
    cache: Cache | None = None,
    timings: Timings = DEFAULTS,
    engines: Engines | None = None,
) -> FastAPI:
    """Return the application over ``engine``, or over the snapshot of ``settings`` (default: environment).

    ``cache`` is the cache of ``engine``; by default it is opened by ``settings``. With ``engines``, their
    folder is served, read-only.
    """
    settings = settings or Settings()
    cache = cache or open_cache(settings)
    keys = KeyRing(settings.catalog, keyless=settings.keyless, refresh_s=timings.keys_refresh_s)
    metrics, spans = Metrics(), open_spans(settings.otlp_endpoint, timeout_s=timings.export_timeout_s)
    queues = queues_of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal engine
        size_threads(settings)
        load_templates()  # before any thread: of several that parse texts at once, Python 3.11 may fail one
        collection = ServedCollection(settings, engine, cache, timings, engines=engines)
        # Otherwise its generation would stay in use as long as the process lives.
        engine = None if collection.engines.follows else engine
        secret = read_secret(settings.data, settings.secret)
        cursors = Cursors(secret)
        saved = LazyStore(settings.catalog, partial(SavedQueries.open_of, settings.data))
        kept_profiles = LazyStore(settings.catalog, partial(Profiles.open_of, settings.data))
        batches = Batches(settings, _worker(settings, collection, cursors, queues, timings), timings)
        app.state.services = Services(
            settings=settings,
            collection=collection,
            cache=cache,
            answers=Answers(cache, device=settings.own_device, precision=settings.precision),
            cursors=cursors,
            batches=batches,
            saved=saved,
            profiles=kept_profiles,
            feeds=FeedTokens(secret),
            keys=keys,
            queues=queues,
            metrics=metrics,
            degradations=[each.degradations for each in (keys, spans, cache, batches, collection)],
        )
        with keys.refreshing(), batches.processing(), collection:
            yield
            for each in (collection, batches, keys):  # all at once, as their waits must not add up
                each.stop()
        saved.close()
        kept_profiles.close()
        cache.close()
        await to_thread.run_sync(spans.close)

    app = DocumentedAPI(
        title="Akin",
        version=version("akin"),
        summary="Papers similar to yours, in the respect you choose.",
        description=DESCRIPTION,
        openapi_tags=TAGS,
        lifespan=lifespan,
        responses=RESPONSES,
        redirect_slashes=False,
        # Rejects a request that reaches a route without passing its policy.
        dependencies=[Depends(expect_resolved), Depends(expect_known_parameters)],
        # FastAPI's use other servers and declare no policy; ours are in service/web/routes/docs.py.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # FastAPI's telemetry puts paths, queries and error messages into spans.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    add_problem_handlers(app, PROBLEM_PAGES)
    for part in _ROUTES:
        app.include_router(part.router)
    _add_middleware(app, settings, keys=keys, queues=queues, spans=spans, metrics=metrics, cache=cache)
    _add_gauges(app, metrics, cache)
    return app


def _add_middleware(
    app: FastAPI,
    settings: Settings,
    *,
    keys: KeyRing,
    queues: Queues,
    spans: Spans,
    metrics: Metrics,
    cache: Cache,
) -> None:
    """Add the middleware of all requests; each one wraps those added before it."""
    app.add_middleware(
        AccessControl, settings=settings, keys=keys, metrics=metrics, queues=queues, redis=cache.redis
    )
    app.add_middleware(AccessLog, metrics=metrics, spans=spans)
    app.add_middleware(LoadShedding, queues=queues, deadline_s=settings.deadline_s, metrics=metrics)
    app.add_middleware(RouteResolution, application=app)
    if settings.cors_origin_list:  # pages of other origins may call the service
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin_list,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=_CORS_REQUEST_HEADERS,
            expose_headers=_CORS_RESPONSE_HEADERS,
        )


def _add_gauges(app: FastAPI, metrics: Metrics, cache: Cache) -> None:
    """Add the metrics of the collection, of degraded parts and of the cache."""

    def degraded() -> dict[tuple[str, ...], float]:
        return {(each.part,): 1.0 for each in services_of(app).degraded()}

    add_collection_metrics(metrics, lambda: services_of(app).collection)
    metrics.gauge("akin_degraded", "1 for each part that is degraded", degraded, labels=["part"])
    metrics.counter("akin_cache_lookups", "Values looked for", cache.lookups, labels=("layer", "outcome"))
    metrics.gauge("akin_cache_bytes", "Values kept in memory", lambda: cache.stats().memory_bytes)
    metrics.counter("akin_redis_errors", "Calls not answered", lambda: cache.stats().redis_errors)


def _worker(
    settings: Settings, collection: ServedCollection, cursors: Cursors, queues: Queues, timings: Timings
) -> ChunkWorker:
    """Return the worker that computes batches in this process and gives way to requests."""
    return ChunkWorker(
        PinnedEngines(settings, lambda: collection.engines.current),
        cursors,
        deadline_s=settings.deadline_s,
        idle=lambda: queues.computing.idle,
        patience_s=timings.patience_s,
    )
