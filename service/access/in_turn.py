"""Answers in several parts, each computed at a place in a queue like any other request."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from anyio import to_thread

from service.access.queue import Admission
from service.context import Deadline

TURN_S: Final = 30.0
_Read = TypeVar("_Read")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a running request in its queue: the deadline, and a function that frees the place."""

    deadline: Deadline
    leave: Callable[..., None]


async def read_then_compute(
    turn: QueuePlace, read: Callable[[], _Read], computing: Admission, compute: Callable[[_Read], _Made]
) -> _Made:
    """Return ``compute`` of what ``read`` gets from the database, each at a place of its own queue.

    The place of ``turn`` is freed after the read, so that a busy processor holds up no writes; a database
    that does not answer takes no place of ``computing``. Raises OverloadedError, and what both raise.
    """
    found = await to_thread.run_sync(read)
    turn.leave()
    async with computing.place(turn.deadline):
        return await to_thread.run_sync(compute, found)


async def in_turn(
    queue: Admission, parts: Iterator[bytes], *, turn_s: float = TURN_S
) -> AsyncIterator[bytes]:
    """Yield the parts, each computed at a place of ``queue``; while the client reads one, the place is free.

    Raises OverloadedError if a part waits more than ``turn_s`` seconds for its turn.
    """
    part: bytes | None = b""
    while part is not None:
        if part:
            yield part
        async with queue.turn(Deadline(turn_s)):
            part = await to_thread.run_sync(next, parts, None)
