"""Encoding on several devices at once: the same collection as on one, and one failure ends all."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from structlog.testing import capture_logs

import akin
from indexer.collection.build import build
from indexer.collection.growth import Bounds
from indexer.encoding.arguments import BuildArguments
from indexer.encoding.on_devices import EncodeOnDevices, encoding
from indexer.encoding.parts import EncodeHere, Part
from indexer.files.data_folder import DataFolder, Work
from indexer.files.finished_folders import NOTE
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator
from models.encoder import PAPERS_PER_CALL, Encoder
from models.errors import DeadlineError, StorageError
from models.types import EncodedPaper, EncoderSpec, Paper
from tests.support.annotators import annotated
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.commands import run
from tests.support.examples.models.tiny_bert import paper
from tests.support.servers.patience import soon

TENS = Bounds(part=10)


class Device:
    """A device with an encoder that first calls ``wait``."""

    def __init__(self, encoder: Encoder, wait: Callable[[], object] = lambda: None) -> None:
        self._encoder, self._wait = encoder, wait
        self.n_encoded = 0

    @property
    def spec(self) -> EncoderSpec:
        """The spec of the encoder."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """Call ``wait``, then encode."""
        self._wait()
        self.n_encoded += len(papers)
        return self._encoder.encode(papers, layers=layers)


def on(first: Device, *others: Device) -> EncodeOnDevices:
    """Return an ``EncodeOnDevices`` for these devices."""
    return EncodeOnDevices(annotated(first), [lambda own=each: annotated(own) for each in others])


def built(corpus: Path, data: Path, device: Device, encode: EncodeOnDevices) -> list[int]:
    """Build a collection, and return the numbers of encoded papers that were reported."""
    progress: list[int] = []

    def on_progress(stage: str, done: int, _total: int | None) -> None:
        if stage == "Encoding":
            progress.append(done)

    arguments = BuildArguments("hashing", device="cpu")
    annotator = annotated(device)
    build([corpus], data, annotator, arguments=arguments, on_progress=on_progress, bounds=TENS, encode=encode)
    return progress


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a corpus of 40 papers, four parts of ten."""
    return write_corpus(tmp_path / "c.jsonl", many_papers(40))


def threads() -> list[str]:
    """Return the names of the threads that encode."""
    return [each.name for each in threading.enumerate() if each.name.startswith("encoding")]


def test_devices_encode_at_once_what_one_would(tmp_path: Path, hashing: Encoder, corpus: Path) -> None:
    """Two devices encode at the same time, and the files are equal to the byte to those of one."""
    together = threading.Barrier(2)
    devices = [Device(hashing, lambda: together.wait(60)) for _ in range(2)]
    progress = built(corpus, tmp_path / "two", devices[0], on(*devices))
    build_quietly(corpus, tmp_path / "one", hashing, bounds=TENS)
    assert [20, 20] == [device.n_encoded for device in devices]
    assert ([10, 20, 30, 40], []) == (sorted({*progress} - {0}), threads())
    two, one = (open_snapshot(tmp_path / name) for name in ("two", "one"))
    assert [each.entry.files for each in one.segments] == [each.entry.files for each in two.segments]


def test_a_device_that_breaks_ends_the_build_and_nothing_is_lost(
    tmp_path: Path, hashing: Encoder, corpus: Path
) -> None:
    """A failing device ends the build and its threads, and the next build reuses the finished parts."""
    data, broken_off = tmp_path / "data", []

    def break_off() -> None:
        soon(lambda: any(data.glob(f"building/*/part-*/{NOTE}")))
        broken_off.append(threads())
        raise StorageError("the device is gone")

    broken, well = Device(hashing, break_off), Device(hashing)
    with pytest.raises(StorageError, match="the device is gone"):
        built(corpus, data, well, on(broken, well))
    with DataFolder(data).working(Work.CORPUS):
        assert [] == threads()
    assert 1 == len(broken_off)
    report = build_quietly(corpus, data, hashing, bounds=TENS)
    assert 40 == report.manifest.n_papers
    assert 10 <= report.reused_papers <= well.n_encoded


