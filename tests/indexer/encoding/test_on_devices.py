"""Several devices encode at once: the collection is that of one, and an end is the end of all."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from indexer.collection.growth import Bounds
from indexer.encoding.arguments import BuildArguments
from indexer.encoding.on_devices import EncodeOnDevices, encoding
from indexer.encoding.parts import EncodeHere
from indexer.files.kept import NOTE
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator
from models.encoder import Encoder
from models.errors import StorageError
from models.types import EncodedPaper, EncoderSpec, Paper
from tests.support.annotators import annotated
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.servers.patience import soon

TENS = Bounds(part=10)


class Device:
    """A device: an encoder that first waits for what else is to happen."""

    def __init__(self, encoder: Encoder, wait: Callable[[], object]) -> None:
        self._encoder, self._wait = encoder, wait
        self.n_encoded = 0

    @property
    def spec(self) -> EncoderSpec:
        """The encoder's."""
        return self._encoder.spec

    def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> list[EncodedPaper]:
        """As the encoder."""
        self._wait()
        self.n_encoded += len(papers)
        return self._encoder.encode(papers, layers=layers)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Four parts of ten papers."""
    return write_corpus(tmp_path / "c.jsonl", many_papers(40))


def test_devices_encode_at_once_what_one_would(tmp_path: Path, hashing: Encoder, corpus: Path) -> None:
    """Each has a part at the same time as the other; files are equal to the byte, and every paper counts."""
    together = threading.Barrier(2)
    devices = [Device(hashing, lambda: together.wait(60)) for _ in range(2)]
    encode = EncodeOnDevices([annotated(device) for device in devices])
    build_quietly(corpus, tmp_path / "two", hashing, bounds=TENS, encode=encode)
    encode.end()
    build_quietly(corpus, tmp_path / "one", hashing, bounds=TENS)
    assert [20, 20] == [device.n_encoded for device in devices]
    two, one = (open_snapshot(tmp_path / name) for name in ("two", "one"))
    assert [each.entry.files for each in one.segments] == [each.entry.files for each in two.segments]


def test_a_device_that_breaks_ends_the_build_and_nothing_is_lost(
    tmp_path: Path, hashing: Encoder, corpus: Path
) -> None:
    """The error is raised, no thread goes on, and the next run takes over what the other device did."""
    data = tmp_path / "data"

    def break_off() -> None:
        soon(lambda: any(data.glob(f"building/*/part-*/{NOTE}")))
        raise StorageError("the device is gone")

    broken, well = Device(hashing, break_off), Device(hashing, lambda: None)
    encode = EncodeOnDevices([annotated(broken), annotated(well)])
    with pytest.raises(StorageError, match="the device is gone"):
        build_quietly(corpus, data, hashing, bounds=TENS, encode=encode)
    encode.end()
    assert not [each for each in threading.enumerate() if each.name.startswith("encoding")]
    report = build_quietly(corpus, data, hashing, bounds=TENS)
    assert 40 == report.manifest.n_papers
    assert 10 <= report.reused_papers <= well.n_encoded


@pytest.mark.parametrize(
    ("device", "n_gpus", "loaded"),
    [
        ("auto", 3, ["cuda:1", "cuda:2"]),
        ("auto", 1, []),
        ("auto", 0, []),
        ("cuda", 3, []),
        ("cuda:1", 3, []),
        ("cpu", 3, []),
    ],
)
def test_auto_is_every_gpu_and_a_name_is_one(
    device: str, n_gpus: int, loaded: list[str], hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models are loaded once more for each further device, and for none where one is named."""
    asked: list[str] = []

    def load(name: str, *, device: str, **_: object) -> Annotator:
        asked.append(device)
        return annotated(hashing)

    monkeypatch.setattr("indexer.encoding.arguments.load_annotator", load)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    with encoding(annotated(hashing), BuildArguments("hashing", device=device)) as encode:
        assert isinstance(encode, EncodeOnDevices if loaded else EncodeHere)
    assert loaded == asked
