"""Tests of `akin train CONFIG.toml` with [facets] and [functions], models that read the trained encoder."""

import json
from pathlib import Path

import pytest

from akin.cli.training.card import FUNCTIONS, TAGGER
from akin.cli.training.run import CARD, ENCODER
from models.annotator import Annotator, load_annotator
from models.functions import read_metadata
from tests.support.commands import flat, run
from tests.support.examples.models.training_sets import write_run

TABLES = """
[facets]
labelled = ["labelled.jsonl"]
layers = [1, 2]
n_epochs = 1
held_out = 0.3
[functions]
corpora = ["labelled.jsonl"]
phrases = "phrases.toml"
layers = [0, 2]
dim = 8
n_epochs = 1
"""
PHRASES = "[show]\nphrases = ['we show']\n[method]\nphrases = ['a method of']\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration that trains both small models, with paths relative to its folder."""
    config = write_run(tmp_path)
    config.write_text(config.read_text() + TABLES)
    rows = [
        {
            "id": f"p-{tens}-{ones}",
            "title": "graph",
            "abstract": [f"We show a result {ones}.", f"A method of a cell {tens}."],
            "facets": ["result", "method"],
        }
        for tens in "abcd"
        for ones in "abcdefghij"
    ]
    (tmp_path / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "phrases.toml").write_text(PHRASES)
    return config


def annotator_of(folder: Path) -> Annotator:
    """Return the annotator that indexing with the encoder in ``folder`` uses."""
    return load_annotator(str(folder), device="cpu")


def test_one_command_trains_an_encoder_and_what_reads_it(config: Path, tmp_path: Path) -> None:
    """The small models are written to the encoder's folder, loaded from it, measured, and on its card."""
    out = tmp_path / "out"
    shown = flat(run("train", config, "--out", out, "--device", "cpu"))
    assert "Wrote the weights of step" in shown
    assert "facets-trained − facets-surface: micro-F1" in shown
    assert "by the 2 functions, on papers held out." in shown
    taken = annotator_of(out / ENCODER)
    assert (taken.tagger.spec.name, taken.tagger.spec.layers) == ("facets-trained", (1, 2))
    assert taken.function_spec is not None
    assert (taken.function_spec.name, taken.function_spec.layers) == ("functions-trained", (0, 2))
    card = (out / ENCODER / CARD).read_text()
    assert (
        f"- `{TAGGER}`: facet tagger that reads this encoder's layers, trained on `labelled.jsonl`." in card
    )
    assert FUNCTIONS in card
    assert str(tmp_path) not in card


def test_what_is_there_is_kept_and_what_is_missing_is_made(config: Path, tmp_path: Path) -> None:
    """Running the command again writes the missing small model, and keeps the existing files."""
    out = tmp_path / "out"
    run("train", config, "--out", out, "--device", "cpu")
    encoder = out / ENCODER
    before = {path.name: path.read_bytes() for path in encoder.iterdir()}
    (encoder / TAGGER).unlink()
    (encoder / FUNCTIONS).write_bytes(before[FUNCTIONS] + b" ")  # must be left unchanged
    shown = flat(run("train", config, "--out", out, "--device", "cpu"))
    assert "already exists" in shown
    assert f"{FUNCTIONS} already exists and stays as it is; delete it to train it again" in shown
    assert f"Wrote {encoder / TAGGER}" in shown
    assert (encoder / TAGGER).read_bytes() == before[TAGGER]
    assert (encoder / FUNCTIONS).read_bytes() == before[FUNCTIONS] + b" "


def test_an_export_has_small_models_of_its_own(config: Path, tmp_path: Path) -> None:
    """An export gets new small models, as those of the run's encoder do not fit it and are ignored."""
    out, half = tmp_path / "out", tmp_path / "half"
    run("train", config, "--out", out, "--device", "cpu")
    run("train", "export", config, "--out", out, "--to", half, "--share", "0.5")
    whole, own = annotator_of(out / ENCODER), annotator_of(half)
    assert own.tagger.spec.name == "facets-trained"
    assert own.tagger.spec.encoder == own.encoder.spec.fingerprint != whole.encoder.spec.fingerprint
    (half / TAGGER).write_bytes((out / ENCODER / TAGGER).read_bytes())
    assert annotator_of(half).tagger.spec.name == "facets-surface"


def test_functions_take_the_settings_of_their_command(config: Path, tmp_path: Path) -> None:
    """Objective and n-grams are those given; each seed has weights, and the encoder has the first's."""
    (tmp_path / "phrases.toml").write_text(PHRASES.replace("'we show'", "'we show', 'we show a'"))
    text = config.read_text().replace("n_steps = 8\n", "n_steps = 8\nseed = 3\n")
    config.write_text(text + 'objective = "triplet"\nngram_words = 3\nseeds = 2\n')
    out = tmp_path / "out"
    assert "Over 2 seeds, functions learnt from: MAP@R" in flat(run("train", config, "--out", out))
    files = [out / f"{ENCODER}-functions-trained-seed{seed}.safetensors" for seed in (3, 4)]
    stored = [read_metadata(file) for file in files]
    wanted = ("objective", "least_words", "seed")
    assert [["triplet", 3, 3], ["triplet", 3, 4]] == [[one[key] for key in wanted] for one in stored]
    assert files[0].read_bytes() == (out / ENCODER / FUNCTIONS).read_bytes() != files[1].read_bytes()
    assert "objective triplet, n-grams of 3 words or more" in (out / ENCODER / CARD).read_text()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('labelled = ["labelled.jsonl"]', 'labelled = ["absent.jsonl"]', "absent.jsonl: no such file"),
        ('phrases = "phrases.toml"', 'phrases = "absent.toml"', "absent.toml cannot be read"),
        ("held_out = 0.3", "held_out = 2", "facets.held_out"),
        ("dim = 8", 'objective = "hinge"', "Unknown objective 'hinge'; known: softmax, triplet"),
        ("dim = 8", "ngram_words = 6", "functions.ngram_words"),
        ("dim = 8", "ngram_words = 3", "phrases of 3 words or more; at least two are needed"),
        ("dim = 8", "seeds = 0", "functions.seeds"),
    ],
)
def test_what_cannot_be_used_is_reported_before_training(
    config: Path, tmp_path: Path, before: str, after: str, expected: str
) -> None:
    """Missing files and invalid settings are reported before anything is trained."""
    text = config.read_text()
    assert before in text
    config.write_text(text.replace(before, after))
    out = tmp_path / "out"
    assert expected in flat(run("train", config, "--out", out, "--device", "cpu", status=1))
    assert not out.exists()
