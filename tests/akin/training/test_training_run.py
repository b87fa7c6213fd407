"""Tests of ``akin train CONFIG.toml`` on a tiny random encoder: learning, resuming and refusals."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from typer.testing import CliRunner

from akin.cli import app as main
from akin.cli.training import train
from akin.cli.training.config import read_config
from akin.cli.training.run import BEST, CARD, CHANGES, CURVE, ENCODER, FIGURES, LAST, Run
from models.encoder import load_encoder
from models.errors import AkinError, InputError, UnknownNameError
from models.training import loop, trainable
from models.training.assembly import assembled
from models.training.examples import Example, TrainingSet
from models.training.loop import LoopSettings, rate_at
from models.training.objectives.batch import EncodedBatch, Vectors
from models.training.trainable import Trainable
from models.types import Precision, ignore_progress
from tests.support.examples.models.training_sets import LOW_RANK, write_run

OTHER_SET = '[[sets]]\npath = "set"\nobjective = { name = "mnrl" }\n'


def trained(config: Path, out: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of the last checkpoint after a run."""
    Run(read_config(config), out, device="cpu").train(on_progress=ignore_progress)
    return load_file(out / LAST)


def assert_equal_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    """Check that both have the same names, and the same bits in every tensor."""
    assert sorted(a) == sorted(b)
    assert [name for name in a if not torch.equal(a[name], b[name])] == []


@pytest.mark.parametrize("extra", ["", "dropout = 0.1\n" + LOW_RANK])
def test_a_run_gives_the_same_bits_again(tmp_path: Path, extra: str) -> None:
    """Two runs give the same bits, and the losses, measurements and curve are written."""
    config = write_run(tmp_path, extra=extra)
    first, second = trained(config, tmp_path / "a"), trained(config, tmp_path / "b")
    assert_equal_bits(first, second)
    figures = json.loads((tmp_path / "a" / FIGURES).read_text())
    assert len(figures["losses"]) == 8
    assert [step for step, _ in figures["measured"]] == [0, 4, 8]
    assert (tmp_path / "a" / CURVE).read_text().startswith("<svg")


@pytest.mark.parametrize(("extra", "rate"), [("", "3e-3"), (LOW_RANK, "5e-3")])
def test_what_belongs_together_is_learnt(tmp_path: Path, extra: str, rate: str) -> None:
    """Forty steps halve the loss of the toy pairs and rank them perfectly, with all weights or low-rank."""
    config = write_run(tmp_path, extra=extra)
    text = config.read_text().replace("n_steps = 8", "n_steps = 40").replace("= 4\n", "= 40\n")
    config.write_text(text.replace("batch = 40", "batch = 4").replace("1e-3", rate))
    trained(config, tmp_path / "out")
    figures = json.loads((tmp_path / "out" / FIGURES).read_text())
    assert np.mean(figures["losses"][-5:]) < 0.5 * np.mean(figures["losses"][:5])
    assert figures["measured"][-1][1]["single"] == 100


@pytest.mark.parametrize(("kill", "extra"), [(False, LOW_RANK), (True, LOW_RANK), (True, "")])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path, kill: bool, extra: str) -> None:
    """A run stopped in the middle, by an interruption or SIGKILL, resumes to the same weights and losses."""
    config = write_run(tmp_path, extra="dropout = 0.1\n" + extra)
    expected = trained(config, tmp_path / "whole")
    out = tmp_path / "stopped"
    if kill:
        code = (
            "import os, signal, sys; from pathlib import Path; import akin.cli.training.run as run; "
            "from akin.cli.training.config import read_config; "
            "stop = lambda stage, done, total: done == 5 and os.kill(os.getpid(), signal.SIGKILL); "
            "run.Run(read_config(Path(sys.argv[1])), Path(sys.argv[2]), device='cpu').train(on_progress=stop)"
        )
        ended = subprocess.run([sys.executable, "-c", code, str(config), str(out)], check=False)
        assert ended.returncode == -signal.SIGKILL
    else:
        with pytest.raises(KeyboardInterrupt):
            Run(read_config(config), out, device="cpu").train(on_progress=_interrupt_at(5))
    assert len(json.loads((out / FIGURES).read_text())["losses"]) == 4
    assert_equal_bits(trained(config, out), expected)
    whole, resumed = (json.loads((tmp_path / name / FIGURES).read_text()) for name in ("whole", "stopped"))
    costs = [figures.pop("cost") for figures in (whole, resumed)]
    assert resumed == whole
    assert [64, 64] == [cost["n_papers"] for cost in costs]  # the step after the checkpoint was lost


