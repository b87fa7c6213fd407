"""Calls to the processes that hold shards: waiting, cancelling, and the meaning of their errors."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from indexer.cluster import start_failure
from models.errors import AkinError, InternalError, ShardAwayError, SnapshotMissingError
from service.cluster.replicas import Replica
from service.cluster.shard import Generation
from service.context import check_deadline

# Between two checks of the deadline of a request, and of whether the called processes are still there.
SLICE_S: Final = 0.1

log = structlog.get_logger(__name__)


def result_of(ray: Any, ref: Any, *, timeout_s: float = 0.0) -> Any:
    """Return the result of a call; raises what the method raises, or InternalError for unexpected errors.

    Raises ShardAwayError if the process does not answer in ``timeout_s``, or does not have the generation.
    """
    errors = ray.exceptions
    try:
        return ray.get(ref, timeout=timeout_s)
    except errors.RayTaskError as error:
        if isinstance(error.cause, SnapshotMissingError):
            raise ShardAwayError(f"A shard fails: {error.cause}") from error
        if isinstance(error.cause, AkinError):
            raise error.cause from error
        raise _internal_error(error) from error
    except (errors.RayError, OSError) as error:  # GetTimeoutError is one
        if reason := start_failure(ray, error):
            raise ShardAwayError(f"A shard cannot start on a machine of the cluster: {reason}") from error
        raise ShardAwayError(f"A shard does not answer: {type(error).__name__}") from error


def _internal_error(error: Any) -> InternalError:
    """Return the error that a request gets for an unexpected error, and log where that was raised."""
    # Without the message of the error, which may hold what a reader sent.
    lines = [line for line in str(error).splitlines() if line.startswith("  ")]
    log.error("shard_failed", error=type(error.cause).__name__, exception="\n".join(lines))
    return InternalError("Something went wrong on our side, in a shard. The log has the details.")


def first_done(ray: Any, refs: Sequence[Any], *, n: int, timeout_s: float) -> tuple[list[Any], list[Any]]:
    """Return the calls of ``refs`` that end before ``n`` have, or before the time is up, and the others.

    Raises ShardAwayError if this machine has left the cluster.
    """
    try:
        done, left = ray.wait(list(refs), num_returns=n, timeout=timeout_s)
    except OSError as error:  # this machine is no longer a node of the cluster
        raise ShardAwayError("The cluster is gone.") from error
    return done, left


def ended(ray: Any, begun: Mapping[Any, Replica], generation: Generation) -> list[Any]:
    """Return the calls that end before the called process goes away.

    Raises DeadlineError; ShardAwayError if this machine has left the cluster.
    """
    done: list[Any] = []
    left = list(begun)
    while left:
        check_deadline()
        more, left = first_done(ray, left, n=len(left), timeout_s=SLICE_S)
        done += more
        left = [ref for ref in left if generation in begun[ref].opened]
    check_deadline()  # first, as a shard's own error only names the time that was left
    return done


def cancel(ray: Any, refs: Iterable[Any]) -> None:
    """Cancel calls that nobody waits for any more; those that have not begun never will."""
    for ref in refs:
        with suppress(ray.exceptions.RayError, OSError):
            ray.cancel(ref)
