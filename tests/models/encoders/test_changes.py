"""Low-rank changes: added when a checkpoint is loaded, part of its fingerprint, refused if unfit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from models.checkpoints.checkpoints import WEIGHTS, LocalCheckpoint, locate_checkpoint
from models.encoder import Encoder, load_encoder
from models.encoders.changes import changes_content
from models.encoders.contextual import ContextualEncoder
from models.errors import WeightsError
from models.text.sentences import sentences_from_list
from models.types import Paper
from tests.support.examples.models.tiny_bert import write_tiny_bert

WEIGHT = "encoder.layer.1.output.dense.weight"


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalCheckpoint:
    """Return a tiny random BERT."""
    write_tiny_bert(tmp_path / "base")
    return locate_checkpoint(str(tmp_path / "base"))


def vectors(checkpoint: LocalCheckpoint) -> np.ndarray:
    """Return the vectors of two sentences."""
    abstract, sentences = sentences_from_list(["we show a method.", "a graph of protein."])
    paper = Paper(id="p", title="transport of a cell", abstract=abstract, sentences=sentences)
    (encoded,) = ContextualEncoder(checkpoint, device="cpu").encode([paper])
    return encoded.sentences


def change(checkpoint: LocalCheckpoint, *, rank: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random change of WEIGHT with numbers that float16 holds exactly."""
    n_out, n_in = load_file(checkpoint.folder / WEIGHTS)[WEIGHT].shape
    generator = torch.Generator().manual_seed(5)
    up, down = (
        torch.randint(-8, 9, size, generator=generator) / 16 for size in ((n_out, rank), (rank, n_in))
    )
    return up, down


def test_changed_weights_are_those_that_a_merged_checkpoint_holds(
    checkpoint: LocalCheckpoint, tmp_path: Path
) -> None:
    """Loading with changes gives the vectors of a checkpoint with the changes merged beforehand."""
    up, down = change(checkpoint)
    file = tmp_path / "changes.safetensors"
    file.write_bytes(changes_content({WEIGHT: (up, down)}, share=0.5, metadata={}))
    changed = replace(checkpoint, changes=file)
    write_tiny_bert(tmp_path / "merged")
    tensors = load_file(checkpoint.folder / WEIGHTS)
    tensors[WEIGHT] = tensors[WEIGHT] + 0.5 * up @ down
    save_file(tensors, tmp_path / "merged" / WEIGHTS)
    merged = locate_checkpoint(str(tmp_path / "merged"))
    np.testing.assert_allclose(vectors(changed), vectors(merged), atol=1e-6)
    assert np.abs(vectors(changed) - vectors(checkpoint)).max() > 1e-3


def test_changes_are_part_of_the_fingerprint(checkpoint: LocalCheckpoint, tmp_path: Path) -> None:
    """Other changes give another fingerprint."""
    prints = {ContextualEncoder(checkpoint, device="cpu").spec.fingerprint}
    for share in (0.5, 1.0):
        file = tmp_path / f"{share}.safetensors"
        file.write_bytes(changes_content({WEIGHT: change(checkpoint)}, share=share, metadata={}))
        prints.add(ContextualEncoder(replace(checkpoint, changes=file), device="cpu").spec.fingerprint)
    assert len(prints) == 3


def test_changes_that_do_not_fit_are_refused(checkpoint: LocalCheckpoint, tmp_path: Path) -> None:
    """A missing weight, a wrong shape, half a change and a file without changes are refused."""
    up, down = change(checkpoint)
    file = tmp_path / "changes.safetensors"
    changed = replace(checkpoint, changes=file)
    for content, said in (
        (changes_content({"absent.weight": (up, down)}, share=1, metadata={}), "absent.weight"),
        (changes_content({WEIGHT: (up[:-1], down)}, share=1, metadata={}), "does not fit"),
        (changes_content({WEIGHT: (up, down[:1])}, share=1, metadata={}), "does not fit"),
        (b"no tensors", "cannot be read"),
    ):
        file.write_bytes(content)
        with pytest.raises(WeightsError, match=said):
            ContextualEncoder(changed, device="cpu")
    save_file({f"{WEIGHT}:up": up}, file)
    with pytest.raises(WeightsError, match="that no weight"):
        ContextualEncoder(changed, device="cpu")
    file.unlink()
    with pytest.raises(WeightsError, match="cannot be read"):
        ContextualEncoder(changed, device="cpu")


def test_akin_minilm_is_minilm_changed_a_little(minilm: Encoder) -> None:
    """The shipped changes weigh under 8 MB and turn sentence vectors of unit norm only a little."""
    trained = load_encoder("akin-minilm", device="cpu")
    changes = locate_checkpoint("akin-minilm").changes
    assert changes is not None
    assert changes.stat().st_size < 8_000_000
    assert (trained.spec.name, trained.spec.dim, trained.spec.normalised) == ("akin-minilm", 384, True)
    assert trained.spec.fingerprint != minilm.spec.fingerprint
    given = ["We align the sentences of two abstracts.", "Transport tells how much each counts."]
    abstract, sentences = sentences_from_list(given)
    paper = Paper(id="p", title="Papers akin to yours", abstract=abstract, sentences=sentences)
    (before,), (after,) = minilm.encode([paper]), trained.encode([paper])
    cosines = (before.sentences * after.sentences).sum(axis=1)
    assert (cosines > 0.5).all()
    assert (cosines < 0.999).all()
