"""Training a function encoder: on a toy problem, and from a corpus to an evaluation by the commands."""

import json
import re
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from akin.cli.evaluation import evaluate
from akin.cli.training import train
from akin.cli.training.functions import _map_at_r
from evaluation.systems.sentence_systems import sentence_vectors
from evaluation.systems.vectors import VectorSource
from evaluation.tasks.sentences import retrieval_by_label
from models.encoder import load_encoder
from models.encoders.hashing import HashingEncoder
from models.encoders.wordpieces import WordPieces
from models.errors import AkinError, InputError, StorageError, UnknownNameError
from models.functions import TrainedFunctionEncoder, read_metadata
from models.training.rhetoric import functions as training
from models.training.rhetoric.functions import (
    BATCH,
    Features,
    HeadSettings,
    balanced_batches,
    encode_examples,
    of_labels,
    train_head,
)
from models.training.rhetoric.objectives import OBJECTIVES
from models.training.rhetoric.phrases import Example
from models.types import EncodedPaper, Paper, Sentence
from tests.support.builds import quiet
from tests.support.examples.models.tiny_bert import write_tiny_bert

QUICK = HeadSettings(dim=4, n_epochs=4, learning_rate=0.02)
N_LABELS, N_INPUTS = 4, 12


def precision(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Return P@1 in percent."""
    return float(retrieval_by_label(vectors, labels)["P@1"].mean())


def toy_features(seed: int = 0) -> Features:
    """Return features whose function is in four directions of little variance, and noise in eight others."""
    rng = np.random.default_rng(seed)
    n_rows = 400
    labels = rng.integers(N_LABELS, size=n_rows)
    rows = np.concatenate(
        [rng.normal(0, 0.5, (n_rows, 4)) + np.eye(4)[labels], rng.normal(0, 3, (n_rows, 8))], axis=1
    )
    alone = np.arange(n_rows) >= n_rows // 2
    papers = np.tile(np.arange(n_rows // 2), 2)
    return Features(rows.reshape(n_rows, 2, 6).astype(np.float16), labels, papers, alone)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_finds_what_functions_share(objective: str) -> None:
    """With every objective, unseen sentences find others of their function."""
    train_set, unseen = toy_features(), toy_features(seed=1)
    trained = train_head(train_set, replace(QUICK, objective=objective), measure=precision, on_progress=quiet)
    layers = unseen.rows.swapaxes(0, 1).astype(np.float32)
    before = precision(unseen.rows.reshape(400, -1).astype(np.float32), unseen.labels)
    assert before < 40
    assert precision(trained.head.vectors(layers), unseen.labels) > before + 10
    assert 4 == len(trained.held_out)


def test_a_seed_repeats_a_training_to_the_bit() -> None:
    """Equal arguments give an equal head, and another seed gives another."""
    heads = []
    for seed in (0, 0, 1):
        np.random.default_rng()  # other code may draw numbers
        settings = replace(QUICK, n_epochs=2, seed=seed)
        heads.append(train_head(toy_features(), settings, measure=precision, on_progress=quiet).head)
    assert np.array_equal(heads[0].weight, heads[1].weight)
    assert np.array_equal(heads[0].bias, heads[1].bias)
    assert not np.array_equal(heads[0].weight, heads[2].weight)


def test_the_epoch_that_was_best_on_papers_held_out_is_kept() -> None:
    """The epoch with the best measure on held-out papers is kept."""
    features = toy_features()
    worth = iter([1.0, 1.0, 9.0, 9.0, 2.0, 2.0])
    shown: list[int] = []

    def measure(vectors: np.ndarray, labels: np.ndarray) -> float:
        shown.append(len(labels))
        return next(worth)

    settings = replace(QUICK, n_epochs=3)
    kept = train_head(features, settings, measure=measure, on_progress=quiet)
    assert (1.0, 9.0, 2.0) == kept.held_out
    assert [20] * 6 == shown  # a tenth of 200 papers, in context and alone
    rising = iter(range(6))
    last = train_head(features, settings, measure=lambda *_: next(rising), on_progress=quiet)
    assert not np.array_equal(kept.head.weight, last.head.weight)


def test_an_epoch_without_a_measure_is_not_the_best() -> None:
    """A view without sentences is not measured, and an epoch with a NaN measure is not kept."""
    features = toy_features()
    in_context = ~features.alone
    alone_left_out = Features(*(part[in_context] for part in astuple(features)))
    settings = replace(QUICK, n_epochs=3)
    kept, second = (
        train_head(alone_left_out, settings, measure=lambda *_, w=worth: next(w), on_progress=quiet)
        for worth in (iter([1.0, 9.0, float("nan")]), iter([1.0, 9.0, 2.0]))
    )
    assert (1.0, 9.0) == kept.held_out[:2]
    assert np.array_equal(kept.head.weight, second.head.weight)


def test_without_a_measure_the_last_epoch_is_kept() -> None:
    """If no epoch has a score, training goes to its end, as it would without held-out papers."""
    settings, scores = replace(QUICK, n_epochs=3), iter([1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    kept = train_head(toy_features(), settings, measure=lambda *_: float("nan"), on_progress=quiet)
    last = train_head(toy_features(), settings, measure=lambda *_: next(scores), on_progress=quiet)
    assert (2, 2) == (kept.kept, last.kept)
    assert np.array_equal(kept.head.weight, last.head.weight)


def test_one_paper_is_too_few() -> None:
    """Examples of a single paper are refused: held out, they would leave nothing to train on."""
    with pytest.raises(InputError, match="from one paper"):
        training.held_out_rows(np.zeros(5, dtype=np.int64), np.random.default_rng(0))


def test_papers_held_out_teach_nothing() -> None:
    """Changing the sentences of held-out papers does not change the head."""
    features = toy_features()
    held_out = training.held_out_rows(features.papers, np.random.default_rng(0))
    rows, labels = features.rows.copy(), features.labels.copy()
    rows[held_out], labels[held_out] = 9, 0
    settings = replace(QUICK, n_epochs=1)
    heads = [
        train_head(given, settings, measure=precision, on_progress=quiet).head
        for given in (features, replace(features, rows=rows, labels=labels))
    ]
    assert np.array_equal(heads[0].weight, heads[1].weight)
    assert np.array_equal(heads[0].bias, heads[1].bias)


def test_a_head_gives_what_was_trained() -> None:
    """The head has the standardisation folded in, and gives the vectors that the objective saw."""
    rows = np.random.default_rng(0).normal(5, 2, (50, N_INPUTS)).astype(np.float32)
    network = training._Network(rows, QUICK).eval()
    vectors = network(torch.from_numpy(rows)).detach().numpy()
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert 10 == pytest.approx(np.sqrt(np.mean(norms**2)), rel=1e-4)  # HeadSettings.start_norm
    layers = rows.reshape(50, 2, 6).swapaxes(0, 1)
    assert vectors / norms == pytest.approx(network.head().vectors(layers), abs=1e-4)


def test_batches_hold_the_same_number_of_every_function() -> None:
    """Batches have equally many rows of every function, and use each row before repeating one."""
    labels = np.repeat(np.arange(16), [2, 40] * 8)
    rng = np.random.default_rng(0)
    batches = balanced_batches(labels, per_class=8, rng=rng)
    first = [next(batches) for _ in range(10)]
    assert {BATCH} == {len(batch) for batch in first}
    counts = np.bincount(labels[np.concatenate(first)], minlength=16)
    assert [40] * 16 == counts.tolist()
    assert [20, 20] == np.bincount(np.concatenate(first), minlength=len(labels))[:2].tolist()
    of_one = np.concatenate(first)[labels[np.concatenate(first)] == 1]
    assert 40 == len(set(of_one.tolist()))


def test_only_the_chosen_labels_are_kept() -> None:
    """Labels are renumbered, and each row keeps its paper, label and view."""
    features = toy_features()
    kept = of_labels(features, [3, 1])
    rows = np.flatnonzero(np.isin(features.labels, [1, 3]))
    assert np.array_equal(kept.rows, features.rows[rows])
    assert np.array_equal(kept.labels, np.where(features.labels[rows] == 3, 0, 1))
    assert np.array_equal(kept.papers, features.papers[rows])
    assert np.array_equal(kept.alone, features.alone[rows])
    with pytest.raises(InputError, match="1 functions to learn from"):
        of_labels(features, [2])


def test_more_dimensions_than_the_layers_have_are_refused() -> None:
    """More dimensions than inputs are refused, and the message has both numbers."""
    with pytest.raises(InputError, match="13 dimensions are more than the 12 numbers"):
        train_head(toy_features(), replace(QUICK, dim=13), measure=precision, on_progress=quiet)


def test_numbers_past_float16_are_refused_with_their_paper() -> None:
    """Hidden states too large for float16 raise an error that names the paper and sentence."""
    paper = Paper("vast", "graph", "we show it.", (Sentence("we show it.", 0, 11),))

    class Vast:
        """An encoder with hidden states that do not fit into float16."""

        def encode(self, papers: list[Paper], *, layers: tuple[int, ...]) -> list[EncodedPaper]:
            return [
                replace(own, layers=np.full((1, 1, 4), 1e6, np.float32))
                for own in HashingEncoder().encode(papers)
            ]

    with pytest.raises(InputError, match="Sentence 1 of paper 'vast' has hidden states"):
        encode_examples([Example(paper, 0, "a")], ["a"], Vast(), layers=(1,), on_progress=quiet)  # type: ignore[arg-type] # only what is asked of it


def test_examples_are_read_in_context_and_alone(tmp_path: Path) -> None:
    """Each example is encoded in its abstract, then alone; past the token limit, only alone."""
    encoder = load_encoder(str(write_tiny_bert(tmp_path / "tiny", max_position_embeddings=22)), device="cpu")
    texts = ("we show a result", "a method of a graph", " ".join(["cell"] * 12), "neural paper")
    paper = Paper("p", "graph", " ".join(texts), tuple(Sentence(text, 0, 0) for text in texts))
    examples = [Example(paper, 1, "method"), Example(paper, 3, "other")]
    features = encode_examples(examples, ["other", "method"], encoder, layers=(0, 2), on_progress=quiet)
    assert [False, True, True] == features.alone.tolist()
    assert ([1, 1, 0], [0, 0, 0]) == (features.labels.tolist(), features.papers.tolist())
    (whole,) = encoder.encode([paper], layers=(0, 2))
    assert whole.layers is not None
    assert whole.layers[:, 1] == pytest.approx(features.rows[0].astype(np.float32), abs=2e-3)
    single = replace(paper, title="", abstract=texts[1], sentences=(paper.sentences[1],))
    (alone,) = encoder.encode([single], layers=(0, 2))
    assert alone.layers is not None
    assert alone.layers[:, 0] == pytest.approx(features.rows[1].astype(np.float32), abs=2e-3)
    assert not np.allclose(features.rows[0], features.rows[1], atol=0.05)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny encoder, a corpus in its words, a phrase list and a labelled set."""
    folder = tmp_path_factory.mktemp("functions")
    write_tiny_bert(folder / "tiny")
    topics = ("graph", "neural cell", "protein", "transport")
    papers = [
        {
            "id": f"p{i}",
            "title": topics[i % 4],
            "abstract": [
                f"We show a result of {topics[i % 4]} {i}.",
                f"A method of a {topics[i // 4 % 4]} {i}.",
            ],
        }
        for i in range(40)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(paper) for paper in papers))
    (folder / "phrases.toml").write_text(
        "[show]\nphrases = ['we show (a|the)', 'paper of']\n[method]\nphrases = ['a method of', 'paper of']\n"
    )
    (folder / "ids.txt").write_text("p0\np1\nq\n")
    labelled = {"sentences": ["We show a cell.", "A method of papers."], "labels": ["result", "method"]}
    (folder / "dev.jsonl").write_text("\n".join([json.dumps(labelled)] * 3))
    return folder


