"""Answers as clients receive them, cached: the same question to the same generation gets the same bytes."""

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.metadata import version
from typing import Final

import orjson
from fastapi import Response
from pydantic import BaseModel

from models.types import Precision
from service.api.schemas.search.recommendations import RecommendationsOut
from service.api.schemas.search.results import SearchOut
from service.api.schemas.writing import JSONAnswer
from service.cache.annotations import computing_on, fingerprints
from service.cache.digests import digest_of
from service.cache.store import Cache
from service.collection.cursors import Cursors
from service.search.engine import SearchEngine
from service.search.query import SearchQuery

# Increased whenever, within one version of Akin, the answer to the same question changes.
_FORMAT: Final = 12
_TIME: Final = b'"took_ms":'  # the last member of every answer, and the only one that differs each time

# A page of a ranked list.
RankedOut = SearchOut | RecommendationsOut


class Answers:
    """Cached answers to questions of any kind; ``device`` and ``precision`` are as the settings name them."""

    def __init__(self, cache: Cache, *, device: str, precision: str) -> None:
        self._cache = cache
        self._device = device
        self._precision = Precision(precision)

    @cached_property
    def _made_by(self) -> tuple[object, ...]:
        """Everything besides question and engine that decides the bytes of an answer; read on first use."""
        return (version("akin"), _FORMAT, computing_on(self._device, self._precision))

    def respond(
        self,
        engine: SearchEngine,
        query: object,
        compute: Callable[[], BaseModel | JSONAnswer],
        *,
        reads_text: bool,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return ``content`` as a response."""
        content = self.content(engine, query, compute, reads_text=reads_text)
        return Response(content, media_type="application/json", headers=dict(headers or {}))

    def content(
        self,
        engine: SearchEngine,
        query: object,
        compute: Callable[[], BaseModel | JSONAnswer],
        *,
        reads_text: bool,
    ) -> bytes:
        """Return the answer of ``compute``, computed now or read from the cache, as JSON.

        Its ``took_ms`` is that of the answer if it is computed now, else the time of finding the cached one.
        ``query`` is everything that the answer depends on besides the engine; ``reads_text`` says whether
        the encoder takes part in it. Raises what ``compute`` raises, and DeadlineError.
        """
        started = time.perf_counter()
        readers = fingerprints(engine.annotator) if reads_text else ()
        question = (
            self._made_by,
            engine.digest.hex(),
            engine.n_candidates,
            readers,
            type(query).__name__,
            query,
        )
        made: JSONAnswer | None = None

        def make() -> bytes:
            nonlocal made
            answer = compute()
            made = answer if isinstance(answer, JSONAnswer) else JSONAnswer.of(answer)
            return made.content[: made.content.rindex(_TIME) + len(_TIME)]

        # An answer from a part of the collection is not cached: soon all of it may be available.
        name = f"answer:{digest_of(question).hex()}"
        timeless = self._cache.value(name, make, keep=lambda: made is None or made.coverage == 1)
        took_ms = round((time.perf_counter() - started) * 1000, 3) if made is None else made.took_ms
        return timeless + orjson.dumps(took_ms) + b"}"


def answer_page(
    out: type[RankedOut], engine: SearchEngine, cursors: Cursors, query: SearchQuery
) -> RankedOut:
    """Return the requested page of the ranked list as ``out``, with the cursor of the next page.

    Raises PaperNotFoundError, SentenceSelectionError, EncoderMismatchError, DeadlineError.
    """
    answer, cursor = cursors.answered(query, engine)
    return out.of(answer, next_cursor=cursor)


def write_page(
    out: type[RankedOut], engine: SearchEngine, cursors: Cursors, query: SearchQuery
) -> JSONAnswer:
    """Return the page of ``answer_page`` as JSON; raises what ``answer_page`` raises."""
    answer, cursor = cursors.answered(query, engine)
    return out.written(answer, next_cursor=cursor)
