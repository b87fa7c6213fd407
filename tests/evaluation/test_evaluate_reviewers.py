"""Tests of ``akin evaluate reviewers``: the gold standard's layout, its loss, and the output."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from evaluation.tasks.reviewers import EASY, HARD, LOSS, ReviewerMeasurement, Reviewers, measure_reviewers
from evaluation.tasks.task import Task, TaskOptions
from models.errors import BrokenRowError, CollectionMissingError, CorpusFormatError, InputError
from tests.support.annotators import hashing_annotator
from tests.support.commands import flat, run
from tests.support.examples.evaluation.set_examples import lines, write
from tests.support.examples.evaluation.system_examples import ignore

TOPICS = ("moss on walls", "bells in towers", "rain over lakes")
# The ratings of papers on the three topics by two researchers.
RATED = {"a": {"moss1": 5, "moss2": 4, "bells1": 1, "rain1": 2}, "b": {"bells1": 5, "rain1": 3, "moss1": 1}}


def _paper(paper_id: str, topic: int, number: int) -> dict[str, object]:
    abstract = f"We study {TOPICS[topic]}. Paper {number} measures {TOPICS[topic]} again."
    return {"id": paper_id, "content": {"title": f"On {TOPICS[topic]}, part {number}", "abstract": abstract}}


def _row(name: str, rated: Mapping[str, float]) -> str:
    pairs = [str(cell) for pair in rated.items() for cell in pair]
    return "\t".join([f"~{name}", *pairs])


def _evaluations(rows: Sequence[str], n_rated: int = 4) -> str:
    columns = [f"{kind}{number}" for number in range(1, n_rated + 1) for kind in ("Paper", "Expertise")]
    return "\n".join(["\t".join(["ParticipantID", *columns]), *rows, ""])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return two researchers, of moss and of bells, in two datasets with different profiles."""
    write(tmp_path, "data/evaluations.csv", _evaluations([_row(*each) for each in RATED.items()]))
    submissions = {
        each: _paper(each, topic, 1)
        for each, topic in {"moss1": 0, "moss2": 0, "bells1": 1, "rain1": 2}.items()
    }
    for draw in (1, 2):
        dataset = f"evaluation_datasets/d_20_{draw}"
        write(tmp_path, f"{dataset}/submissions.json", json.dumps(submissions))
        for name, topic in (("a", 0), ("b", 1)):
            own = [_paper(f"{name}{draw}{number}", topic, number) for number in (2, 3)]
            write(tmp_path, f"{dataset}/archives/~{name}.jsonl", lines(*own))
    return tmp_path


def _predict(folder: Path, name: str, predictions: Mapping[str, Mapping[str, float]]) -> None:
    for draw in (1, 2):
        text = json.dumps({f"~{reviewer}": rated for reviewer, rated in predictions.items()})
        write(folder, f"predictions/{name}_d_20_{draw}_ta.json", text)


def _measure(folder: Path) -> ReviewerMeasurement:
    return measure_reviewers(folder, hashing_annotator(), on_progress=ignore)


def _figures(measured: ReviewerMeasurement, system: str) -> dict[str, float]:
    return {row.measure: row.value for row in measured.rows if row.system == system}


def test_reviewers_are_a_task_of_the_suite(folder: Path) -> None:
    """The task's figures are those of the command, with researchers as queries and the number of papers."""
    _predict(folder, "perfect", {"a": {"moss1": 5, "moss2": 4, "bells1": 1, "rain1": 0}, "b": {"bells1": 1}})
    measured = _measure(folder)
    found = Reviewers().measure(folder, TaskOptions("hashing", None, "cpu", None, ignore))
    assert (measured.rows, measured.compared) == (found.rows, found.compared)
    assert (12, 2, ("7 ratings.", *measured.notes)) == (found.n_papers, found.n_queries, found.notes)
    assert isinstance(Reviewers(), Task)