def test_what_is_under_way_at_the_end_is_given_up(tmp_path: Path, hashing: Encoder) -> None:
    """At the end, a part stops after the encoder's current call, and waiting parts are cancelled."""
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        assert go_on.wait(60)

    def go_on_once_cancelled(waiting: Callable[[], Part]) -> None:
        with suppress(CancelledError):
            waiting()
        go_on.set()

    held, progress = Device(hashing, hold), []  # type: ignore[var-annotated]  # of numbers
    corpus = write_corpus(tmp_path / "c.jsonl", many_papers(2))
    like = build_quietly(corpus, tmp_path / "data", hashing).manifest
    papers = [paper(f"Paper {number}", "We count whales.") for number in range(2 * PAPERS_PER_CALL)]
    with on(held) as encode:
        begun, waiting = (
            encode(tmp_path / "work", some, like=like, on_progress=progress.append)
            for some in (papers, papers[1:])
        )
        assert reached.wait(60)
        threading.Thread(target=go_on_once_cancelled, args=(waiting,)).start()
    assert ([], PAPERS_PER_CALL, []) == (threads(), held.n_encoded, progress)
    with pytest.raises(DeadlineError):
        begun()
    with pytest.raises(CancelledError):
        waiting()


def test_a_device_whose_models_cannot_be_loaded_is_left_out(
    tmp_path: Path, hashing: Encoder, corpus: Path
) -> None:
    """A device without memory for the models is left out, and the log says so."""

    def full() -> Annotator:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with capture_logs() as logged:
        first = Device(hashing)
        built(corpus, tmp_path / "data", first, EncodeOnDevices(annotated(first), [full]))
    assert 40 == first.n_encoded == len(open_snapshot(tmp_path / "data"))
    assert [("device_left_out", "CUDA out of memory")] == [
        (each["event"], each["error"]) for each in logged if each["event"] == "device_left_out"
    ]


GPUS = [
    ("auto", 3, ["cuda:1", "cuda:2"]),
    ("auto", 1, []),
    ("auto", 0, []),
    ("cuda", 3, []),
    ("cuda:1", 3, []),
    ("cpu", 3, []),
]


@pytest.mark.parametrize(("device", "n_gpus", "others"), GPUS)
def test_auto_is_every_gpu_and_a_name_is_one(
    device: str, n_gpus: int, others: list[str], hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``auto`` encodes on every GPU, and a named device encodes alone."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    with encoding(annotated(hashing), BuildArguments("hashing", device=device)) as encode:
        assert isinstance(encode, EncodeOnDevices if others else EncodeHere)
        assert encode.at_once == (2 * (1 + len(others)) if others else 1)


@pytest.mark.parametrize("command", ["index", "reindex", "library"])
def test_whoever_indexes_uses_all_devices(
    command: str, tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`akin index`, `akin reindex` and the library encode on all devices."""
    data, begun = tmp_path / "data", []

    class Watched(EncodeOnDevices):
        def __call__(self, into: Path, papers: Sequence[Paper], **rest: Any) -> Callable[[], Part]:
            begun.append((self.at_once, len(papers)))
            return super().__call__(into, papers, **rest)

    if command == "reindex":
        run("index", corpus, "--data", data, "--encoder", "hashing", "--device", "cpu")
    monkeypatch.setattr("models.encoders.devices.encoding_devices", lambda _: ["cpu", "cuda:1"])
    monkeypatch.setattr("indexer.encoding.on_devices.EncodeOnDevices", Watched)
    if command == "index":
        run("index", corpus, "--data", data, "--encoder", "hashing")
    elif command == "reindex":
        run("reindex", "--data", data, "--dtype", "float32", "--encoder", "hashing")
    else:
        akin.index(corpus, data, encoder="hashing")
    assert [(4, 40)] == begun
    assert 40 == len(open_snapshot(data))
