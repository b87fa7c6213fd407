"""Tests of the files exported with a trained encoder: temperature, weights and model card."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from akin.cli.training import train
from akin.cli.training.card import reservation
from akin.cli.training.config import read_config
from akin.cli.training.run import BEST, CARD, ENCODER, FIGURES, Run
from models.checkpoints.checkpoints import WEIGHTS
from models.encoder import load_encoder
from models.errors import InputError
from models.training.loop import History, State
from models.types import Unit, ignore_progress
from service.search.rerank import default_tau
from tests.support.examples.models.training_sets import LOW_RANK, write_run

OBJECTIVE = '{ name = "in-batch", distances = ["ot", "document"], temperature = 0.2 }'


def configured(folder: Path, objective: str, *, extra: str = "", more: str = "") -> Run:
    """Return a run of an objective given in TOML; ``more`` is the TOML of another set."""
    config = write_run(folder, extra=extra)
    text = config.read_text()
    assert OBJECTIVE in text
    config.write_text(text.replace(OBJECTIVE, objective) + more)
    return Run(read_config(config), folder / "out", device="cpu")


@pytest.mark.parametrize(
    ("objective", "before", "expected"),
    [
        ('{ name = "ot", tau = 0.3, margin = 0.1 }', None, 0.3),
        ('{ name = "in-batch", distances = ["single", "ot"], tau = 1 }', 5000, 1.0),
        ('{ name = "in-batch", distances = ["single"], tau = 0.3 }', 5000, 5000.0),
        ('{ name = "mnrl" }', None, None),
    ],
)
def test_a_search_takes_the_temperature_that_the_encoder_was_trained_at(
    tmp_path: Path, objective: str, before: float | None, expected: float | None
) -> None:
    """The exported encoder has the trained temperature, or that of the initial encoder if there is none."""
    running = configured(tmp_path, objective)
    if before is not None:
        (tmp_path / "encoder" / "akin.json").write_text(f'{{"normalise": true, "tau": {before}}}')
        running = Run(running.config, tmp_path / "out", device="cpu")
    running.export(tmp_path / "trained")
    spec = load_encoder(str(tmp_path / "trained"), device="cpu").spec
    assert spec.tau == expected
    assert default_tau(spec) == (expected or 0.15)
    assert default_tau(spec, text=True) == 0.1  # short texts have a separate temperature


@pytest.mark.parametrize(
    ("objective", "measured_by", "extra", "expected"),
    [
        ('{ name = "in-batch", distances = ["ot"] }', "single", "", Unit.SENTENCE),
        ('{ name = "in-batch", distances = ["document"] }', "document", "", Unit.DOCUMENT),
        ('{ name = "specter" }', "document", "", Unit.DOCUMENT),
        ('{ name = "mnrl" }', "single", "", r'add distances = \["document"\]'),
        ('{ name = "mnrl" }', "document", '[facets]\nlabelled = ["set"]\n', "leave these tables out"),
    ],
)
def test_an_encoder_of_documents_becomes_what_is_trained(
    tmp_path: Path, objective: str, measured_by: str, extra: str, expected: Unit | str
) -> None:
    """It becomes one of sentences if an objective trains them; else nothing may read its sentences."""
    config = write_run(tmp_path)
    (tmp_path / "encoder" / "akin.json").write_text('{"kind": "document"}')
    text = config.read_text().replace(OBJECTIVE, objective).replace('["single"]', f'["{measured_by}"]')
    config.write_text(text + extra)
    if not isinstance(expected, Unit):
        with pytest.raises(InputError, match=expected):
            Run(read_config(config), tmp_path / "out", device="cpu")
        return
    Run(read_config(config), tmp_path / "out", device="cpu").export(tmp_path / "trained")
    assert expected == load_encoder(str(tmp_path / "trained"), device="cpu").spec.unit


def test_the_card_shows_the_figures_beside_it(tmp_path: Path) -> None:
    """An encoder's figures have data, losses, measurements and cost of its run; its card says the same."""
    running = configured(tmp_path, OBJECTIVE)
    running.train(on_progress=ignore_progress)
    running.write(tmp_path / "half", share=0.5, last=True)
    content, card = ((tmp_path / "half" / name).read_text() for name in (FIGURES, CARD))
    figures = json.loads(content)
    cost, (of_set,) = figures["cost"], figures["sets"]
    assert (8, 8, [0, 4, 8], 0.5) == (
        figures["step"],
        len(figures["losses"]),
        [step for step, _ in figures["measured"]],
        figures["settings"]["share"],
    )
    assert (10, 20, 32) == (of_set["n_examples"], of_set["n_texts"], of_set["n_drawn"])
    assert 64 == cost["n_papers"]  # query and positive of 32 examples
    assert figures["papers_per_s"] == pytest.approx(64 / cost["seconds"])
    assert 50 < cost["peak_memory_mib"] < 50_000
    assert (
        f"{figures['papers_per_s']:,.1f} papers a second, at most {cost['peak_memory_mib']:,.0f} MiB" in card
    )
    assert f"(CPU, {torch.get_num_threads()} thread" in card
    assert str(tmp_path) not in content
    (tmp_path / "out" / FIGURES).write_text("{}")  # of an earlier version
    running.write(tmp_path / "again", share=0.5)
    assert "papers a second" not in (tmp_path / "again" / CARD).read_text()