def test_bfloat16_moves_the_same_weights_by_rounding(tmp_path: Path) -> None:
    """bfloat16 training stays float32 in storage, is close to float32, and resumes to the same bits."""
    plain = write_run(tmp_path, extra=LOW_RANK)
    rounded = tmp_path / "rounded.toml"
    rounded.write_text('precision = "bfloat16"\n' + plain.read_text())
    exact, whole = trained(plain, tmp_path / "plain"), trained(rounded, tmp_path / "whole")
    assert {tensor.dtype for tensor in whole.values()} == {torch.float32}
    apart = max(float((exact[name] - whole[name]).abs().max()) for name in exact)
    losses = [json.loads((tmp_path / name / FIGURES).read_text())["losses"] for name in ("plain", "whole")]
    assert apart > 0
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.1, atol=0.02)
    stopped = Run(read_config(rounded), tmp_path / "stopped", device="cpu")
    with pytest.raises(KeyboardInterrupt):
        stopped.train(on_progress=_interrupt_at(5))
    assert_equal_bits(trained(rounded, tmp_path / "stopped"), whole)


def test_automatic_precision_is_that_of_the_first_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with ``auto`` is not resumed in another number format, but exported anywhere; its card has it."""
    config = write_run(tmp_path, extra=LOW_RANK)
    config.write_text('precision = "auto"\n' + config.read_text())
    for precision, ends in (
        (Precision.BFLOAT16, pytest.raises(KeyboardInterrupt)),
        (Precision.FLOAT32, pytest.raises(InputError, match="begun in bfloat16")),
    ):
        monkeypatch.setattr(trainable, "resolve_precision", lambda _, device, own=precision: own)
        run = Run(read_config(config), tmp_path / "out", device="cpu")
        with ends:
            run.train(on_progress=_interrupt_at(5))
    run.write(tmp_path / "written", share=1.0)
    assert '"precision": "bfloat16"' in (tmp_path / "written" / CARD).read_text()


def _interrupt_at(step: int) -> Callable[[str, int, int], None]:
    """Return a progress callback that ends the run after a step, like Ctrl-C."""

    def on_progress(_stage: str, done: int, _total: int) -> None:
        if done == step:
            raise KeyboardInterrupt

    return on_progress


def test_cached_gradients_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    """Cached gradients give the same weights as whole batches up to rounding, with dropout."""
    plain = write_run(tmp_path, extra="dropout = 0.1\n")
    cached = tmp_path / "cached.toml"
    cached.write_text(plain.read_text() + "cache_gradients = true\n")
    first, second = trained(plain, tmp_path / "a"), trained(cached, tmp_path / "b")
    moved = load_file(tmp_path / "encoder" / "model.safetensors")
    assert {f"weight:{name}" for name in moved} <= set(first)
    for name in moved:
        key = f"weight:{name}"
        torch.testing.assert_close(first[key], second[key], atol=2e-5, rtol=1e-3)


def test_accumulated_batches_count_alike(tmp_path: Path) -> None:
    """With two accumulated batches a step, a run still records one loss per step."""
    config = write_run(tmp_path, steps="accumulate = 2\n")
    trained(config, tmp_path / "a")
    assert len(json.loads((tmp_path / "a" / FIGURES).read_text())["losses"]) == 8


def test_accumulated_batches_move_weights_as_one_does(tmp_path: Path) -> None:
    """Two batches of two that are accumulated give the losses and weights of one batch of four."""
    config = write_run(tmp_path)
    examples = tmp_path / "set" / "examples.jsonl"
    rows = [json.loads(line) for line in examples.read_text().splitlines()]
    for number, row in enumerate(rows):
        row["negatives"] = [rows[(number + 3) % len(rows)]["positive"]]
    examples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = re.sub(r"objective = \{.*\}", 'objective = { name = "specter", margin = 0.5 }', config.read_text())
    config.write_text(text)
    accumulated = tmp_path / "accumulated.toml"
    accumulated.write_text(text.replace("batch = 4", "batch = 2") + "accumulate = 2\n")
    first, second = trained(config, tmp_path / "a"), trained(accumulated, tmp_path / "b")
    losses = [json.loads((tmp_path / name / FIGURES).read_text())["losses"] for name in ("a", "b")]
    assert 8 == len(losses[0])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    for name in load_file(tmp_path / "encoder" / "model.safetensors"):
        key = f"weight:{name}"
        torch.testing.assert_close(first[key], second[key], atol=2e-5, rtol=1e-3)


def test_an_objective_may_name_its_settings_in_any_order(tmp_path: Path) -> None:
    """Two sets mixed in batches have one objective, however its settings are ordered."""
    config = write_run(tmp_path, extra=OTHER_SET)
    text = config.read_text().replace("max_tokens", 'mixing = "in-batch"\nmax_tokens')
    (given,) = re.findall(r"objective = \{ (name = .*), (temperature = .*?) \}", text)
    text = text.replace('{ name = "mnrl" }', "{ " + ", ".join(reversed(given)) + " }")
    config.write_text(text)
    assert 2 == len(Run(read_config(config), tmp_path / "out", device="cpu").sets)


def test_every_set_of_a_run_tells_what_belongs_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sets in turn, a batch of one set also asks the others which of its texts are no wrong answers."""
    numbers_of_sets: list[int] = []

    def counted(vectors: Vectors, examples: Sequence[Example], sets: Sequence[TrainingSet]) -> EncodedBatch:
        numbers_of_sets.append(len(sets))
        return assembled(vectors, examples, sets)

    monkeypatch.setattr(loop, "assembled", counted)
    trained(write_run(tmp_path, extra=OTHER_SET), tmp_path / "out")
    assert {2} == {*numbers_of_sets}