def test_the_figures_are_those_computed_by_hand(folder: Path) -> None:
    """The loss is that of wrong pairs, by their ratings' difference, half for ties, over the largest loss."""
    swapped = {
        # For a: moss2 above moss1 (1 lost), bells1 and rain1 tie (half of 1), all others are right.
        "a": {"moss1": 3, "moss2": 4, "bells1": 1, "rain1": 1},
        # For b: rain1 has no prediction, so its pairs tie (half of 2 and of 2), moss1 above bells1 (4 of 8).
        "b": {"bells1": 1, "moss1": 2},
    }
    _predict(folder, "swapped", swapped)
    _predict(folder, "perfect", RATED)
    measured = _measure(folder)
    assert (2, 7) == (measured.n_reviewers, measured.n_ratings)
    assert {LOSS: 0.0, EASY: 100.0, HARD: 100.0} == _figures(measured, "perfect")
    found = _figures(measured, "swapped")
    assert pytest.approx(100 * (1 + 0.5 + 1 + 1 + 4) / (1 + 4 + 3 + 3 + 2 + 1 + 2 + 4 + 2)) == found[LOSS]
    # Easy pairs are four of a, which are right, and bells1 with moss1 of b; hard is moss1 with moss2.
    assert (pytest.approx(100 * 4 / 5), 0.0) == (found[EASY], found[HARD])


def test_affinities_order_papers_by_the_topic_of_profiles(folder: Path) -> None:
    """Papers on a researcher's topic have higher affinities than the others."""
    found = _figures(_measure(folder), "akin")
    assert (100.0, True) == (found[EASY], found[LOSS] < 25)


def test_differences_are_those_of_the_losses(folder: Path) -> None:
    """A difference is Akin's loss minus the other system's, with an interval."""
    _predict(folder, "perfect", RATED)
    measured = _measure(folder)
    ((name, found),) = measured.differences
    assert ("perfect", LOSS) == (name, found.measure)
    assert _figures(measured, "akin")[LOSS] == pytest.approx(found.difference.value)
    assert found.difference.low <= found.difference.value <= found.difference.high


def test_predictions_that_lack_a_dataset_do_not_count(folder: Path) -> None:
    """Predictions that lack a dataset or are of another regime are ignored."""
    _predict(folder, "partial", RATED)
    (folder / "predictions/partial_d_20_2_ta.json").unlink()
    write(folder, "predictions/titles_d_20_1_t.json", "{}")
    assert {"akin"} == {row.system for row in _measure(folder).rows}


def test_predictions_by_the_name_of_akin_do_not_take_its_place(folder: Path) -> None:
    """Predictions in a file named akin do not replace Akin's figures."""
    before = _figures(_measure(folder), "akin")
    _predict(folder, "akin", {"a": {"moss1": 0, "moss2": 0, "bells1": 9, "rain1": 9}})
    assert before == _figures(_measure(folder), "akin")


def test_a_cell_that_is_too_long_is_refused(folder: Path) -> None:
    """A cell that is too long is refused with its file and line."""
    rows = [_row("a", RATED["a"]), "~b\t" + "m" * 200_000 + "\t1"]
    write(folder, "data/evaluations.csv", _evaluations(rows))
    with pytest.raises(BrokenRowError, match=r"evaluations.csv:3: no CSV \(field larger"):
        _measure(folder)


def test_predictions_of_another_shape_are_refused(folder: Path) -> None:
    """Predictions in another format are refused with the name of the file."""
    write(folder, "predictions/odd_d_20_1_ta.json", '{"~a": [1, 2]}')
    write(folder, "predictions/odd_d_20_2_ta.json", '{"~a": {"moss1": 1}}')
    with pytest.raises(CorpusFormatError, match=r"odd_d_20_1_ta.json holds no predictions"):
        _measure(folder)


def test_ratings_without_profile_or_paper_are_reported(folder: Path) -> None:
    """Ratings without a profile or a paper are ignored, and a note counts them."""
    rows = [_row(*each) for each in {**RATED, "c": {"moss1": 5}, "d": {"gone": 1}}.items()]
    write(folder, "data/evaluations.csv", _evaluations(rows))
    measured = _measure(folder)
    assert (2, 7) == (measured.n_reviewers, measured.n_ratings)
    assert (
        "2 ratings are of papers or researchers that are not in a dataset; they do not count.",
    ) == measured.notes


