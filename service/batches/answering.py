"""Answering the queries of a chunk, one after another."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import structlog

from indexer.encoding.embed import expect_working
from models.errors import (
    AkinError,
    DeadlineError,
    DeviceError,
    EncoderError,
    EncoderMismatchError,
    InputError,
    InternalError,
    ShardAwayError,
    UnknownNameError,
    WeightsError,
)
from service.batches.content import BatchResult, is_match, match_of, queries_of, shared_of, submissions_of
from service.batches.job import LeasedChunk
from service.collection.cursors import Cursors
from service.collection.pinned import MAX_OPEN
from service.context import advise
from service.match.answer import Matcher
from service.match.query import MatchedSubmission
from service.observability.logging import tracebacks_of
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery

# Submissions x papers that are compared together: the papers are then read only once.
_MAX_COMPARISONS: Final = 400_000
_MATCH_TIMEOUT_ADVICE: Final = "match with fewer profiles at a time"
_MAX_MATCHERS: Final = 3
ENCODER_TRIES: Final = 3  # of a chunk; if the encoder still fails, that may be due to the query
# Errors of this process, not of a query: of its device, or of an encoder that is not on its machine.
OF_PROCESS: Final = (DeviceError, UnknownNameError)
# Errors of an outage: the chunk is done again, and none of its queries gets a problem.
_OUTAGES: Final = (AkinError, OSError, MemoryError)
_log = structlog.get_logger(__name__)


class Answerer:
    """The answering of the queries of chunks; ``cursors`` are those of the service.

    The data shared by the submissions of a match is looked up once, and kept for the _MAX_MATCHERS matches
    worked on last in each of the MAX_OPEN generations worked on last: batches take turns.
    """

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors
        self._matchers = lru_cache(MAX_OPEN)(_no_matchers)

    def release(self) -> None:
        """Release all matches, and with them their generations."""
        self._matchers.cache_clear()

    def results(
        self, chunk: LeasedChunk, engine: SearchEngine, *, begin_query: Callable[[], object]
    ) -> Iterator[BatchResult]:
        """Yield the outcome of each query, in order; each has the deadline of its own turn.

        Several submissions of a match are compared together, in the turn of the first of them. If that takes
        too long, they are compared one by one, and ``begin_query`` sets a new deadline for the first of them.
        """
        self._matchers(engine)  # also for searches, so that a generation goes when its engine does
        shared = shared_of(chunk)
        if is_match(shared):
            return self._matched(chunk, engine, shared, begin_query)
        return self._ranked(chunk, engine, shared)

    def _ranked(
        self, chunk: LeasedChunk, engine: SearchEngine, shared: Mapping[str, Any]
    ) -> Iterator[BatchResult]:
        for seed, named in enumerate(queries_of(chunk, shared), start=chunk.first):
            result = BatchResult(seed, named.paper_id, name=named.name)
            try:
                answer = _whole(engine, named.query)
            except Exception as error:
                if _is_outage(error, chunk, seed):
                    raise
                yield result.with_error(_problem(error, chunk, seed, engine))
            else:
                following = self._cursors.following(answer.next_page, named.query, engine)
                yield replace(result, answer=answer, next_cursor=following)

    def _matched(
        self,
        chunk: LeasedChunk,
        engine: SearchEngine,
        shared: Mapping[str, Any],
        begin_query: Callable[[], object],
    ) -> Iterator[BatchResult]:
        submissions = list(submissions_of(chunk))
        first, most = 0, len(submissions)
        while first < len(submissions):
            advise(_MATCH_TIMEOUT_ADVICE)
            lot = submissions[first : first + most]
            outcomes: Sequence[MatchedSubmission | AkinError]
            matcher = None
            try:
                matcher = self._matcher_of(chunk.job_id, engine, shared)
                lot = lot[: max(1, _MAX_COMPARISONS // matcher.n_papers)]
                outcomes = matcher.match_each(lot)
            except Exception as error:
                if _is_outage(error, chunk, chunk.first + first):
                    raise
                if len(lot) > 1 and matcher is not None and not isinstance(error, InputError):
                    most = 1  # from here on, submissions are compared one by one
                    begin_query()
                    continue
                # Of one submission, or of the profiles and so of every one.
                outcomes = [_problem(error, chunk, chunk.first + first, engine)] * len(lot)
            for number, (submission, outcome) in enumerate(zip(lot, outcomes, strict=True), start=first):
                result = BatchResult(chunk.first + number, submission.seed.paper_id, of_match=True)
                if isinstance(outcome, MatchedSubmission):
                    yield replace(result, matched=outcome)
                else:
                    yield result.with_error(outcome)
            first += len(lot)

    def _matcher_of(self, job_id: str, engine: SearchEngine, shared: Mapping[str, Any]) -> Matcher:
        known = self._matchers(engine)
        matcher = known.pop(job_id, None)
        if matcher is None:
            common = match_of(shared)
            matcher = Matcher(engine, common.profiles, common.options, own_conflicts=common.own_conflicts)
        known[job_id] = matcher  # the last one used is the last one here
        if len(known) > _MAX_MATCHERS:
            del known[next(iter(known))]
        return matcher


def _no_matchers(_: SearchEngine) -> dict[str, Matcher]:
    return {}


def _whole(engine: SearchEngine, query: SearchQuery) -> SearchAnswer:
    """Return the answer of the whole collection; raises as ``SearchEngine.search`` and ShardAwayError."""
    answer = engine.search(query)
    if answer.coverage < 1:
        # Results are kept for days, so the chunk waits for all shards; nothing of it counts until then.
        raise ShardAwayError("A part of the collection is unavailable; the batch continues once it is back.")
    return answer


def _is_outage(error: Exception, chunk: LeasedChunk, number: int) -> bool:
    """Return whether the chunk must be done again because of an error at a query, and log it.

    An error of the encoder is an outage until the chunk was tried several times: memory may be short. Another
    encoder than that of the collection is none.
    """
    if isinstance(error, OF_PROCESS):
        return True
    if isinstance(error, InputError | DeadlineError):
        return False
    of_encoder = isinstance(error, EncoderError) and not isinstance(error, WeightsError)
    lasts = isinstance(error, EncoderMismatchError) or (of_encoder and chunk.attempts >= ENCODER_TRIES)
    if not isinstance(error, _OUTAGES) or lasts:
        return False
    if not isinstance(error, ShardAwayError):  # the batch just waits
        _log.warning(
            "batch_query_failed", job=chunk.job_id, query=number, attempt=chunk.attempts, error=str(error)
        )
    return True


def _problem(error: Exception, chunk: LeasedChunk, number: int, engine: SearchEngine) -> AkinError:
    """Return the problem to store for a query that failed, and log the error.

    Raises ``error`` if it is the encoder's and the encoder fails on a plain paper too.
    """
    if isinstance(error, InputError | DeadlineError):
        return error
    if isinstance(error, EncoderError):
        expect_working(engine.annotator, "float32", error)
        _log.warning("encoder_failed_on_query", job=chunk.job_id, query=number, error=str(error))
        return EncoderError(str(error))
    if isinstance(error, EncoderMismatchError):  # such as a pasted paper, after AKIN_ENCODER was changed
        _log.warning("encoder_mismatch", job=chunk.job_id, query=number, error=str(error))
        return error
    _log.error(
        "unexpected_error",
        job=chunk.job_id,
        query=number,
        error=type(error).__name__,
        exception=tracebacks_of(error),
    )
    return InternalError("Something went wrong on our side. The log has the details under the batch's id.")
