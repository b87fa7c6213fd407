"""Tests of ``akin evaluate facets``: F1 of taggers and baselines, intervals, and the output."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from evaluation.baselines.facets import BASELINES, LabelledPapers, predict
from evaluation.sets.functions import FunctionsSet
from evaluation.statistics.bootstrap import bounds, intervals
from evaluation.tasks.facets import (
    F1,
    MEASURES,
    FacetMeasurement,
    confusions,
    f1_figures,
    measure_facets,
    summarise_confusions,
)
from models.encoder import Encoder, load_encoder
from models.errors import CollectionMissingError, InputError
from models.facets import FACETS
from models.types import EncoderSpec, Facet, Paper
from tests.support.annotators import KeywordTagger
from tests.support.commands import flat, run
from tests.support.examples.evaluation.set_examples import lines, write
from tests.support.examples.evaluation.system_examples import ignore
from tests.support.examples.models.tiny_bert import write_tiny_bert

OPENINGS = {
    Facet.BACKGROUND: "It is known that {0} matters.",
    Facet.OBJECTIVE: "Our aim is to study {0}.",
    Facet.METHOD: "We propose a model of {0}.",
    Facet.RESULT: "Results show {0} gains 3 %.",
    Facet.OTHER: "The code of {0} is public.",
}


def abstracts(n: int, *, first: int = 0, shuffled: bool = False) -> str:
    """Return invented abstracts in CSAbstruct's format, with every facet once, in order unless shuffled."""
    records = []
    for number in range(first, first + n):
        facets = list(Facet)
        if shuffled:
            np.random.default_rng(number).shuffle(facets)
        sentences = [OPENINGS[facet].format(f"topic{number}") for facet in facets]
        records.append({"abstract_id": 0, "sentences": sentences, "labels": [str(facet) for facet in facets]})
    return lines(*records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a train and a dev side."""
    write(tmp_path, "train.jsonl", abstracts(30))
    write(tmp_path, "dev.jsonl", abstracts(10, first=30))
    return tmp_path


def keywords_for(spec: EncoderSpec) -> KeywordTagger:
    """Return the keyword tagger, for any encoder."""
    return KeywordTagger()


def measured(path: Path, encoder: Encoder) -> FacetMeasurement:
    """Return the measurement of the keyword tagger."""
    return measure_facets(path, encoder, open_tagger=keywords_for, on_progress=ignore)


def random_codes(n: int, n_facets: int, seed: int) -> np.ndarray:
    """Return random facets, as codes."""
    return np.random.default_rng(seed).integers(n_facets, size=n)


@pytest.mark.parametrize("n_facets", [5, 3])
def test_f1_is_that_of_scikit_learn(n_facets: int) -> None:
    """Micro-, macro- and facet F1 equal scikit-learn's, and are nan for facets that do not occur."""
    true, predicted = random_codes(200, n_facets, 0), random_codes(200, n_facets, 1)
    found = f1_figures(confusions(true, predicted, [200]))[0]
    each = f1_score(true, predicted, average=None)
    expected = [f1_score(true, predicted, average=average) for average in ("micro", "macro")]
    assert pytest.approx([100 * value for value in (*expected, *each)]) == found[: 2 + n_facets]
    assert np.isnan(found[2 + n_facets :]).all()


def test_intervals_resample_abstracts_not_sentences() -> None:
    """Ten equal sentences per abstract give the interval of one sentence per abstract."""
    true, predicted = random_codes(40, 5, 0), random_codes(40, 5, 1)
    alone, _ = summarise_confusions({"tagger": confusions(true, predicted, [1] * 40)})
    tenfold, _ = summarise_confusions(
        {"tagger": confusions(np.repeat(true, 10), np.repeat(predicted, 10), [10] * 40)}
    )
    assert [(row.low, row.high) for row in alone] == [(row.low, row.high) for row in tenfold]
    assert (40, 400) == (alone[0].n, tenfold[0].n)


def test_micro_f1_has_the_interval_of_a_mean() -> None:
    """The interval of micro-F1, the share of right sentences, is that of a mean clustered by abstract."""
    lengths = [3, 5, 7, 2, 9, 4, 6, 8]
    true, predicted = random_codes(44, 5, 0), random_codes(44, 5, 1)
    rows, _ = summarise_confusions({"tagger": confusions(true, predicted, lengths)})
    paper = np.repeat(np.arange(8), lengths)
    right = {str(i): 100.0 * (true[i] == predicted[i]) for i in range(44)}
    of_mean = intervals({"right": right}, {str(i): str(paper[i]) for i in range(44)})["right"]
    assert pytest.approx((of_mean.value, of_mean.low, of_mean.high)) == (
        rows[0].value,
        rows[0].low,
        rows[0].high,
    )


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """About 95 % of 200 intervals contain the known macro-F1."""
    generator = np.random.default_rng(0)
    truth = generator.dirichlet(np.ones(25)).reshape(5, 5)
    expected = f1_figures(truth[None])[0, 1]
    held = 0
    for _ in range(200):
        tables = generator.multinomial(5, truth.ravel(), size=60).astype(np.float64)
        low, high, _ = bounds(tables, lambda drawn: f1_figures(drawn.reshape(-1, 5, 5)), n_resamples=400)
        held += low[1] <= expected <= high[1]
    assert 0.89 <= held / 200 <= 0.99


def test_differences_are_paired() -> None:
    """Differences are the first system minus each other one, and exactly 0 for equal systems."""
    true, predicted, other = (random_codes(60, 5, seed) for seed in range(3))
    tables = {"a": predicted, "same": predicted, "b": other}
    rows, differences = summarise_confusions(
        {system: confusions(true, codes, [6] * 10) for system, codes in tables.items()}
    )
    values = {(row.system, row.measure): row.value for row in rows if row.facet == "all"}
    found = {(system, each.measure): each.difference for system, each in differences}
    assert {(system, measure) for system in ("same", "b") for measure in MEASURES} == found.keys()
    for measure in MEASURES:
        same = found["same", measure]
        assert (0.0, 0.0, 0.0) == (same.value, same.low, same.high)
        assert pytest.approx(values["a", measure] - values["b", measure]) == found["b", measure].value
        assert found["b", measure].low < found["b", measure].value < found["b", measure].high


def test_one_abstract_has_no_interval() -> None:
    """With one abstract the bounds are nan."""
    rows, _ = summarise_confusions({"tagger": confusions(random_codes(9, 5, 0), random_codes(9, 5, 1), [9])})
    assert np.isnan([bound for row in rows for bound in (row.low, row.high)]).all()


def labelled(folder: Path, name: str, n: int, *, shuffled: bool, first: int = 0) -> LabelledPapers:
    """Return invented abstracts whose vectors only show whether a sentence is a method."""
    write(folder, name, abstracts(n, first=first, shuffled=shuffled))
    papers: Sequence[Paper] = list(FunctionsSet().load(folder / name).papers.values())
    vectors = [
        np.array([[1.0, s.facet is Facet.METHOD] for s in paper.sentences], dtype=np.float32)
        for paper in papers
    ]
    return LabelledPapers(papers, vectors)


@pytest.mark.parametrize(
    ("name", "shuffled", "expected"),
    [
        ("position", False, 1.0),  # every facet has its position
        ("n-grams", True, 1.0),  # and its words
        ("last-layer", True, 0.2),  # vectors show only methods
        ("position", True, 0.0),  # no information
    ],
)
def test_baselines_learn_what_they_may_see(
    tmp_path: Path, name: str, shuffled: bool, expected: float
) -> None:
    """Each baseline learns what its features show, whatever the order of the abstract, and no more."""
    train = labelled(tmp_path, "train.jsonl", 60, shuffled=shuffled)
    tested = labelled(tmp_path, "dev.jsonl", 20, shuffled=shuffled, first=1_000)
    right = predict(BASELINES[name], train, tested) == tested.codes
    if expected == 1.0:
        assert right.all()
    else:
        methods = tested.codes == FACETS.index(Facet.METHOD)
        assert bool(expected) == right[methods].all()
        assert right.mean() < 0.7


def test_neighbours_count_within_an_abstract_only(tmp_path: Path) -> None:
    """Features contain the vectors before and after, and zeros at the ends and past the token limit."""
    tested = labelled(tmp_path, "dev.jsonl", 2, shuffled=False)
    tested = tested._replace(vectors=[own[:4] for own in tested.vectors])
    train = tested._replace(vectors=[own * 3 for own in tested.vectors])
    described, _ = BASELINES["last-layer"].describe(train, train)
    own, before, after = (described.toarray()[:, start : start + 2] for start in (0, 2, 4))
    np.testing.assert_allclose(before[1:5], own[:4])
    np.testing.assert_allclose(after[:4], own[1:5])
    ends = [0, 5], [4, 9]
    assert 0 == np.abs(before[ends[0]]).max() == np.abs(after[ends[1]]).max()


def test_baselines_stand_beside_the_tagger(folder: Path, hashing: Encoder) -> None:
    """With a train side every baseline is measured, and their differences to the tagger are given."""
    found = measured(folder, hashing)
    figures = {(row.system, row.facet, row.measure): row.value for row in found.rows}
    assert {"keywords", *BASELINES} == {system for system, _, _ in figures}
    assert {("all", measure) for measure in MEASURES} | {(facet.value, F1) for facet in Facet} == {
        (facet, measure) for system, facet, measure in figures if system == "keywords"
    }
    assert (100.0, 100.0) == (figures["keywords", "all", "micro-F1"], figures["position", "all", "micro-F1"])
    assert ("position", (10 * np.eye(5)).tolist()) == (found.best_baseline, found.confusion.tolist())
    assert list(BASELINES) == list(dict.fromkeys(system for system, _ in found.differences))
    assert 10 == found.n_papers


def test_weights_stand_beside_the_tagger_that_they_would_replace(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given weights are compared with the encoder's own tagger and the one that reads text alone, by name."""
    write_tiny_bert(tmp_path / "tiny")
    encoder = load_encoder(str(tmp_path / "tiny"), device="cpu")
    given = KeywordTagger("mine", encoder=encoder.spec.fingerprint, layers=(1,))
    usual = KeywordTagger("usual", encoder=encoder.spec.fingerprint, layers=(1, 2))
    text_alone = KeywordTagger("text-alone")
    monkeypatch.setattr("evaluation.tasks.facets.read_tagger", lambda _: given)

    def measured_with(own: KeywordTagger) -> FacetMeasurement:
        return measure_facets(
            folder / "dev.jsonl",
            encoder,
            tagger=tmp_path / "mine.safetensors",
            open_tagger=lambda spec: own if spec == encoder.spec else text_alone,
            on_progress=ignore,
        )

    found = measured_with(usual)
    others = ["text-alone", "usual"]
    assert ("mine", others) == (
        found.tagger,
        [system for system in dict.fromkeys(name for name, _ in found.differences) if system in others],
    )
    assert 4 == usual.seen[0].shape[0]  # its own layers, and their openings
    with pytest.raises(InputError, match="has the name of another system"):
        measured_with(KeywordTagger("mine", encoder=encoder.spec.fingerprint, layers=(2,)))


def test_labels_are_not_shown_to_the_tagger(tmp_path: Path, hashing: Encoder) -> None:
    """The facets of the collection are not shown to the tagger."""
    record = {"abstract_id": 0, "sentences": ["We propose.", "We aim."], "labels": ["result", "result"]}
    write(tmp_path, "dev.jsonl", lines(record, record))
    found = measured(tmp_path, hashing)
    assert 0.0 == next(row.value for row in found.rows if row.measure == "micro-F1")


def test_without_a_train_side_there_is_no_baseline(folder: Path, hashing: Encoder) -> None:
    """Without a train side, or on it, there are no baselines, and a note says so."""
    on_train = measured(folder / "train.jsonl", hashing)
    assert any("learned from these abstracts" in note for note in on_train.notes)
    (folder / "train.jsonl").unlink()
    alone = measured(folder, hashing)
    assert any("No baselines" in note for note in alone.notes)
    for found in (on_train, alone):
        assert {"keywords"} == {row.system for row in found.rows}
        assert (None, ()) == (found.best_baseline, found.differences)


def test_the_test_side_comes_first(folder: Path, hashing: Encoder) -> None:
    """If the folder has a test.jsonl, it is measured instead of dev.jsonl."""
    write(folder, "test.jsonl", abstracts(4, first=90))
    assert 4 == measured(folder, hashing).n_papers


def test_labels_that_are_no_facets_are_refused(tmp_path: Path, hashing: Encoder) -> None:
    """Labels that are no facets are refused with the command that measures by them."""
    file = tmp_path / "sentences.tsv"
    file.write_text("Aim of the paper\tthe aim\tThe aim is x.\tP1_s-1-0\n")
    with pytest.raises(InputError, match="are not facets; measure with `akin evaluate functions`"):
        measured(file, hashing)


def test_a_missing_collection_is_reported(tmp_path: Path, hashing: Encoder) -> None:
    """The error for an empty folder names the expected files."""
    with pytest.raises(CollectionMissingError, match=r"test\.jsonl or dev\.jsonl"):
        measured(tmp_path, hashing)


def test_the_command_prints_and_writes(folder: Path, tmp_path: Path) -> None:
    """`akin evaluate facets` prints figures, confusion and the lead over baselines, in 80 columns too."""
    file = tmp_path / "new" / "figures.json"
    shown = run("evaluate", "facets", folder, "--encoder", "hashing", "--json", file, width=80)
    assert "…" not in shown
    for word in ("facets (50 sentences of 10 abstracts)", "micro-F1", "macro-F1", "n-grams", "labelled"):
        assert word in flat(shown)
    assert ", the best baseline: micro-F1" in flat(shown)
    keys = ["set", "system", "facet", "fold", "measure", "value", "low", "high", "n"]
    rows = json.loads(file.read_bytes())
    assert [keys] * len(rows) == [list(row) for row in rows]
    assert {"facets-surface", *BASELINES} == {row["system"] for row in rows}
    assert {"facets"} == {row["set"] for row in rows}
