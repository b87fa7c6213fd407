"""Long answers: each part of them is computed in its turn, like any other request."""

from collections.abc import AsyncIterator, Iterator
from typing import Final

from anyio import to_thread

from service.access.queue import Admission
from service.context import Deadline

TURN_S: Final = 30.0


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
