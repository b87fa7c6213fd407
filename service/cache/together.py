"""Encodes what several threads request at the same moment in one batch."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Condition
from typing import Final

from models.encoder import Encoder
from models.interruption import check_interruption, without_interruption
from models.types import EncodedPaper, EncoderSpec, Paper

# About one abstract. On a CPU, short texts in one batch take much less time, but an abstract fills a batch,
# and would only make others wait.
CPU_CHARS: Final = 2_000
_POLL_S: Final = 0.05  # how often a waiting thread checks for interruptions


@dataclass(eq=False, slots=True)
class _Request:
    """The papers of one call, and their vectors once they are encoded."""

    papers: Sequence[Paper]
    layers: tuple[int, ...]
    encoded: Future[list[EncodedPaper]] = field(default_factory=Future)
    alone: bool = False

    @property
    def n_chars(self) -> int:
        """The length of all texts."""
        return sum(
            len(paper.title) + sum(len(each.text) for each in paper.sentences) for paper in self.papers
        )


class EncoderTogether:
    """An encoder whose calls take turns; those that wait meanwhile are encoded in one batch.

    No call waits for others to arrive. A batch has at most ``most`` papers and ``most_chars`` characters, but
    at least one call. The last digits of a vector depend on its batch (within 1e-5 in float32), so equal
    calls need not give equal bits.
    """

    def __init__(self, encoder: Encoder, *, most: int, most_chars: int | None = None) -> None:
        self._encoder = encoder
        self._most, self._most_chars = most, most_chars
        self._waiting: deque[_Request] = deque()
        self._is_busy = False
        self._changed = Condition()

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the wrapped encoder."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Encode papers like the wrapped encoder; raises its errors, and those of an interruption."""
        own = _Request(papers, tuple(layers))
        with self._changed:
            self._waiting.append(own)
        try:
            while (batch := self._turn(own)) is not None:
                self._compute(batch, own)
        except BaseException:
            with self._changed:
                if own in self._waiting:
                    self._waiting.remove(own)
            raise
        return own.encoded.result()

    def _turn(self, own: _Request) -> list[_Request] | None:
        """Wait for a turn, and return the batch to compute; ``None`` once ``own`` is encoded."""
        with self._changed:
            while not own.encoded.done():
                if not self._is_busy:
                    self._is_busy = True
                    return self._next_batch()
                self._changed.wait(_POLL_S)
                check_interruption()
        return None

    def _next_batch(self) -> list[_Request]:
        """Take the oldest request, and those after it that fit into one batch with it."""
        batch = [self._waiting.popleft()]
        n_papers, n_chars = len(batch[0].papers), batch[0].n_chars
        while self._waiting and not batch[0].alone:
            following = self._waiting[0]
            n_papers, n_chars = n_papers + len(following.papers), n_chars + following.n_chars
            too_long = self._most_chars is not None and n_chars > self._most_chars
            if following.alone or following.layers != batch[0].layers or n_papers > self._most or too_long:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _compute(self, batch: Sequence[_Request], own: _Request) -> None:
        """Encode a batch for all who wait for it; what interrupts ``own`` does not interrupt the others."""
        try:
            with nullcontext() if [own] == batch else without_interruption():
                self._encode(batch)
        except BaseException as error:
            for request in batch:
                if not request.encoded.done():
                    request.encoded.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def _encode(self, batch: Sequence[_Request]) -> None:
        """Encode a batch; after an error each request waits again, to be encoded alone: one caused it."""
        papers = [paper for request in batch for paper in request.papers]
        try:
            encoded = iter(self._encoder.encode(papers, layers=batch[0].layers))
        except Exception:
            if len(batch) == 1:
                raise
            for request in batch:
                request.alone = True
            with self._changed:
                self._waiting.extendleft(reversed(batch))
            return
        for request in batch:
            request.encoded.set_result([next(encoded) for _ in request.papers])
