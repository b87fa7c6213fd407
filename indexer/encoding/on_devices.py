"""Encoding on several devices of this machine: each device takes the next part when it is free."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock
from typing import Final, Self

import structlog

from indexer.encoding.arguments import BuildArguments, load_models
from indexer.encoding.parts import PARTS_PER_DEVICE, Encode, EncodeHere, Part, encode_part
from indexer.snapshot.manifest import Manifest
from models.annotator import Annotator
from models.errors import AkinError, DeadlineError
from models.types import Paper

_POLL_S: Final = 0.1
_log = structlog.get_logger(__name__)


class _Device:
    """A device whose models are loaded when it gets its first part."""

    def __init__(self, load: Callable[[], Annotator]) -> None:
        self._load = load
        self._annotator: Annotator | None = None

    def annotator(self, loading: Lock) -> Annotator:
        """Return the models of the device; one device loads at a time, under the lock ``loading``."""
        with loading:
            self._annotator = self._annotator or self._load()
            return self._annotator


class EncodeOnDevices:
    """An encoder on several devices, with a thread for each, until its context ends.

    ``first`` holds the models on the first device; ``others`` load the same models on the other devices. If
    the models cannot be loaded on a device, it is left out, with a warning in the log.
    """

    def __init__(self, first: Annotator, others: Sequence[Callable[[], Annotator]]) -> None:
        devices = [_Device(lambda: first), *map(_Device, others)]
        self.at_once = PARTS_PER_DEVICE * len(devices)
        self._free: SimpleQueue[_Device] = SimpleQueue()
        for device in devices:
            self._free.put(device)
        self._threads = ThreadPoolExecutor(len(devices), thread_name_prefix="encoding")
        self._loading = Lock()
        self._failed, self._ended = Event(), Event()
        self._done: SimpleQueue[int] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Begin no more parts, stop unfinished parts after their next few papers, and wait for that."""
        self._ended.set()
        self._threads.shutdown(cancel_futures=True)

    def __call__(
        self, into: Path, papers: Sequence[Paper], *, like: Manifest, on_progress: Callable[[int], None]
    ) -> Callable[[], Part]:
        """Begin a part; waiting for it raises EncoderError, StorageError."""
        future = self._threads.submit(copy_context().run, self._encoded, into, papers, like)

        def part() -> Part:
            # Progress is reported by the waiting thread: ``on_progress`` need not be thread-safe.
            while not future.done():
                wait([future], timeout=_POLL_S)
                self._tell(on_progress)
            self._tell(on_progress)
            return future.result()

        return part

    def _encoded(self, into: Path, papers: Sequence[Paper], like: Manifest) -> Part:
        while True:
            if self._failed.is_set():
                raise DeadlineError("A part before this one could not be encoded.")
            device = self._free.get()
            try:
                annotator = device.annotator(self._loading)
            except (AkinError, RuntimeError, OSError) as error:
                _log.warning("device_left_out", error=str(error))
                continue
            try:
                made = encode_part(into, papers, annotator, like=like, on_progress=self._note)
            except BaseException:
                self._failed.set()
                raise
            finally:
                self._free.put(device)
            return made

    def _note(self, n_papers: int) -> None:
        if self._ended.is_set():
            raise DeadlineError("The command ends.")
        self._done.put(n_papers)

    def _tell(self, on_progress: Callable[[int], None]) -> None:
        while not self._done.empty():
            on_progress(self._done.get())


@contextmanager
def encoding(annotator: Annotator, arguments: BuildArguments) -> Iterator[Encode]:
    """Yield an encoder on every device that ``arguments`` name, with ``annotator`` on the first."""
    from models.encoders.devices import encoding_devices  # noqa: PLC0415 - loads torch

    others = encoding_devices(arguments.device)[1:]
    if not others:
        yield EncodeHere(annotator)
        return
    loads = [partial(load_models, arguments, device=name) for name in others]
    with EncodeOnDevices(annotator, loads) as encode:
        yield encode