@pytest.mark.parametrize("extra", ["", LOW_RANK])
def test_merged_weights_load_as_any_encoder(tmp_path: Path, extra: str) -> None:
    """An exported encoder, loaded normally, gives the vectors of the end of training."""
    config = write_run(tmp_path, extra=extra)
    run = Run(read_config(config), tmp_path / "out", device="cpu")
    run.train(on_progress=ignore_progress)
    run.export(tmp_path / "encoder-2")
    papers = list(run.sets[0].texts.values())[:5]
    encoded = load_encoder(str(tmp_path / "encoder-2"), device="cpu").encode(papers)
    base = load_encoder(str(tmp_path / "encoder"), device="cpu").encode(papers)
    tokens = run.model.tokenise(papers)
    for i, (paper, before) in enumerate(zip(encoded, base, strict=True)):
        with torch.no_grad():
            expected = run.model.encode([tokens[i]], seed=None)
        np.testing.assert_allclose(paper.sentences, expected.sentences[0].numpy(), atol=1e-5)
        np.testing.assert_allclose(paper.document, expected.documents[0].numpy(), atol=1e-5)
        assert np.abs(paper.sentences - before.sentences).max() > 1e-3


def test_a_share_of_the_change_lies_between_the_weights(tmp_path: Path) -> None:
    """With share 0.5 every weight is the mean of the initial and the trained weight."""
    config = write_run(tmp_path, extra=LOW_RANK)
    run = Run(read_config(config), tmp_path / "out", device="cpu")
    run.train(on_progress=ignore_progress)
    run.export(tmp_path / "whole")
    run.export(tmp_path / "half", share=0.5)
    names = ("encoder", "whole", "half")
    before, whole, half = (load_file(tmp_path / name / "model.safetensors") for name in names)
    assert set(whole) == set(half) <= set(before)
    for name, tensor in whole.items():
        torch.testing.assert_close(half[name], (before[name] + tensor) / 2, atol=1e-6, rtol=0)


def test_another_configuration_is_not_resumed(tmp_path: Path) -> None:
    """A folder with a run of another configuration is refused."""
    config = write_run(tmp_path)
    trained(config, tmp_path / "out")
    config.write_text(config.read_text().replace("1e-3", "2e-3"))
    for name in (LAST, BEST):  # what else is there would pass for the result of the new run
        with pytest.raises(InputError, match=r"another configuration or other data.* delete the folder"):
            trained(config, tmp_path / "out")
        (tmp_path / "out" / name).unlink()
    (tmp_path / "out" / ENCODER).mkdir()
    with pytest.raises(InputError, match="files of another run"):
        trained(config, tmp_path / "out")


@pytest.mark.parametrize("stage", ["encode", "to"])
def test_too_little_memory_is_reported_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """A device without enough memory ends training with an error in words, not with a traceback."""

    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nSee the documentation")

    config = write_run(tmp_path)
    monkeypatch.setattr(Trainable if stage == "encode" else torch.nn.Module, stage, fail)
    result = CliRunner().invoke(main.app, ["train", str(config), "--out", str(tmp_path / "out")])
    assert 1 == result.exit_code
    assert re.search(r"does not suffice \(CUDA out of memory.*--device\s+cpu", result.output, re.DOTALL)


