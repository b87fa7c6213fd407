"""The engines of one service: that of the served generation, and those that cursors still refer to."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache as remembered
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from indexer.snapshot.folder import current_generation, read_manifest
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator, load_annotator
from models.errors import AkinError, CursorExpiredError, ShardAwayError, SnapshotError, StorageError
from models.types import Precision
from service.cache.annotations import load_cached
from service.cache.digests import generation_digest
from service.cache.single_flight import Flights
from service.cache.store import Cache
from service.cluster.snapshot import on_cluster
from service.degradation import Degradation
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import DEFAULTS

# How long after its last use a superseded generation can still be paged through, and how many are kept: more
# of small collections, as each takes about 8 bytes per sentence vector besides the segments they share.
_PINNED_S: Final = 900.0
_MAX_PINNED: Final = 64
_MAX_PINNED_ROWS: Final = 20_000_000
GENERATION_NOT_SERVED: Final = Degradation(
    "swap",
    "A newer generation was published and cannot be served; the older one stays in use.",
    "see the log, then run `akin snapshot verify`, and `akin reindex`, which loses nothing",
)
OTHER_ENCODER: Final = Degradation(
    "swap",
    "A newer generation was made with another encoder than AKIN_ENCODER; the older one stays in use.",
    "unset AKIN_ENCODER, or set it to the new encoder, and restart the service",
)
DEVICE_FULL: Final = Degradation(
    "swap",
    "A newer generation does not fit into the memory of the GPUs beside the older one, which stays in use.",
    "restart the service, which then opens the newer one alone, or add GPUs",
)
_log = structlog.get_logger(__name__)

# (generation, or None for the served one; an engine to share segments and encoder with)
OpenEngine = Callable[[str | None, SearchEngine], SearchEngine]
# The generation that the pointer names, with the manifest's inode and time, as names may repeat.
_Target = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class _Failure:
    """A generation that could not be served, the reason, and the time until which it is not tried again."""

    pointed_at: _Target
    error: AkinError
    until: float


class Engines:
    """The engine that follows the pointer of a data folder; each request is answered by one engine.

    Without ``reopen`` nothing is followed: the first engine stays. A generation that could not be served is
    tried again after ``retry_s`` seconds, or as soon as the shard that it needs is back.
    """

    def __init__(
        self,
        first: SearchEngine,
        data: Path,
        *,
        reopen: OpenEngine | None,
        clock: Callable[[], float] = time.monotonic,
        retry_s: float = DEFAULTS.swap_retry_s,
    ) -> None:
        self.current = first
        self._data = data
        self._reopen = reopen
        self._clock = clock
        self._retry_s = retry_s
        self._served = self._pointed_at() if reopen else None
        # If a generation was published during the loading, the first ``follow`` opens it.
        if self._served is not None and self._served[0] != first.snapshot.generation:
            self._served = None
        self._pinned: dict[bytes, tuple[SearchEngine, float]] = {}
        self._lock = Lock()
        self._following = Lock()  # only one thread at a time opens the next generation
        self._reopening: Flights[bytes, SearchEngine] = Flights()  # older ones, for cursors
        self._failure: _Failure | None = None
        self._was_away = False  # whether a shard was away when a failure was last checked
        self.swapped_at: float | None = None  # Unix time
        self.n_failed_swaps = 0

    @classmethod
    def of(
        cls, settings: Settings, first: SearchEngine, cache: Cache, *, retry_s: float = DEFAULTS.swap_retry_s
    ) -> "Engines":
        """Return the engines of a service that starts with ``first``; they follow a data folder, if any."""
        if not DataFolder(settings.data).current.is_file():
            return cls(first, settings.data, reopen=None)

        def reopen(generation: str | None, beside: SearchEngine) -> SearchEngine:
            return open_engine(settings, cache, generation=generation, beside=beside)

        return cls(first, settings.data, reopen=reopen, retry_s=retry_s)

    @property
    def follows(self) -> bool:
        """Whether there is a data folder whose changes are followed."""
        return self._reopen is not None

    def follow(self) -> bool:
        """Serve the generation that the pointer names now; returns whether that is new.

        The served generation stays if the new one is damaged or was made with another encoder than the one
        to use; the new one is tried again after a while. Raises SnapshotError, EncoderError, StorageError.
        """
        if self._reopen is None:
            return False
        self._unpin()
        with self._following:
            pointed_at = self._pointed_at()
            if pointed_at == self._served:
                return False
            failure = self._failure
            if failure and failure.pointed_at == pointed_at and not self._is_due(failure):
                raise copy(failure.error)
            try:
                engine = self._reopen(None, self.current)
                engine.warm_up().join()  # until the titles are read, the older engine finds papers by them
            except AkinError as error:
                if failure is None or failure.pointed_at != pointed_at:
                    self.n_failed_swaps += 1
                # A copy, as a traceback would keep opened files open.
                self._failure = _Failure(pointed_at, copy(error), self._clock() + self._retry_s)
                self._was_away = bool(self.current.snapshot.away)
                raise
            self.current = engine
            self._served = pointed_at
            self._failure = None
            self.swapped_at = time.time()
        _log.info("serving", generation=engine.snapshot.generation, papers=len(engine.snapshot))
        return True

    def _is_due(self, failure: _Failure) -> bool:
        was_away, self._was_away = self._was_away, bool(self.current.snapshot.away)
        is_back = isinstance(failure.error, ShardAwayError) and was_away and not self._was_away
        return is_back or self._clock() >= failure.until

    def pin(self, engine: SearchEngine) -> None:
        """Keep ``engine``, which a cursor refers to, for a while after it is superseded."""
        with self._lock:
            self._pinned[engine.digest] = (engine, self._clock())
            most = max(2, min(_MAX_PINNED, _MAX_PINNED_ROWS // max(1, engine.snapshot.n_rows)))
            while len(self._pinned) > most:
                oldest = min(self._pinned, key=lambda digest: self._pinned[digest][1])
                del self._pinned[oldest]

    def at(self, digest: bytes) -> SearchEngine:
        """Return the engine of the generation with this digest of its manifest.

        Raises CursorExpiredError if that generation is gone, DeadlineError.
        """
        current = self.current
        if current.digest == digest:
            return current
        engine = self._known(digest) or self._reopening.run(digest, lambda: self._opened(digest))
        self.pin(engine)
        return engine

    def _known(self, digest: bytes) -> SearchEngine | None:
        with self._lock:
            pinned = self._pinned.get(digest)
        return pinned[0] if pinned else None

    def _opened(self, digest: bytes) -> SearchEngine:
        engine = self._known(digest) or self._on_disk(digest)  # another thread may have opened it meanwhile
        self.pin(engine)
        return engine

    def _on_disk(self, digest: bytes) -> SearchEngine:
        """Open an older generation from the data folder, as after a restart; raises CursorExpiredError."""
        reopen = self._reopen
        for generation in reversed(DataFolder(self._data).generations()) if reopen else ():
            with suppress(SnapshotError, StorageError):
                if reopen and generation_digest(read_manifest(self._data, generation)) == digest:
                    return reopen(generation, self.current)
        raise CursorExpiredError(
            "The collection has changed since the first page: the generation of the cursor is no longer "
            f"kept; {self.current.snapshot.generation} is served. Start again without a cursor."
        )

    def _unpin(self) -> None:
        """Release engines that no cursor has referred to for _PINNED_S seconds."""
        with self._lock:
            ended = [key for key, (_, used) in self._pinned.items() if self._clock() - used > _PINNED_S]
            for key in ended:
                del self._pinned[key]

    def _pointed_at(self) -> _Target:
        name = current_generation(self._data)
        with storage_errors(self._data):
            stat = DataFolder(self._data).manifest(name).stat()
        return name, stat.st_ino, stat.st_mtime_ns


def open_engine(
    settings: Settings,
    cache: Cache | None = None,
    *,
    generation: str | None = None,
    beside: SearchEngine | None = None,
) -> SearchEngine:
    """Return an engine over a generation of ``settings.data``, the served one by default.

    Annotations of pasted papers are cached in ``cache``. What the engine has in common with ``beside`` is
    shared: segments, and the models if they are the same. Raises SnapshotMissingError, SnapshotCorruptError.
    """
    known = None if beside is None else beside.snapshot
    snapshot = open_snapshot(
        settings.data, generation, device=settings.own_device, beside=known, reread=False
    )
    snapshot = on_cluster(snapshot, settings)
    if beside is not None and snapshot.manifest.has_models_of(beside.snapshot.manifest):
        return SearchEngine(snapshot, beside.load, n_candidates=settings.candidates)
    load = _loader(settings, cache, snapshot.manifest)
    return SearchEngine(snapshot, load, n_candidates=settings.candidates)


def open_warm_engine(settings: Settings, cache: Cache) -> SearchEngine:
    """Return the engine over the served generation, warm; raises as ``open_engine``, and EncoderError.

    The models are loaded while the files are verified: each takes seconds.
    """
    generation = current_generation(settings.data)
    with ThreadPoolExecutor(1) as pool:
        models = pool.submit(_loader(settings, cache, read_manifest(settings.data, generation)))
        snapshot = open_snapshot(settings.data, generation, device=settings.own_device, reread=False)
        snapshot = on_cluster(snapshot, settings)
        engine = SearchEngine(snapshot, models.result, n_candidates=settings.candidates)
        engine.warm_up()
    return engine


def _loader(settings: Settings, cache: Cache | None, manifest: Manifest) -> Callable[[], Annotator]:
    """Return a function that loads the models of a generation, or those set in ``settings``, once."""
    name = settings.encoder or manifest.encoder.name
    built = manifest.arguments
    load: Callable[[], Annotator] = partial(
        remembered(load_annotator),
        name,
        device=settings.own_device,
        precision=Precision(settings.precision),
        tagger=settings.tagger or _still_there(built["tagger"]),
        functions=settings.functions or _still_there(built["functions"]),
    )
    if cache is not None:
        load = partial(
            load_cached,
            load,
            cache,
            device=settings.own_device,
            precision=Precision(settings.precision),
            together=settings.together,
        )
    return load


def _still_there(named: str | None) -> Path | None:
    """Return the weights a snapshot was built with; ``None``, for the shipped ones, if they are gone."""
    if named is None:
        return None
    if not Path(named).is_file():
        _log.warning("weights_missing", file=named, remedy="set AKIN_TAGGER or AKIN_FUNCTIONS")
        return None
    return Path(named)
