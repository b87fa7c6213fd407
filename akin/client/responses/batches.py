"""Batches and their results."""

from dataclasses import dataclass
from datetime import datetime

from akin.client.responses.matches import MatchedSubmission
from akin.client.responses.papers import AnswerWarning
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer


@dataclass(frozen=True, slots=True)
class Batch:
    """The state of a batch: how many of its ``queries`` are ``done``, and ``problems`` of these failed.

    The first ``ready`` results can be read, at the path ``results``. ``state`` is queued, running, done
    or failed (``error`` says why); times are in UTC. ``owner`` is the id of the key that started it, empty
    without keys.
    """

    id: str
    state: str
    generation: str
    queries: int
    done: int
    problems: int
    ready: int
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    results: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class BatchList:
    """A page of batches; ``next_after`` leads to the next one, ``None`` at the end."""

    batches: tuple[Batch, ...]
    next_after: str | None

    def __len__(self) -> int:
        """Return the number of batches on this page."""
        return len(self.batches)


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why one query of a batch has no answer."""

    type: str
    title: str
    status: int
    detail: str


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of query number ``seed`` of a batch: an ``answer``, or a ``problem``.

    Recommendations have a ``name``, searches from a paper of the collection its ``paper_id``. The answer of
    a match is a submission with its profiles, and ``warnings`` are about its text; other answers have their
    own.
    """

    seed: int
    paper_id: str | None
    answer: SearchAnswer | RecommendationsAnswer | MatchedSubmission | None
    problem: Problem | None
    name: str | None = None
    warnings: tuple[AnswerWarning, ...] = ()
