"""The stages of a request: ``with stage("rerank"):`` times one for the metrics, the log and the trace."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Literal

# A closed list: each is a label of the metrics.
Stage = Literal["body", "queue", "encode", "candidates", "rerank", "explain"]


class Stages:
    """What one request has spent its time on: ``seconds`` of wall time by stage, repeated ones added up.

    ``on_end`` is told of each stage that ends; ``span`` is open as long as the stage is.
    """

    def __init__(
        self,
        on_end: Callable[[str, float], None],
        span: Callable[[str], AbstractContextManager[object]],
    ) -> None:
        self._on_end = on_end
        self._span = span
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: Stage) -> Iterator[None]:
        """Times what happens until the context ends, however it does."""
        started = time.perf_counter()
        with self._span(name):
            try:
                yield
            finally:
                took_s = time.perf_counter() - started
                self.seconds[name] = self.seconds.get(name, 0.0) + took_s
                self._on_end(name, took_s)


# Not a parameter, as the deadline is none: it would run through every function there is.
_current: ContextVar[Stages | None] = ContextVar("stages", default=None)


def set_stages(stages: Stages) -> None:
    """Makes it the one that ``stage`` tells, here and in the threads started from here."""
    _current.set(stages)


@contextmanager
def stage(name: Stage) -> Iterator[None]:
    """Times a stage of the request under way, also as a decorator; outside of a request it does nothing."""
    stages = _current.get()
    with nullcontext() if stages is None else stages.timed(name):
        yield
