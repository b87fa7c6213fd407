"""Calls of the processes that hold shards: begun, waited for, cancelled; and what their errors mean."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog

from models.errors import AkinError, InternalError, ShardAwayError, SnapshotMissingError
from service.cluster.replicas import Replica
from service.cluster.shard import Generation
from service.context import check_deadline

# Between two looks at the deadline of a request, and whether those who are asked are still there.
_SLICE_S: Final = 0.1

log = structlog.get_logger(__name__)


def result_of(ray: Any, ref: Any, *, timeout_s: float = 0.0) -> Any:
    """What a call gives; raises what the method raises, InternalError where nobody foresaw that.

    ShardAwayError where the process does not answer, or has not the generation.
    """
    errors = ray.exceptions
    try:
        return ray.get(ref, timeout=timeout_s)
    except errors.RayTaskError as error:
        if isinstance(error.cause, SnapshotMissingError):
            raise ShardAwayError(f"A shard fails: {error.cause}") from error
        if isinstance(error.cause, AkinError):
            raise error.cause from error
        raise _unforeseen(error) from error
    except (errors.RayError, OSError) as error:  # GetTimeoutError is one
        raise ShardAwayError(f"A shard does not answer: {type(error).__name__}") from error


def _unforeseen(error: Any) -> InternalError:
    """What a request is told of an error that nobody foresaw; where it was raised is logged."""
    # Without its message, which may hold what a reader sent.
    lines = [line for line in str(error).splitlines() if line.startswith("  ")]
    log.error("shard_failed", error=type(error.cause).__name__, exception="\n".join(lines))
    return InternalError("Something went wrong on our side, in a shard. The log has the details.")


def ended(ray: Any, begun: Mapping[Any, Replica], generation: Generation) -> list[Any]:
    """Those of the calls that end before whoever is asked goes away.

    Raises DeadlineError; ShardAwayError where none can be asked any more.
    """
    done: list[Any] = []
    left = list(begun)
    while left:
        check_deadline()
        try:
            more, left = ray.wait(left, num_returns=len(left), timeout=_SLICE_S)
        except OSError as error:  # this machine is a node of the cluster no longer
            raise ShardAwayError("The cluster is gone.") from error
        done += more
        left = [ref for ref in left if generation in begun[ref].opened]
    check_deadline()  # before a shard's own error, which knows only what was left of the time
    return done


def cancel(ray: Any, refs: Iterable[Any]) -> None:
    """Nobody waits for these calls any more: those that have not begun never will."""
    for ref in refs:
        with suppress(ray.exceptions.RayError, OSError):
            ray.cancel(ref)