def test_one_encoder_has_one_temperature(tmp_path: Path) -> None:
    """Sets with different temperatures are refused before training."""
    other = '[[sets]]\npath = "set"\nobjective = { name = "ot", tau = 0.3 }\n'
    with pytest.raises(InputError, match=r"0\.2, 0\.3.*give all the same"):
        configured(tmp_path, '{ name = "ts-ot", tau = 0.2 }', more=other)


def test_an_export_before_the_first_checkpoint_says_so(tmp_path: Path) -> None:
    """There is nothing damaged to delete; nothing is written."""
    running = configured(tmp_path, '{ name = "mnrl" }')
    with pytest.raises(InputError, match=r"out holds no checkpoint yet: there is no last\.safetensors"):
        running.write(tmp_path / "half", share=0.5)
    assert not (tmp_path / "half").exists()


def test_a_finished_run_says_how_another_share_is_written(tmp_path: Path) -> None:
    """The encoder stays as it is, though the configuration has another share now."""
    running = configured(tmp_path, '{ name = "mnrl" }')
    (tmp_path / "out" / ENCODER).mkdir(parents=True)
    assert "stays as it is" in running.finish()
    assert "another share of the change, run akin train export" in running.finish()
    (tmp_path / "out" / BEST).touch()
    os.utime(tmp_path / "out" / BEST, (2**33, 2**33))
    assert "For the better checkpoint found since, run akin train export" in running.finish()


def test_two_exports_of_one_checkpoint_are_equal(tmp_path: Path) -> None:
    """Weights that the initial encoder lacks, its unused pooler, are the same in every export."""
    config = write_run(tmp_path, extra=LOW_RANK)
    weights = load_file(tmp_path / "encoder" / WEIGHTS)
    kept = {name: tensor for name, tensor in weights.items() if "pooler" not in name}
    save_file(kept, tmp_path / "encoder" / WEIGHTS, metadata={"format": "pt"})
    for name in ("a", "b"):
        Run(read_config(config), tmp_path / "out", device="cpu").export(tmp_path / name, share=0.5)
    a, b = (load_file(tmp_path / name / WEIGHTS) for name in ("a", "b"))
    assert a.keys() > kept.keys()
    assert [] == [name for name in a if not torch.equal(a[name], b[name])]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [(60.0, 60.0, "was as good."), (60.0, 59.9, "was better."), (60.0, 60.1, ""), (None, 60.0, "")],
)
def test_an_export_says_what_training_gained_nothing_over(
    before: float | None, after: float, said: str
) -> None:
    """Only a lower figure than before training is called worse; the distance named first decides."""
    start = {} if before is None else {"ot": before, "single": 70.0}
    state = State(4, {}, History([], [(0, start), (4, {"ot": after, "single": 50.0})]))
    than = said and f" On the held-out pairs, the encoder before training {said}"
    assert than == reservation(state, share=1.0)
    kept = " The held-out figures are of the whole change; with 0.5 of it not measured." if before else ""
    assert than + kept == reservation(state, share=0.5)