def run(*arguments: str | Path) -> str:
    """Return the output of a command in one line; raise an expected error."""
    parent = typer.Typer()
    parent.add_typer(evaluate.app, name="evaluate")
    parent.command("train")(train.functions)
    result = CliRunner().invoke(parent, [str(a) for a in arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    if isinstance(result.exception, AkinError):
        raise result.exception
    assert 0 == result.exit_code, result.output
    return " ".join(result.output.split())


def trained(workplace: Path, name: str, *more: str | Path) -> str:
    """Run `akin train functions` in a workplace, and return its output."""
    places = ("--phrases", workplace / "phrases.toml", "--encoder", workplace / "tiny", "--device", "cpu")
    fixed = ("--layers", "1,2", "--dim", "8", "--per-function", "30", *places)
    return run("train", workplace / "corpus.jsonl", "--out", workplace / name, *fixed, *more)


def test_a_corpus_becomes_a_function_encoder_and_is_measured(workplace: Path) -> None:
    """Phrases become weights, which are measured next to the untrained encoder."""
    shown = trained(workplace, "a.safetensors", "--exclude", workplace / "ids.txt")
    assert "show 2 38 30" in shown
    assert "76 sentences of 38 papers; 2 papers left out." in shown
    assert "method 1 38 30" in shown
    assert "1 n-grams of several functions dropped: paper of (method, show)" in shown
    assert "by the 2 functions, on papers held out." in shown
    file = workplace / "figures.json"
    trained(workplace, "b.safetensors", "--objective", "triplet")
    weights = ("--functions", workplace / "a.safetensors", "--functions", workplace / "b.safetensors")
    places = ("--encoder", workplace / "tiny", "--device", "cpu", "--json", file)
    run("evaluate", "functions", workplace / "dev.jsonl", *places, *weights)
    folder = str((workplace / "tiny").resolve())
    figures = {r["system"]: r["value"] for r in json.loads(file.read_bytes()) if r["measure"] == "P@1"}
    kinds = ("", ":layer0", ":layer1", ":a", ":b")
    assert {f"{folder}:{view}{kind}" for view in ("context", "alone") for kind in kinds} == set(figures)
    assert 100.0 == figures[f"{folder}:context:a"]


def test_functions_with_one_sentence_held_out_are_not_measured(workplace: Path) -> None:
    """A function with one held-out sentence counts as no failure; if none has two, the report says so."""
    shown = trained(workplace, "few.safetensors", "--per-function", "4", "--epochs", "2")
    assert "Kept epoch 2 of 2: no function has two sentences on the papers held out" in shown
    vectors = np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32)
    assert 100.0 == _map_at_r(vectors, np.array([0, 0, 1]))


def test_a_training_is_repeated_to_the_byte_also_from_the_cache(workplace: Path) -> None:
    """The same command gives the same file, also from cached features."""
    cache = workplace / "cache"
    for name, more in (("1", ()), ("2", ("--cache", cache)), ("3", ("--cache", cache))):
        shown = trained(workplace, name, *more)
        assert ("in context" in shown) == (name != "3")
    assert 1 == len(list(cache.iterdir()))
    assert 1 == len({(workplace / name).read_bytes() for name in ("1", "2", "3")})
    stored = read_metadata(workplace / "1")
    assert ([1, 2], 0, "softmax", 60) == (
        stored["layers"],
        stored["seed"],
        stored["objective"],
        stored["n_examples"],
    )
    trained(workplace, "4", "--seed", "1", "--cache", cache)
    assert (workplace / "4").read_bytes() != (workplace / "1").read_bytes()


def test_several_seeds_are_trained_and_reported_together(workplace: Path) -> None:
    """Each seed gets its own weights, and their mean and spread are reported."""
    shown = trained(workplace, "s.safetensors", "--seeds", "3")
    each = [float(one) for one in re.findall(r"MAP@R (\S+) by the 2 functions", shown)]
    mean, deviation = re.findall(r"Over 3 seeds, functions learnt from: MAP@R (\S+) ± (\S+)\.", shown)[0]
    assert (3, pytest.approx(np.mean(each), abs=0.1)) == (len(each), float(mean))
    assert pytest.approx(np.std(each, ddof=1), abs=0.1) == float(deviation)
    files = [workplace / f"s-seed{seed}.safetensors" for seed in range(3)]
    trained(workplace, "one.safetensors")
    assert files[0].read_bytes() == (workplace / "one.safetensors").read_bytes()
    assert 3 == len({file.read_bytes() for file in files})
    weights = [part for file in files for part in ("--functions", file)]
    places = ("--encoder", workplace / "tiny", "--device", "cpu", "--json", workplace / "seeds.json")
    printed = run("evaluate", "functions", workplace / "dev.jsonl", *places, *weights)
    rows = json.loads((workplace / "seeds.json").read_bytes())
    name = f"{(workplace / 'tiny').resolve()}:alone:s"
    values = [
        row["value"]
        for row in rows
        if row["system"].startswith(f"{name}-seed") and (row["facet"], row["measure"]) == ("all", "P@1")
    ]
    assert 3 == len(values)
    expected = f"{name} 3 {np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
    assert expected in printed.partition("Over seeds")[2]


def test_some_functions_are_learnt_and_the_others_measured(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --n-functions, the file names the learnt functions, and the others are measured."""
    (workplace / "three.toml").write_text(
        "[graph]\nphrases = ['result of graph']\n[cell]\nphrases = ['of neural cell']\n"
        "[method]\nphrases = ['a method of a graph']\n"
    )
    lists = ("--phrases", workplace / "three.toml")
    shown = trained(workplace, "k.safetensors", "--n-functions", "2", "--seeds", "2", *lists)
    assert "by the 1 functions not learnt from." in shown
    assert "Over 2 seeds, functions not learnt from: MAP@R" in shown
    learnt = [read_metadata(workplace / f"k-seed{seed}.safetensors")["functions"] for seed in range(2)]
    assert [2, 2] == [len(names) for names in learnt]
    # Told before hours of encoding: nothing is encoded any more.
    monkeypatch.setattr("akin.cli.training.functions._features", lambda *_, **__: pytest.fail("encoded"))
    with pytest.raises(InputError, match="3 functions to learn from: expected 2 to 2 of the 3"):
        trained(workplace, "x", "--n-functions", "3", *lists)
    with pytest.raises(InputError, match="7000 dimensions are more than the"):
        trained(workplace, "x", "--dim", "7000", *lists)


def test_without_a_target_sentences_are_only_counted(workplace: Path) -> None:
    """Without --out, sentences are counted in a table and no encoder is loaded."""
    places = ("--phrases", workplace / "phrases.toml", "--encoder", workplace / "absent")
    shown = run("train", workplace / "corpus.jsonl", "--limit", "10", *places)
    assert "show 2 10 10" in shown
    assert "20 sentences of 10 papers" in shown


def test_what_cannot_be_trained_is_refused_at_once(workplace: Path) -> None:
    """Bad phrase lists, layers, objectives and weights are refused with a clear error."""
    (workplace / "poor.toml").write_text("[a]\nphrases = ['we show a']\n[b]\nphrases = ['deep sea fish']\n")
    with pytest.raises(InputError, match="Fewer than two sentences of b;"):
        trained(workplace, "x", "--phrases", workplace / "poor.toml")
    with pytest.raises(InputError, match="--layers 'last': give numbers"):
        trained(workplace, "x", "--layers", "last")
    with pytest.raises(UnknownNameError, match="Unknown objective 'hinge'; known: softmax"):
        run("train", workplace / "absent.jsonl", "--out", workplace / "x", "--objective", "hinge")
    trained(workplace, "c.safetensors")
    with pytest.raises(
        InputError, match=r"c\.safetensors reads layers of .*tiny', which is not among the measured encoders"
    ):
        run(
            "evaluate",
            "functions",
            workplace,
            "--encoder",
            "hashing",
            "--functions",
            workplace / "c.safetensors",
        )
    encoder = load_encoder(str(workplace / "tiny"), device="cpu")
    assert 8 == TrainedFunctionEncoder(workplace / "c.safetensors", encoder.spec).spec.dim


def test_a_whole_encoder_is_tuned_into_a_folder(workplace: Path) -> None:
    """With --tune-encoder, the result is a normalised checkpoint, byte-equal when repeated."""
    places = ("--phrases", workplace / "phrases.toml", "--encoder", workplace / "tiny", "--device", "cpu")
    command = ("train", workplace / "corpus.jsonl", *places, "--objective", "softmax", "--epochs", "2")
    target = workplace / "tuned"
    assert f"Use it with: --encoder {target}" in run(*command, "--tune-encoder", target)
    tuned, before = (load_encoder(str(workplace / name), device="cpu") for name in ("tuned", "tiny"))
    assert tuned.spec.fingerprint != before.spec.fingerprint
    assert tuned.spec.normalised
    run(*command, "--tune-encoder", workplace / "again")
    weights = [(workplace / name / "model.safetensors").read_bytes() for name in ("tuned", "again")]
    assert weights[0] == weights[1]
    with pytest.raises(StorageError, match="is not empty"):
        run(*command, "--tune-encoder", target)
    given = {"--seeds": 1, "--n-functions": 2, "--dim": 128, "--layers": "1,2", "--cache": workplace}
    for option, value in given.items():
        with pytest.raises(InputError, match=f"Only heads are trained with {option}; leave it out"):
            run(*command, "--tune-encoder", workplace / "x", option, value)
    with pytest.raises(InputError, match="not both"):
        run(*command, "--tune-encoder", workplace / "x", "--out", workplace / "y")


def test_a_loss_that_is_no_number_ends_tuning(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NaN loss ends the tuning, names the step and writes nothing."""

    class NoNumber(torch.nn.Module):
        """A loss that is not a number."""

        def forward(self, vectors: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
            return vectors.sum() * torch.nan

    monkeypatch.setattr("models.training.rhetoric.tuning.build_loss", lambda *_, **__: NoNumber())
    places = ("--phrases", workplace / "phrases.toml", "--encoder", workplace / "tiny", "--device", "cpu")
    with pytest.raises(InputError, match="The loss of step 1 is nan, so nothing was written"):
        run("train", workplace / "corpus.jsonl", *places, "--tune-encoder", tmp_path / "tuned")
    assert not (tmp_path / "tuned").exists()


def test_tuned_weights_do_not_decay_and_the_rate_falls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a constant gradient, a weight moves by the rate of each step alone: 1, 3/4, 1/2 and 1/4 of it."""
    from models.training.rhetoric.tuning import TuningSettings, tune_encoder

    weight = torch.nn.Parameter(torch.ones(()))

    class Slope(torch.nn.Module):
        """A loss whose gradient is 1 in its own weight, and 0 in the vectors."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, vectors: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
            return self.weight + 0 * vectors.sum()

    monkeypatch.setattr("models.training.rhetoric.tuning.build_loss", lambda *_, **__: Slope())
    folder = write_tiny_bert(tmp_path / "tiny")
    examples = [
        Example(Paper(text, "", text, (Sentence(text, 0, 0),)), 0, text) for text in ("we show", "a method")
    ]
    settings = TuningSettings(n_epochs=4, learning_rate=0.1)
    names = ["we show", "a method"]
    tune_encoder(examples, names, str(folder), tmp_path / "tuned", settings, device="cpu", on_progress=quiet)
    assert 1 - 0.1 * (1 + 0.75 + 0.5 + 0.25) == pytest.approx(weight.item(), abs=1e-6)


def test_tuning_reads_sentences_as_the_encoder_does(tmp_path: Path) -> None:
    """The vectors being tuned are those of the contextual encoder for the sentence alone."""
    from transformers import BertModel

    from models.training.rhetoric.tuning import sentence_means

    folder = write_tiny_bert(tmp_path / "tiny")
    papers = [
        Paper("p", "", text, (Sentence(text, 0, 0),))
        for text in ("we show a graph", "neural cell", "a method of papers")
    ]
    tokens = WordPieces(folder, max_tokens=500).tokenise(papers)
    model = BertModel.from_pretrained(folder).eval()
    expected = np.concatenate([e.sentences for e in load_encoder(str(folder), device="cpu").encode(papers)])
    assert expected == pytest.approx(sentence_means(model, tokens).detach().numpy(), abs=1e-5)


def test_tuning_brings_sentences_of_one_function_together(tmp_path: Path) -> None:
    """A few steps at a high learning rate bring four sentences together by function."""
    from models.training.rhetoric.tuning import TuningSettings, tune_encoder

    folder = write_tiny_bert(tmp_path / "tiny")
    texts = {
        "we show a graph": "show",
        "we show a cell": "show",
        "method of graph": "of",
        "method of cell": "of",
    }
    papers = [Paper(text, "", text, (Sentence(text, 0, 0),)) for text in texts]
    examples = [Example(paper, 0, function) for paper, function in zip(papers, texts.values(), strict=True)]
    settings = TuningSettings(objective="triplet", n_epochs=20, learning_rate=1e-3)
    gaps = []
    tune_encoder(
        examples, ["show", "of"], str(folder), tmp_path / "tuned", settings, device="cpu", on_progress=quiet
    )
    for name in ("tiny", "tuned"):
        encoded = load_encoder(str(tmp_path / name), device="cpu").encode(papers)
        rows = np.concatenate([paper.sentences for paper in encoded])
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosine = unit @ unit.T
        gaps.append(cosine[0, 1] + cosine[2, 3] - cosine[0, 2] - cosine[1, 3])
    assert gaps[1] > gaps[0] + 0.2


def test_each_hidden_layer_is_a_system_of_its_own(tmp_path: Path) -> None:
    """Every hidden layer is a system under its number, in context and alone."""
    encoder = load_encoder(str(write_tiny_bert(tmp_path / "tiny")), device="cpu")
    texts = ("we show a graph", "a neural cell")
    paper = Paper("p", "", " ".join(texts), tuple(Sentence(text, 0, 0) for text in texts))
    systems = sentence_vectors([paper], VectorSource(encoder, on_progress=quiet))
    name = encoder.spec.name
    assert {f"{name}:{view}{of}" for view in ("context", "alone") for of in ("", ":layer0", ":layer1")} == {
        *systems
    }
    (whole,) = encoder.encode([paper], layers=(0, 1))
    assert whole.layers is not None
    for layer in (0, 1):
        assert whole.layers[layer] == pytest.approx(systems[f"{name}:context:layer{layer}"][0], abs=1e-5)
        assert not np.allclose(whole.layers[layer], systems[f"{name}:alone:layer{layer}"][0], atol=0.01)
