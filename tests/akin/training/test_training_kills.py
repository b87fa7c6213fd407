"""Tests of training runs stopped between two writes and restarted: no file is lost or outdated."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from akin.cli.training import run
from akin.cli.training.config import read_config
from akin.cli.training.run import BEST, CHANGES, ENCODER, FIGURES, LAST, Run
from models.checkpoints.checkpoints import WEIGHTS
from models.errors import StorageError
from models.training.trainable import Trainable
from models.types import ignore_progress
from tests.support.examples.models.training_sets import LOW_RANK, write_run

# Two checkpoints, both the best until then: best, figures, curve and last. Then the encoder and its changes.
N_WRITES = 10


def finished(config: Path, out: Path) -> None:
    """Train, and write the encoder."""
    running = Run(read_config(config), out, device="cpu")
    running.train(on_progress=ignore_progress)
    running.finish()


def content(path: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the metadata and tensors of a file, whatever their order in it."""
    with safe_open(path, framework="np") as file:
        return file.metadata(), {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118 - not a mapping


def moved(model: Trainable) -> float:
    """Return the size of the low-rank changes, by their second factors, which begin at 0."""
    return sum(own.abs().sum().item() for name, own in model.parameters().items() if ".lora_B." in name)


def ending(monkeypatch: pytest.MonkeyPatch, *, before: int) -> list[str]:
    """Make the run end before write number ``before``, from 1, and return the list of written files."""
    written: list[str] = []

    def counted(write: Callable[..., None]) -> Callable[..., None]:
        def write_if_alive(path: Path, *args: object) -> None:
            if len(written) + 1 == before:
                raise KeyboardInterrupt
            write(path, *args)
            written.append(path.name)

        return write_if_alive

    for name in ("replace_file", "write_encoder"):
        monkeypatch.setattr(run, name, counted(getattr(run, name)))
    return written


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run of two checkpoints, in which weights measure better the further they moved."""
    monkeypatch.setattr(run, "measure_held_out", lambda model, *_, **__: {"single": moved(model)})
    path = write_run(tmp_path, extra=LOW_RANK)
    path.write_text(path.read_text().replace("checkpoint_every = 2", "checkpoint_every = 4"))
    return path


@pytest.mark.parametrize("before", range(1, N_WRITES + 2))
def test_a_run_that_ends_between_two_writes_loses_none(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """A run stopped before any of its writes ends, once restarted, with the same files bit by bit."""
    whole, ended = tmp_path / "whole", tmp_path / "ended"
    finished(config, whole)
    with monkeypatch.context() as patched:
        written = ending(patched, before=before)
        with contextlib.nullcontext() if before > N_WRITES else pytest.raises(KeyboardInterrupt):
            finished(config, ended)
    assert len(written) == before - 1
    finished(config, ended)
    figures = [json.loads((folder / FIGURES).read_text()) for folder in (whole, ended)]
    assert 1 == len({json.dumps({**own, "cost": None}) for own in figures})
    for name in (LAST, BEST, f"{ENCODER}-{CHANGES}", f"{ENCODER}/{WEIGHTS}"):
        assert content(whole / name) == content(ended / name), name


def test_an_encoder_in_the_way_keeps_its_changes(tmp_path: Path, config: Path) -> None:
    """If the encoder's folder is not empty, the export is refused and the stored changes are kept."""
    running = Run(read_config(config), tmp_path / "out", device="cpu")
    running.train(on_progress=ignore_progress)
    running.finish()
    beside = tmp_path / "out" / f"{ENCODER}-{CHANGES}"
    before = beside.read_bytes()
    with pytest.raises(StorageError, match="not empty"):
        running.write(tmp_path / "out" / ENCODER, share=0.5)
    assert before == beside.read_bytes()