@pytest.mark.parametrize(
    ("before", "after"),
    [('[held_out]\npath = "set"\ndistances = ["single"]\n', ""), ("max_tokens", "tau = 0.9\nmax_tokens")],
)
def test_a_checkpoint_is_chosen_and_described_by_what_is_configured_now(
    tmp_path: Path, before: str, after: str
) -> None:
    """With another tau, or without held-out pairs, earlier figures choose and describe no checkpoint."""
    config = write_run(tmp_path)
    config.write_text(config.read_text().replace("1e-3", "1e-30"))
    out = tmp_path / "out"
    running = Run(read_config(config), out, device="cpu")
    running.train(on_progress=ignore_progress)
    assert "step 4. On the held-out pairs, the encoder before training was as good. Use" in running.write(
        tmp_path / "best", share=1
    )
    running.write(tmp_path / "half", share=0.5)
    kept = "The whole change was measured; this encoder keeps 0.5 of it."
    assert [False, True] == [kept in (tmp_path / name / CARD).read_text() for name in ("best", "half")]
    assert before in config.read_text()
    config.write_text(config.read_text().replace(before, after))
    running = Run(read_config(config), out, device="cpu")
    running.train(on_progress=ignore_progress)
    assert running.finish() == f"Wrote the weights of step 8. Use them with: --encoder {out / ENCODER}"
    card = (out / ENCODER / CARD).read_text()
    assert "None were measured." in card
    assert "| step |" not in card


def test_the_card_says_what_was_done(tmp_path: Path) -> None:
    """The model card has the commands, the share of the change, and the examples of the run."""
    config = write_run(tmp_path, extra=LOW_RANK, steps="accumulate = 2\n")
    out, half = tmp_path / "my run", tmp_path / "half"
    for args in (
        [config, "--out", out, "--device", "cpu", "--threads", torch.get_num_threads()],
        ["export", config, "--out", out, "--to", half, "--share", 0.5, "--last"],
    ):
        result = CliRunner().invoke(train.app, [str(arg) for arg in args])
        assert result.exit_code == 0, result.output
    whole_card, half_card = ((folder / CARD).read_text() for folder in (out / ENCODER, half))
    threads = f"--device cpu --threads {torch.get_num_threads()}"
    assert f"\n    akin train run.toml --out 'my run' {threads}\n\n## Data" in whole_card
    assert (
        "\n    akin train run.toml --out 'my run'\n"
        "    akin train export run.toml --out 'my run' --to half --share 0.5 --last\n\n## Data"
    ) in half_card
    # The best result is before training, but the exported checkpoint is the best trained one.
    best = "4 of 8", "32 drawn (3.20 epochs)"
    for card, share, (step, drawn) in (
        (whole_card, "1", best),
        (half_card, "0.5", ("8 of 8", "64 drawn (6.40 epochs)")),
    ):
        assert f"Checkpoint of step {step}" in card
        assert f"Step {step[0]} minus step 0, the encoder before training: single " in card
        assert "20 of the 20 held-out texts are also in the training set set" in card
        assert f"{share} of the change kept" in card
        assert f'"share": {float(share)}' in card
        assert f"10 examples, 20 texts, weight 1; {drawn}" in card
        assert str(tmp_path) not in card.partition("## Configuration")[0].replace(
            str(tmp_path / "encoder"), ""
        )
