"""Tests of the learned mix of layers in training (SPECTER-CoCite, semantics 3.12)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from akin.cli.training.config import read_config
from akin.cli.training.run import CARD, CHANGES, LAST, Run
from models.checkpoints.checkpoints import LAYER_MIX, WEIGHTS
from models.encoder import load_encoder
from models.errors import InputError
from models.types import Unit, ignore_progress
from tests.support.examples.models.training_sets import LOW_RANK, write_run

OBJECTIVE = '{ name = "in-batch", distances = ["ot", "document"], temperature = 0.2 }'
BEGINS = "layer_mix = true\n"
LEARNT = torch.tensor([[0.3, -1.2, 0.9]])


def mixing(folder: Path, *, extra: str = "", steps: str = "", mix: torch.Tensor | None = None) -> Path:
    """Write a run of SPECTER's objective that begins a mix, or whose encoder of documents has ``mix``."""
    begins = BEGINS if mix is None else ""
    config = write_run(folder, extra=begins + extra, steps=steps)
    text = config.read_text().replace(OBJECTIVE, '{ name = "specter" }')
    config.write_text(text.replace('["single"]', '["document"]'))
    if mix is not None:
        weights = folder / "encoder" / WEIGHTS
        save_file({**load_file(weights), LAYER_MIX: mix}, weights, metadata={"format": "pt"})
        (folder / "encoder" / "akin.json").write_text('{"kind": "document"}')
    return config


def documents(running: Run, n_papers: int = 4) -> torch.Tensor:
    """Return the vectors of the first papers as training computes them, of shape (n_papers, dim)."""
    model, papers = running.model, list(running.sets[0].texts.values())[:n_papers]
    return model.encode(model.tokenise(papers), seed=None).documents


def served(folder: Path, running: Run) -> np.ndarray:
    """Return the vectors of the same papers by the encoder in ``folder``; it must be one of documents."""
    encoder = load_encoder(str(folder), device="cpu")
    assert encoder.spec.unit is Unit.DOCUMENT
    return np.stack([own.document for own in encoder.encode(list(running.sets[0].texts.values())[:4])])


def test_a_new_mix_begins_with_equal_shares_of_all_layers(tmp_path: Path) -> None:
    """Before training, a paper's vector is pooled from the plain mean of all hidden states."""
    running = Run(read_config(mixing(tmp_path)), tmp_path / "out", device="cpu")
    plain = AutoModel.from_pretrained(str(tmp_path / "encoder")).eval()
    paper = next(iter(running.sets[0].texts.values()))
    (tokens,) = running.model.tokenise([paper])
    with torch.no_grad():
        states = plain(input_ids=torch.tensor([tokens.ids]), output_hidden_states=True).hidden_states
        expected = torch.nn.functional.normalize(torch.stack(states).mean(dim=(0, 2)), dim=-1)
        torch.testing.assert_close(documents(running, 1), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("extra", ["", LOW_RANK])
def test_the_gradient_of_the_mix_is_the_slope_of_the_loss(tmp_path: Path, extra: str) -> None:
    """Each logit's gradient equals the change of a loss by a small change of this logit."""
    config = mixing(tmp_path, extra=extra, mix=LEARNT)
    running = Run(read_config(config), tmp_path / "out", device="cpu")
    logits = running.model.parameters()[LAYER_MIX]

    def loss() -> torch.Tensor:
        vectors = documents(running)
        return (vectors * torch.linspace(-1, 1, vectors.numel()).view_as(vectors)).sum()

    loss().backward()  # type: ignore[no-untyped-call] # torch is half typed
    slopes = []
    for number in range(len(logits)):
        ends = []
        for change in (0.02, -0.04, 0.02):
            with torch.no_grad():
                logits[number] += change
                ends.append(loss().item())
        slopes.append((ends[0] - ends[1]) / 0.04)
    assert logits.grad is not None
    assert np.abs(slopes).min() > 1e-3
    np.testing.assert_allclose(logits.grad.numpy(), slopes, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("mix", [None, LEARNT])
@pytest.mark.parametrize("extra", ["", LOW_RANK])
def test_a_mix_learns_and_is_served_as_trained(tmp_path: Path, extra: str, mix: torch.Tensor | None) -> None:
    """A mix, new or old, learns; the written encoder gives the trained vectors, and its card the shares."""
    config = mixing(tmp_path, extra=extra, mix=mix)
    running = Run(read_config(config), tmp_path / "out", device="cpu")
    before = documents(running).detach().numpy()
    if mix is not None:
        np.testing.assert_allclose(before, served(tmp_path / "encoder", running), atol=1e-5)
    running.train(on_progress=ignore_progress)
    for name, share in (("whole", 1.0), ("half", 0.5)):
        running.write(tmp_path / name, share=share, last=True)
    after = documents(running).detach().numpy()
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(served(tmp_path / "whole", running), after, atol=1e-5)
    first = torch.zeros(1, 3) if mix is None else mix
    whole, half = (load_file(tmp_path / name / WEIGHTS)[LAYER_MIX] for name in ("whole", "half"))
    assert ((whole - first).abs() > 1e-3).all()
    torch.testing.assert_close(half, (whole + first) / 2)
    for name, logits in (("whole", whole), ("half", half)):
        shares = ", ".join(f"{share:.3f}" for share in torch.softmax(logits[0], dim=0))
        assert f"mix of layers (shares of the embeddings and each layer: {shares})" in (
            tmp_path / name / CARD
        ).read_text().replace("\n", " ")
        assert not (tmp_path / f"{name}-{CHANGES}").exists()  # low-rank changes alone lack the mix


@pytest.mark.parametrize("extra", ["", LOW_RANK])
def test_a_mix_is_resumed_to_the_same_bits(tmp_path: Path, extra: str) -> None:
    """A stopped and resumed run ends with the same bits, those of the mix and its moments included."""
    config = mixing(tmp_path, extra=extra)

    def stop(_stage: str, done: int, _total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Run(read_config(config), tmp_path / "stopped", device="cpu").train(on_progress=stop)
    for name in ("whole", "stopped"):
        Run(read_config(config), tmp_path / name, device="cpu").train(on_progress=ignore_progress)
    whole, resumed = (load_file(tmp_path / name / LAST) for name in ("whole", "stopped"))
    assert {f"weight:{LAYER_MIX}", f"moment:exp_avg:{LAYER_MIX}"} < set(whole) == set(resumed)
    assert [] == [name for name in whole if not torch.equal(whole[name], resumed[name])]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('{ name = "specter" }', '{ name = "ot" }', "layer_mix gives vectors of documents alone"),
        ('["document"]', '["single"]', r'add distances = \["document"\]'),
        ("[steps]", '[facets]\nlabelled = ["set"]\n[steps]', "leave these tables out"),
    ],
)
def test_a_mix_is_of_documents(tmp_path: Path, before: str, after: str, said: str) -> None:
    """An objective, measurement or small model that reads sentences is refused beside a new mix."""
    config = mixing(tmp_path)
    text = config.read_text()
    assert before in text
    config.write_text(text.replace(before, after))
    with pytest.raises(InputError, match=said):
        Run(read_config(config), tmp_path / "out", device="cpu")
