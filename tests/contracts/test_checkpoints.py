"""Tests of the entries of CHECKPOINTS and of the encoders that their conventions give."""

import re
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants

from models.checkpoints.checkpoints import (
    CHECKPOINTS,
    SHIPPED_WEIGHTS,
    locate_checkpoint,
    read_pooling,
    verify_weights,
    write_pooling,
)
from models.encoder import WEIGHTLESS, load_encoder
from models.errors import WeightsError
from models.types import Unit
from tests.support.builds import ROOT
from tests.support.examples.models.tiny_bert import PAPERS, write_tiny_bert


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_checkpoint_says_where_its_weights_are(name: str) -> None:
    """Entries have a repository, full hashes, a hash for packaged weights, and shipped changes."""
    checkpoint = CHECKPOINTS[name]
    assert re.fullmatch(r"[\w-]+/[\w.-]+", checkpoint.repository)
    assert checkpoint.revision is None or re.fullmatch(r"[0-9a-f]{40}", checkpoint.revision)
    assert checkpoint.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", checkpoint.sha256)
    assert checkpoint.package is None or checkpoint.sha256 is not None
    assert checkpoint.changes is None or (SHIPPED_WEIGHTS / checkpoint.changes).is_file()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_checkpoint_is_here_whole_or_says_where_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packaged weights have the stated hash; for others, offline, the error names the repository."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    if CHECKPOINTS[name].package is None:
        with pytest.raises(WeightsError, match=re.escape(CHECKPOINTS[name].repository)):
            locate_checkpoint(name)
        return
    found = locate_checkpoint(name)
    assert (name, CHECKPOINTS[name].pooling) == (found.name, found.pooling)
    verify_weights(found)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_folder_with_a_checkpoints_conventions_encodes_as_it_does(name: str, tmp_path: Path) -> None:
    """``akin.json`` stores the pooling, and the loaded encoder has its unit, norm and temperature."""
    pooling = CHECKPOINTS[name].pooling
    folder = write_tiny_bert(tmp_path / "tiny")
    write_pooling(folder, pooling)
    assert pooling == read_pooling(folder)
    encoder = load_encoder(str(folder), device="cpu")
    assert (Unit.SENTENCE if pooling.kind == "contextual" else Unit.DOCUMENT) is encoder.spec.unit
    assert (pooling.normalise, pooling.tau) == (encoder.spec.normalised, encoder.spec.tau)
    for encoded in encoder.encode(list(PAPERS.values())):
        norms = np.linalg.norm(encoded.sentences, axis=1)
        assert pooling.normalise == bool(np.allclose(norms, 1, atol=1e-5))


def test_the_documents_list_them_all() -> None:
    """The page on encoders lists every name that can be given."""
    page = (ROOT / "docs" / "adding" / "encoder.md").read_text(encoding="utf-8")
    named = page.split("## Encoders with a name")[1].split("\n## ")[0]
    listed = re.findall(r"`([\w-]+)`", "".join(re.findall(r"^\| (`[^|]+)\|", named, re.MULTILINE)))
    assert {*CHECKPOINTS, *WEIGHTLESS} == set(listed)
