"""Answers what a chunk of a batch asks for, one query after another."""

from collections.abc import Iterator
from dataclasses import replace

from models.errors import DeadlineError, InputError
from service.batches.content import BatchResult, match_of, queries_of, submissions_of
from service.batches.job import LeasedChunk
from service.collection.cursors import Cursors
from service.match.answer import Matcher, MatchQuery
from service.search.engine import SearchEngine


def results_of(chunk: LeasedChunk, engine: SearchEngine, cursors: Cursors) -> Iterator[BatchResult]:
    """The outcome of each query, in order, found when it is asked for, within the deadline of that time."""
    common = match_of(chunk)
    return _ranked(chunk, engine, cursors) if common is None else _matched(chunk, engine, common)


def _ranked(chunk: LeasedChunk, engine: SearchEngine, cursors: Cursors) -> Iterator[BatchResult]:
    for seed, asked in enumerate(queries_of(chunk), start=chunk.first):
        result = BatchResult(seed, asked.paper_id, name=asked.name)
        try:
            answer = engine.search(asked.query)
        except (InputError, DeadlineError) as error:
            yield result.with_error(error)
        else:
            following = cursors.following(answer.next_page, asked.query, engine)
            yield replace(result, answer=answer, next_cursor=following)


def _matched(chunk: LeasedChunk, engine: SearchEngine, common: MatchQuery) -> Iterator[BatchResult]:
    matcher: Matcher | None = None
    for seed, submission in enumerate(submissions_of(chunk), start=chunk.first):
        result = BatchResult(seed, submission.seed.paper_id, of_match=True)
        try:
            # Looked up once for all of them, within the deadline of the first.
            matcher = matcher or Matcher(engine, common.profiles, common.told)
            matched = matcher.match_one(submission.seed, submission.conflicts)
        except (InputError, DeadlineError) as error:
            yield result.with_error(error)
        else:
            yield replace(result, matched=matched)