@pytest.mark.parametrize("expertise", ["6", "", "good", "nan"])
def test_a_rating_out_of_range(folder: Path, expertise: str) -> None:
    """A rating out of range is refused with its line and the reason."""
    rows = [_row("a", RATED["a"]), f"~b\tmoss1\t{expertise}"]
    write(folder, "data/evaluations.csv", _evaluations(rows))
    with pytest.raises(BrokenRowError, match=r"Expertise1 is .*; expected a number from 1 to 5") as refused:
        _measure(folder)
    assert 3 == refused.value.line


def test_all_rows_of_a_researcher_count(folder: Path) -> None:
    """All rows of a researcher count, even if not adjacent, and equal ratings of a paper count once."""
    rows = [
        _row("a", {"moss1": 5, "moss2": 4}),
        _row("b", RATED["b"]),
        _row("a", {"moss2": 4, "bells1": 1, "rain1": 2}),
    ]
    whole = _measure(folder)
    write(folder, "data/evaluations.csv", _evaluations(rows))
    assert whole == _measure(folder)


def test_two_ratings_of_a_paper_that_differ_are_refused(folder: Path) -> None:
    """Two different ratings of a paper by a researcher are refused with the second's file and line."""
    rows = [_row("a", RATED["a"]), _row("b", RATED["b"]), _row("a", {"bells1": 1, "moss1": 3})]
    write(folder, "data/evaluations.csv", _evaluations(rows))
    with pytest.raises(BrokenRowError, match=r"~a rates 'moss1' 3, and 5 before") as refused:
        _measure(folder)
    assert (str(folder / "data/evaluations.csv"), 4) == (refused.value.path, refused.value.line)


@pytest.mark.parametrize(
    ("rated", "message"),
    [
        ({"x": {"moss1": 5, "moss2": 1}}, r"Of 1 researchers 1 have no profile .* \('x'\); of 2 papers 0"),
        (
            {"a": {"y1": 5, "moss2": 1, "y2": 2}},
            r"1 researchers 0 have .* 3 papers 2 are not .* \('y1', 'y2'\)",
        ),
        ({"a": {"moss1": 5, "moss2": 5}}, r"a researcher has to rate two papers differently"),
        ({}, r"Of 0 researchers 0 have"),
    ],
)
def test_ratings_of_which_none_counts(
    folder: Path, rated: Mapping[str, Mapping[str, float]], message: str
) -> None:
    """If no rating can be used, the error names ids without a match and the files to match."""
    write(folder, "data/evaluations.csv", _evaluations([_row(*each) for each in rated.items()]))
    with pytest.raises(InputError, match=message) as refused:
        _measure(folder)
    assert "the name of a file in archives" in str(refused.value)


def test_missing_files_and_columns_say_what_was_expected(folder: Path) -> None:
    """A missing column is named, and the error for a missing file says where the data comes from."""
    write(folder, "data/evaluations.csv", "ParticipantID,Paper1\n")
    with pytest.raises(CorpusFormatError, match="has no column"):
        _measure(folder)
    (folder / "data/evaluations.csv").unlink()
    with pytest.raises(CollectionMissingError, match="goldstandard-reviewer-paper-match"):
        _measure(folder)


def test_the_command_prints_and_writes_the_figures(folder: Path, tmp_path: Path) -> None:
    """The command prints and writes the figures, and a second run with stored papers gives the same."""
    _predict(folder, "perfect", RATED)
    figures = tmp_path / "figures.json"
    options = ("--encoder", "hashing", "--data", tmp_path / "kept", "--json", figures)
    first = run("evaluate", "reviewers", folder, *options)
    assert "reviewers (7 ratings of 2 researchers), percent" in flat(first)
    assert "akin − perfect: loss" in flat(first)
    written = json.loads(figures.read_bytes())
    assert {"akin", "perfect"} == {row["system"] for row in written}
    assert "100.0" in run("evaluate", "reviewers", folder, *options)
    assert written == json.loads(figures.read_bytes())
    assert "evaluation_datasets" in flat(run("evaluate", "reviewers", tmp_path / "none", status=1))
