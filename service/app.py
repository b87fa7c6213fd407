"""The HTTP application; run it with ``akin serve`` or ``uvicorn --factory service.app:create_app``."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing

from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.datastructures import State
from starlette.middleware.cors import CORSMiddleware

from models.errors import EncoderMismatchError, StorageError
from service.admission import Queues
from service.answers import Answers
from service.auth import KeyRing
from service.batches import Batches
from service.cache import Cache, open_cache
from service.collection_metrics import add_collection_metrics
from service.cursors import Cursors
from service.door import Door, queues_of, size_threads
from service.engines import NOT_FOLLOWED, OTHER_ENCODER, Engines, PinnedEngines, open_warm_engine
from service.ingest import NOT_ABSORBED, NOT_WRITABLE, OTHER_MODELS, Ingest
from service.metrics import Metrics
from service.observed import Observed
from service.openapi import DocumentedAPI
from service.problems import RESPONSES, add_problem_handlers
from service.repeating import Repeating
from service.routes import (
    analyze,
    batch_page,
    batches,
    docs,
    health,
    page,
    papers,
    recommendations,
    search,
    semantic_scholar,
    sentences,
    static,
    titles,
)
from service.routes import metrics as metrics_route
from service.routing import Resolution, expect_resolved
from service.scrub import EVERY_S, NOT_SCRUBBED, Scrub
from service.search import SearchEngine
from service.secret import read_secret
from service.settings import Settings
from service.shedding import Shedding
from service.spans import Spans, open_spans
from service.timings import USUAL, Timings
from service.worker import ChunkWorker

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
        working = _repeated(app.state, timings)
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
        # FastAPI's load from other servers and declare no policy; ours are in service/routes/docs.py.
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
    add_problem_handlers(app)
    for part in _ROUTES:
        app.include_router(part.router)
    _add_middleware(app, settings, keys=keys, queues=queues, spans=spans, cache=cache)
    _add_gauges(app.state)
    metrics.counter("akin_cache_lookups", "Values looked for", cache.lookups, labels=("layer", "outcome"))
    metrics.gauge("akin_cache_bytes", "Values kept in memory", lambda: cache.stats().memory_bytes)
    metrics.counter("akin_redis_errors", "Calls not answered", lambda: cache.stats().redis_errors)
    return app


def _repeated(state: State, timings: Timings) -> list[Repeating]:
    """What goes on beside the requests."""
    state.following = Repeating(
        state.engines.follow,
        every_s=timings.follow_every_s,
        failure=NOT_FOLLOWED,
        failures={EncoderMismatchError: OTHER_ENCODER},
    )
    state.absorbing = Repeating(
        state.ingest.absorb,
        every_s=timings.absorb_every_s,
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
