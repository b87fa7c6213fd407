"""Encoding on several devices of this machine: each takes the next part as soon as it is free."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Final

from indexer.encoding.arguments import BuildArguments, load_models
from indexer.encoding.parts import Encode, EncodeHere, Part, encode_part
from indexer.snapshot.manifest import Manifest
from models.annotator import Annotator
from models.errors import DeadlineError
from models.types import Paper

# Parts that wait for a device beside the one that it encodes.
_WAITING: Final = 1


class EncodeOnDevices:
    """Encodes parts by several ``annotators``, alike but for their devices, in a thread for each."""

    def __init__(self, annotators: Sequence[Annotator]) -> None:
        self.at_once = (1 + _WAITING) * len(annotators)
        self._free: SimpleQueue[Annotator] = SimpleQueue()
        for annotator in annotators:
            self._free.put(annotator)
        self._threads = ThreadPoolExecutor(len(annotators), thread_name_prefix="encoding")
        self._ended = Event()

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Begin with a part; waiting for it raises EncoderError, StorageError."""
        future = self._threads.submit(copy_context().run, self._encoded, into, papers, like)

        def part() -> Part:
            made = future.result()
            on_progress(len(papers))  # by the thread that waits: whoever shows it need not be safe to share
            return made

        return part

    def end(self) -> None:
        """Begin nothing more, and give up what is under way after its next few papers."""
        self._ended.set()
        self._threads.shutdown(cancel_futures=True)

    def _encoded(self, into: Path, papers: Sequence[Paper], like: Manifest) -> Part:
        annotator = self._free.get()
        try:
            return encode_part(into, papers, annotator, like=like, on_progress=self._expect_wanted)
        finally:
            self._free.put(annotator)

    def _expect_wanted(self, _n_papers: int) -> None:
        if self._ended.is_set():
            raise DeadlineError("The command ends.")


@contextmanager
def encoding(annotator: Annotator, arguments: BuildArguments) -> Iterator[Encode]:
    """What encodes on every device that ``arguments`` name: by ``annotator``, loaded with them, on the first.

    Raises EncoderError, WeightsError where the models cannot be loaded on the others.
    """
    from models.encoders.devices import encoding_devices  # noqa: PLC0415 - loads torch

    others = encoding_devices(arguments.device)[1:]
    if not others:
        yield EncodeHere(annotator)
        return
    encode = EncodeOnDevices([annotator, *(load_models(arguments, device=name) for name in others)])
    try:
        yield encode
    finally:
        encode.end()
