"""Answers of several parts, each of which is made in its turn, like that of any other request."""

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
class Turn:
    """A request at work at a place of its queue: until when it may be, and how it leaves the place."""

    deadline: Deadline
    leave: Callable[[], None]


async def read_then_compute(
    turn: Turn, read: Callable[[], _Read], computing: Admission, compute: Callable[[_Read], _Made]
) -> _Made:
    """What ``compute`` makes of what ``read`` gets from the database, where the request is at work.

    Its place there is free once that is read, so that a busy processor holds up no writes; a database that
    does not answer holds up nobody at a place of ``computing``. Raises OverloadedError, and what both raise.
    """
    found = await to_thread.run_sync(read)
    turn.leave()
    async with computing.place(turn.deadline):
        return await to_thread.run_sync(compute, found)


async def in_turn(
    queue: Admission, parts: Iterator[bytes], *, turn_s: float = TURN_S
) -> AsyncIterator[bytes]:
    """The parts, each computed at a place of ``queue``; while the client reads one, the place is free.

    Raises OverloadedError where a part waits more than ``turn_s`` seconds for its turn.
    """
    part: bytes | None = b""
    while part is not None:
        if part:
            yield part
        async with queue.turn(Deadline(turn_s)):
            part = await to_thread.run_sync(next, parts, None)
