"""The HTTP application; run it with ``akin serve`` or ``uvicorn --factory service.app:create_app``."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.datastructures import State
from starlette.middleware.cors import CORSMiddleware

from models.errors import EncoderMismatchError, StorageError
from service.access.keys import KeyRing
from service.access.queue import Queues
from service.api.answers import Answers
from service.api.errors import RESPONSES, add_problem_handlers
from service.api.middleware.access_log import Observed
from service.api.middleware.door import Door, queues_of, size_threads
from service.api.middleware.routing import Resolution, expect_resolved
from service.api.middleware.shedding import Shedding
from service.api.openapi import DocumentedAPI
from service.api.routes import (
    analyze,
    batches,
    health,
    papers,
    recommendations,
    search,
    semantic_scholar,
    sentences,
    titles,
)
from service.api.routes import metrics as metrics_route
from service.background import Repeating
from service.batches.scheduler import Batches
from service.batches.worker import ChunkWorker
from service.cache.store import Cache, open_cache
from service.collection.cursors import Cursors
from service.collection.generations import (
    NOT_FOLLOWED,
    OTHER_ENCODER,
    Engines,
    PinnedEngines,
    open_warm_engine,
)
from service.collection.ingest import NOT_ABSORBED, NOT_WRITABLE, OTHER_MODELS, Ingest
from service.collection.metrics import add_collection_metrics
from service.collection.scrub import EVERY_S, NOT_SCRUBBED, Scrub
from service.observability.metrics import Metrics
from service.observability.spans import Spans, open_spans
from service.search.engine import SearchEngine
from service.secret import read_secret
from service.settings import Settings
from service.timings import USUAL, Timings
from service.web.refusals import PROBLEM_PAGES
from service.web.routes import batch_page, docs, page, static

# How often the pointer of the data folder is looked at, and the catalog.
_FOLLOW_EVERY_S = 0.5
_ABSORB_EVERY_S = 1.0
# Titles come before single papers, whose ids may be anything.
_ROUTES = (
    search,
    recommendations,
    sentences,
    batches,
    analyze,
    titles,
    papers,
    semantic_scholar,
    health,
    metrics_route,
    docs,
    page,
    batch_page,
    static,
)
# What a page of another origin, where those are allowed, may send and read beside the usual.
_ASKED = ("Authorization", "Content-Type", "Idempotency-Key", "X-API-Key")
_TOLD = (
    "Retry-After",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "X-Request-ID",
    "X-Akin-Generation",
    "X-Akin-Next-Cursor",
    "X-Akin-Reason",
    "X-Akin-Next-Start",
    "X-Akin-Batch-State",
    "Location",
)


def create_app(
    settings: Settings | None = None,
    engine: SearchEngine | None = None,
    *,
    cache: Cache | None = None,
    timings: Timings = USUAL,
) -> FastAPI:
    """The application over ``engine``, or over the snapshot ``settings`` (default: the environment) name.

    ``cache`` is that of ``engine``; without it there is one as ``settings`` ask for.
    """
    settings = settings or Settings()
    cache = cache or open_cache(settings)
    keys = KeyRing(settings.catalog, keyless=settings.keyless, refresh_s=timings.keys_refresh_s)
    metrics, spans = Metrics(), open_spans(settings.otlp_endpoint, timeout_s=timings.export_timeout_s)
    queues = queues_of(settings)
    background = Batches(settings, timings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal engine
        size_threads(settings)
        app.state.cache = cache
        app.state.answers = Answers(cache, device=settings.device)
        engines = Engines.of(
            settings, engine or open_warm_engine(settings, cache), cache, retry_s=timings.swap_retry_s
        )
        # Or its generation would be held as long as the process lives.
        engine = None if engines.follows else engine
        app.state.engines = engines
        app.state.cursors = Cursors(read_secret(settings.data, settings.secret))
        app.state.ingest = Ingest(settings.data, settings.catalog, engines, keep=settings.keep)
        app.state.scrub = Scrub(
            engines,
            settings.data,
            mib_s=settings.scrub_mib_s if engines.follows else 0.0,
            pause_s=timings.scrub_pause_s,
            damaged_pause_s=timings.scrub_damaged_pause_s,
        )
        working = _repeated(app.state)
        app.state.degradations += [
            each.degradations for each in (*working, app.state.scrub, app.state.ingest)
        ]
        async with keys.kept_fresh(), background.worked_off(_worker(app.state, settings, queues, timings)):
            with closing(app.state.ingest), ExitStack() as running:
                for each in working:
                    running.enter_context(each)
                yield
                # All at once: their waits must not add up.
                for each in working:
                    each.stop()
                background.stop()
                keys.stop()
        cache.close()
        await to_thread.run_sync(spans.close)

    app = DocumentedAPI(
        title="Akin",
        summary="Papers akin to yours, in the respect you choose.",
        lifespan=lifespan,
        responses=RESPONSES,
        redirect_slashes=False,
        # A request that reaches a route by another way than its policy is stopped there.
        dependencies=[Depends(expect_resolved)],
        # FastAPI's load from other servers and declare no policy; ours are in service/web/routes/docs.py.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # FastAPI's own puts paths, queries and the messages of errors into spans.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.metrics = metrics
    # Parts that can fail add theirs; asked at each look at /readyz and /metrics, they answer from memory.
    app.state.degradations = [
        keys.degradations,
        spans.degradations,
        cache.degradations,
        background.degradations,
    ]
    app.state.batches, app.state.data = background, settings.data
    add_problem_handlers(app, PROBLEM_PAGES)
    for part in _ROUTES:
        app.include_router(part.router)
    _add_middleware(app, settings, keys=keys, queues=queues, spans=spans, cache=cache)
    _add_gauges(app.state)
    metrics.counter("akin_cache_lookups", "Values looked for", cache.lookups, labels=("layer", "outcome"))
    metrics.gauge("akin_cache_bytes", "Values kept in memory", lambda: cache.stats().memory_bytes)
    metrics.counter("akin_redis_errors", "Calls not answered", lambda: cache.stats().redis_errors)
    return app


def _repeated(state: State) -> list[Repeating]:
    """What goes on beside the requests."""
    state.following = Repeating(
        state.engines.follow,
        every_s=_FOLLOW_EVERY_S,
        failure=NOT_FOLLOWED,
        failures={EncoderMismatchError: OTHER_ENCODER},
    )
    state.absorbing = Repeating(
        state.ingest.absorb,
        every_s=_ABSORB_EVERY_S,
        failure=NOT_ABSORBED,
        failures={EncoderMismatchError: OTHER_MODELS, StorageError: NOT_WRITABLE},
    )
    state.scrubbing = Repeating(state.scrub.step, every_s=EVERY_S, failure=NOT_SCRUBBED)
    return [state.following, state.absorbing, state.scrubbing]


def _add_middleware(
    app: FastAPI, settings: Settings, *, keys: KeyRing, queues: Queues, spans: Spans, cache: Cache
) -> None:
    """What every request passes; each is around those before it."""
    metrics: Metrics = app.state.metrics
    app.add_middleware(Door, settings=settings, keys=keys, metrics=metrics, queues=queues, redis=cache.redis)
    app.add_middleware(Observed, metrics=metrics, spans=spans)
    app.add_middleware(Shedding, queues=queues, deadline_s=settings.deadline_s, metrics=metrics)
    app.add_middleware(Resolution, application=app)
    if settings.cors_origin_list:  # pages of other origins may call the service
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin_list,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=_ASKED,
            expose_headers=_TOLD,
        )


def _add_gauges(state: State) -> None:
    """What is served, and what it is served without."""

    def degraded() -> dict[tuple[str, ...], float]:
        return {(each.part,): 1.0 for source in state.degradations for each in source()}

    metrics: Metrics = state.metrics
    add_collection_metrics(metrics, state)
    metrics.gauge("akin_degraded", "1 for each part that does not work", degraded, labels=["part"])


def _worker(state: State, settings: Settings, queues: Queues, timings: Timings) -> ChunkWorker:
    """What does batches in this process, giving way to requests."""
    return ChunkWorker(
        PinnedEngines(settings, lambda: state.engines.current),
        state.cursors,
        deadline_s=settings.deadline_s,
        idle=lambda: queues.computing.idle,
        patience_s=timings.patience_s,
    )