@pytest.mark.parametrize("report", ["not JSON", "[1]", '{"left_out_by_the_leak_guard": 12}'])
def test_a_report_in_another_form_is_no_obstacle(tmp_path: Path, report: str) -> None:
    """A report that somebody wrote by hand does not keep a finished run from being written."""
    config = write_run(tmp_path)
    (tmp_path / "set" / "report.json").write_text(report)
    running = Run(read_config(config), tmp_path / "out", device="cpu")
    running.train(on_progress=ignore_progress)
    assert "Wrote the weights" in running.finish()


def test_an_interrupted_run_says_that_it_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The training of an encoder resumes; that of a facet tagger does not, and does not say so."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "read_config", interrupted)
    monkeypatch.setattr(train, "read_all_labelled", interrupted)
    given = {"run": [str(write_run(tmp_path))], "facets": [str(tmp_path)]}
    said = {
        name: CliRunner().invoke(main.app, ["train", name, *rest, "--out", str(tmp_path / "out")]).output
        for name, rest in given.items()
    }
    assert {"run": True, "facets": False} == {name: "to resume" in each for name, each in said.items()}


def test_training_stops_where_nothing_gets_better(tmp_path: Path) -> None:
    """With patience 1 and a rate near 0, the run ends after the first measurement without improvement."""
    config = write_run(tmp_path, steps="patience = 1\n")
    config.write_text(config.read_text().replace("1e-3", "1e-30"))
    trained(config, tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / FIGURES).read_text())["losses"]) == 4


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda text: text.replace("n_steps = 8", "n_steps = 0"), InputError, "steps.n_steps"),
        (lambda text: text + "patince = 1\n", InputError, "patince"),
        (lambda text: text.replace("in-batch", "inbatch"), UnknownNameError, "in-batch"),
        (lambda text: text.replace("temperature", "temprature"), InputError, "temprature"),
        (lambda text: text.replace('path = "set"', 'path = "absent"', 1), InputError, "akin train data"),
        (lambda text: text.replace('["single"]', "[]"), InputError, "held_out.distances"),
        (lambda text: text + "[", InputError, "not a TOML file"),
        (
            lambda text: (
                text.replace('[held_out]\npath = "set"\ndistances = ["single"]\n', "") + "patience = 1"
            ),
            InputError,
            "held_out",
        ),
        (
            lambda text: text.replace("max_tokens", 'mixing = "in-batch"\nmax_tokens') + OTHER_SET,
            InputError,
            "one",
        ),
        (lambda text: text + OTHER_SET + "weight = 0.001\n", InputError, "none of the 8 steps draws from it"),
    ],
)
def test_what_a_configuration_may_not_say(
    tmp_path: Path, change: Callable[[str], str], error: type[AkinError], said: str
) -> None:
    """An invalid configuration is refused by name before anything is trained."""
    config = write_run(tmp_path)
    config.write_text(change(config.read_text()))
    with pytest.raises(error, match=said):
        trained(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_encoder_is_named_or_found_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is relative to the file like every path in it; a checkpoint's name is never a folder."""
    config = write_run(tmp_path / "own")
    text = config.read_text()
    for folder in ("own/minilm", "elsewhere"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path)
    for given, expected in (
        ("encoder", str(tmp_path / "own" / "encoder")),
        (str(tmp_path / "own" / "encoder"), str(tmp_path / "own" / "encoder")),
        ("minilm", "minilm"),
        ("elsewhere", "elsewhere"),
    ):
        config.write_text(text.replace(str(tmp_path / "own" / "encoder"), given))
        assert read_config(config).encoder == expected


def test_the_command_trains_and_writes_an_encoder(tmp_path: Path) -> None:
    """`akin train CONFIG.toml --out DIR` writes an encoder and its model card."""
    config = write_run(tmp_path, extra=LOW_RANK)
    settings = tmp_path / "encoder" / "config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "return_dict": False}))
    result = CliRunner().invoke(train.app, [str(config), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    encoder = load_encoder(str(tmp_path / "out" / "encoder"), device="cpu")
    assert encoder.spec.normalised
    card = (tmp_path / "out" / "encoder" / "README.md").read_text()
    assert "akin train" in card
    assert "10 examples" in card
    with safe_open(tmp_path / "out" / f"encoder-{CHANGES}", framework="pt") as changes:
        assert "encoder" == changes.metadata()["encoder"]  # to be shared, so without the path


def test_the_rate_rises_and_falls_in_lines() -> None:
    """The learning rate warms up linearly, then falls linearly to the last share."""
    settings = LoopSettings(n_steps=10, warm_up=2, last_rate=0.3)
    rates = [rate_at(step, settings) for step in range(10)]
    assert rates == pytest.approx([0.5, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.3, 0.3])
