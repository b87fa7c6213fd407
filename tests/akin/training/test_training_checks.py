"""Tests of training runs: configurations refused before training, warnings, and resuming."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from akin.cli.training import run as running
from akin.cli.training import train
from akin.cli.training.config import read_config
from akin.cli.training.run import CARD, ENCODER, FIGURES, LAST, Run
from models.errors import BuildLockedError, InputError
from models.training import loop
from models.training.objectives.batch import EncodedBatch
from models.types import ignore_progress
from tests.support.examples.models.training_sets import write_run, write_set

IN_BATCH = 'name = "in-batch", distances = ["ot", "document"], temperature = 0.2'


def changed(config: Path, *pairs: tuple[str, str]) -> Path:
    """Replace words in the configuration file, and return its path."""
    text = config.read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    config.write_text(text)
    return config


def trained(config: Path, out: Path, **progress: Callable[[str, int, int], None]) -> dict[str, torch.Tensor]:
    """Return the tensors of the last checkpoint after a run."""
    Run(read_config(config), out, device="cpu").train(
        on_progress=progress.get("on_progress", ignore_progress)
    )
    return load_file(out / LAST)


def interrupt(_stage: str, done: int, _total: int) -> None:
    """End the run after five steps, as a progress callback."""
    if done == 5:
        raise KeyboardInterrupt


def with_other_set(folder: Path, *, shared: int) -> Path:
    """Write a run with a separate held-out set, and copy ``shared`` of its texts into the training set."""
    config = changed(write_run(folder), ('[held_out]\npath = "set"', '[held_out]\npath = "own"'))
    write_set(folder / "own")
    rows = [json.loads(line) for line in (folder / "own" / "texts.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row["sentences"] = [f"another sentence of number {number}."]
        row["title"] = f"the title number {number} of others"
    (folder / "own" / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "set" / "texts.jsonl").open("a") as stream:
        for row in rows[:shared]:
            stream.write(json.dumps({**row, "id": f"again-{row['id']}"}) + "\n")
    return config


def test_held_out_texts_of_other_sets_are_counted_and_reported(tmp_path: Path) -> None:
    """Held-out texts that are in the training set under other ids are counted in output and model card."""
    config = with_other_set(tmp_path, shared=3)
    result = CliRunner().invoke(train.app, [str(config), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    warning = "3 of the 20 held-out texts are also in the training set set"
    assert f"Warning: {warning}" in result.output
    assert warning in (tmp_path / "out" / ENCODER / CARD).read_text()


def test_no_common_text_is_no_warning(tmp_path: Path) -> None:
    """Sets with the same ids but different texts have no overlap."""
    config = with_other_set(tmp_path, shared=0)
    assert Run(read_config(config), tmp_path / "out", device="cpu").overlaps == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ([(IN_BATCH, 'name = "ts"')], "10 of the 10 of set have none, the first is number 1"),
        ([(IN_BATCH, 'name = "ts-ot"')], "akin train data cocited --align"),
        ([(IN_BATCH, 'name = "ot"'), ("batch = 4", "batch = 1")], "No batch of set can have a negative"),
        ([("batch = 4", "batch = 1\naccumulate = 4")], "No batch of set can have a negative"),
        ([(IN_BATCH, 'name = "mnrl"'), ("batch = 4", "batch = 1")], "No batch of set can have a negative"),
    ],
)
def test_sets_that_an_objective_cannot_learn_from_are_refused(
    tmp_path: Path, change: list[tuple[str, str]], said: str
) -> None:
    """A set that the objective cannot learn from is refused before anything is written."""
    config = changed(write_run(tmp_path), *change)
    with pytest.raises(InputError, match=said):
        trained(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seed", [-1, 10**16 + 1])
def test_seeds_that_no_generator_takes_are_refused(tmp_path: Path, seed: int) -> None:
    """A seed out of bounds is refused before training, in the configuration and on the command line."""
    config = changed(write_run(tmp_path), ("[steps]", f"[steps]\nseed = {seed}"))
    with pytest.raises(InputError, match="seed must be at"):
        read_config(config)
    result = CliRunner().invoke(train.app, ["facets", "x.jsonl", "--out", "y", "--seed", str(seed)])
    assert 2 == result.exit_code
    assert "--seed" in result.output


def test_low_rank_changes_of_embeddings_are_refused(tmp_path: Path) -> None:
    """A target that is not linear is refused before training, because it cannot be merged afterwards."""
    config = write_run(tmp_path, extra='[low_rank]\nrank = 2\ntargets = ["query", "word_embeddings"]\n')
    with pytest.raises(InputError, match=r"a layer that is not linear \(Embedding\)"):
        trained(config, tmp_path / "out")


def test_a_batch_without_a_triple_does_not_end_a_run(tmp_path: Path) -> None:
    """A batch whose examples all have the same query has no negatives and loss 0; the run goes on."""
    config = changed(write_run(tmp_path), (IN_BATCH, 'name = "ot"'), ("batch = 4", "batch = 2"))
    rows = [{"query": "p0", "positive": f"p{i}"} for i in range(1, 8)] + [{"query": "p8", "positive": "p9"}]
    (tmp_path / "set" / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trained(changed(config, ("n_steps = 8", "n_steps = 4")), tmp_path / "out")
    losses = json.loads((tmp_path / "out" / FIGURES).read_text())["losses"]
    assert 0 in losses
    assert any(losses)


@pytest.mark.parametrize("cached", ["", "cache_gradients = true"])
def test_a_gradient_that_is_no_number_moves_no_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: str
) -> None:
    """A gradient that is not finite ends the run and changes neither the weights nor the last checkpoint."""
    config = write_run(tmp_path, steps=cached)
    calls = []

    class Breaking:
        """An objective with loss 0 and, from step six, an infinite gradient."""

        served_tau = None

        def __call__(self, batch: EncodedBatch) -> torch.Tensor:
            calls.append(batch)
            zero = batch.query.documents.sum() * 0
            return torch.sqrt(zero) if len(calls) > 5 else zero + batch.query.documents.pow(2).sum()

    monkeypatch.setattr(running, "build_objective", lambda _given: Breaking())
    run = Run(read_config(config), tmp_path / "out", device="cpu")
    with pytest.raises(InputError, match="gradient's norm of step 6 is"):
        run.train(on_progress=ignore_progress)
    assert all(torch.isfinite(own).all() for own in run.model.parameters().values())
    kept = load_file(tmp_path / "out" / LAST)
    assert all(torch.isfinite(tensor).all() for tensor in kept.values())


def test_settings_that_do_not_change_what_is_trained_may_change(tmp_path: Path) -> None:
    """A run resumed with other settings of storing and measuring ends with the same weights."""
    config = write_run(tmp_path)
    whole = trained(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(config, tmp_path / "out", on_progress=interrupt)
    shutil.move(tmp_path / "encoder", tmp_path / "moved")
    changed(
        config,
        ('/encoder"', '/moved"'),
        ("checkpoint_every = 2", "checkpoint_every = 3\npatience = 9"),
        ("measure_every = 4", "measure_every = 8"),
        ("batch_tokens = 96", "batch_tokens = 96\ntau = 0.3"),
        ('distances = ["single"]', 'distances = ["document", "ot"]'),
    )
    resumed = trained(config, tmp_path / "out")
    assert [name for name, tensor in whole.items() if not torch.equal(resumed[name], tensor)] == []
    # Results measured with another distance are not compared with the new ones.
    figures = json.loads((tmp_path / "out" / FIGURES).read_text())["measured"]
    assert [(step, next(iter(found))) for step, found in figures] == [(8, "document")]


def test_forward_passes_of_another_size_go_on_up_to_rounding(tmp_path: Path) -> None:
    """A run can be resumed with smaller or larger forward passes, with the same losses up to rounding."""
    config = write_run(tmp_path)
    trained(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(config, tmp_path / "out", on_progress=interrupt)
    trained(changed(config, ("batch_tokens = 96", "batch_tokens = 4096")), tmp_path / "out")
    whole, resumed = (
        json.loads((tmp_path / name / FIGURES).read_text())["losses"] for name in ("whole", "out")
    )
    assert resumed == pytest.approx(whole, rel=1e-2)


def test_another_encoder_in_the_same_folder_is_not_resumed(tmp_path: Path) -> None:
    """A run is not resumed if the weights of the encoder changed, even with the same name."""
    config = write_run(tmp_path)
    trained(config, tmp_path / "out")
    weights = tmp_path / "encoder" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(InputError, match="another configuration or other data"):
        trained(config, tmp_path / "out")


def test_the_best_trained_weights_are_kept_though_untrained_ones_were_better(tmp_path: Path) -> None:
    """The best checkpoint is never step 0, but patience counts step 0."""
    history = loop.History([], [(0, {"ot": 60.0}), (4, {"ot": 50.0}), (8, {"ot": 40.0}), (12, {})])
    assert (history.best, history.highest) == (4, 0)
    assert loop.History([], [(0, {"ot": 60.0})]).best is None
    config = changed(write_run(tmp_path), ("1e-3", "1e-30"))
    trained(config, tmp_path / "out")
    run = Run(read_config(config), tmp_path / "out", device="cpu")
    assert run.restore().step == 4
    assert run.restore(last=True).step == 8


@pytest.mark.parametrize(
    ("objective", "extra", "expected"),
    [
        (f"{IN_BATCH}, tau = 0.15", "", 0.15),
        (f"{IN_BATCH}, tau = 0.15", "tau = 0.3\n", 0.3),
        ('name = "mnrl"', "", 0.5),
        ('name = "mnrl"', "base", 0.2),
    ],
)
def test_checkpoints_are_chosen_at_the_temperature_that_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objective: str, extra: str, expected: float
) -> None:
    """Held-out pairs are measured at the trained temperature unless the configuration sets another."""
    config = changed(write_run(tmp_path, extra="" if extra == "base" else extra), (IN_BATCH, objective))
    if extra == "base":  # the temperature of the initial encoder
        (tmp_path / "encoder" / "akin.json").write_text('{"normalise": true, "tau": 0.2}')
    seen = []
    measured = running.measure_held_out
    monkeypatch.setattr(
        running,
        "measure_held_out",
        lambda *args, tau: seen.append(tau) or measured(*args, tau=tau),
    )
    run = Run(read_config(config), tmp_path / "out", device="cpu")
    run.train(on_progress=ignore_progress)
    run.finish()
    assert set(seen) == {expected}
    assert f'"tau": {expected}' in (tmp_path / "out" / ENCODER / CARD).read_text()


def test_vectors_that_are_no_numbers_say_what_to_do(tmp_path: Path) -> None:
    """Weights that are not finite end the run with the remedy, in training and in measuring."""
    config = changed(write_run(tmp_path), ("learning_rate = ", "learning_rate = 1e25 #"))
    with pytest.raises(InputError, match=r"of step \d is not finite; lower the learning rate"):
        Run(read_config(config), tmp_path / "out", device="cpu").train(on_progress=ignore_progress)
    run = Run(read_config(config), tmp_path / "measured", device="cpu")
    for own in run.model.parameters().values():
        own.data.fill_(torch.nan)
    with pytest.raises(InputError, match="A vector of the held-out texts is not finite"):
        run.train(on_progress=ignore_progress)


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    """A run is refused while another one trains in the same folder; afterwards it resumes."""
    config, refused = write_run(tmp_path), []

    def begin_another(_stage: str, done: int, _total: int) -> None:
        if done == 1:
            with pytest.raises(BuildLockedError, match="another process is writing to this folder"):
                trained(config, tmp_path / "out")
            refused.append(done)

    trained(config, tmp_path / "out", on_progress=begin_another)
    trained(config, tmp_path / "out")
    assert [1] == refused


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("learning_rate = ", "weight_decay = inf\nlearning_rate = ", "weight_decay"),
        (IN_BATCH, 'name = "ts-ot", sentences = 0, transport = 0', "sentences and transport are both 0"),
    ],
)
def test_a_run_that_cannot_learn_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    """Infinite settings, and weights of losses that are all 0, are refused."""
    config = write_run(tmp_path)
    with pytest.raises(InputError, match=said):
        Run(read_config(changed(config, (before, after))), tmp_path / "out", device="cpu")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """A configuration that an editor saved with a byte order mark is read like one without."""
    config = write_run(tmp_path)
    without = read_config(config)
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes())
    assert without == read_config(config)
