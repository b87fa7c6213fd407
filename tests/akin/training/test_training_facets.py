"""Tests of `akin train facets` with a corpus whose abstracts have labelled sections."""

import json
import re
from pathlib import Path

import pytest

from akin.cli.training.facets import read_all_labelled, read_labelled
from models.errors import InputError
from models.facets import read_metadata
from models.types import Facet
from tests.support.commands import flat, run

SECTIONS = (
    "BACKGROUND: {0} is feared. METHODS: We gave {0} to mice. RESULTS: Mice with {0} died. All of them did."
)

# Abstracts that differ only in a number count as the same.
TOXINS = [f"toxin {tens}{ones}" for tens in "abcd" for ones in "abcdefghij"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a corpus of 40 papers with section labels, one with facets, and two with neither."""
    texts = [SECTIONS.format(toxin) for toxin in TOXINS]
    rows: list[dict[str, object]] = [
        {"id": f"p{number}", "title": f"Toxin {number}", "abstract": text}
        for number, text in enumerate(texts)
    ]
    rows.append(
        {
            "id": "own",
            "title": "T",
            "abstract": ["Toxins kill.", "So do we."],
            "facets": ["background", "other"],
        }
    )
    rows += [
        {"id": f"plain{number}", "title": "P", "abstract": "Toxins kill. All know."} for number in (1, 2)
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_papers_are_learnt_from_or_measured_on(corpus: Path) -> None:
    """Training and held-out papers are disjoint; labels stay only in a part of the training texts."""
    read = read_labelled(corpus, held_out=0.3)
    learnt, held_out = ({paper.id for paper in papers} for papers in (read.learnt, read.held_out))
    assert {"own", *(f"p{number}" for number in range(40))} == learnt | held_out
    assert not learnt & held_out
    assert 4 < len(held_out) < 22
    assert not [paper for paper in read.held_out if "METHODS" in paper.abstract]
    assert 0 < len([paper for paper in read.learnt if "METHODS" in paper.abstract]) < len(learnt) // 2
    (some, *_) = [paper for paper in read.held_out if paper.id != "own"]
    expected = [Facet.BACKGROUND, Facet.METHOD, Facet.RESULT, Facet.RESULT]
    assert expected == [sentence.facet for sentence in some.sentences]
    assert (41, 0) == (len(read_labelled(corpus).learnt), len(read_labelled(corpus).held_out))


def test_what_is_held_out_of_one_source_is_learnt_from_none(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An abstract that two sources hold under two ids is learnt only if neither id is held out."""
    other = tmp_path / "train.txt"
    rows = [SECTIONS.format(toxin).replace(" All", " RESULTS: All") for toxin in TOXINS]
    labelled = [re.sub(r" ?\b([A-Z]{5,}): ", r"\n\1\t", row) for row in rows]
    other.write_text(
        "".join(f"###{number}{row}\n\n" for number, row in enumerate(labelled)), encoding="utf-8"
    )
    read = read_all_labelled([corpus, other], held_out=0.3)
    learnt, held_out = (
        {
            paper.abstract.split(" is feared")[0].rpartition("toxin ")[2]
            for paper in papers
            if paper.id != "own"
        }
        for papers in (read.learnt, read.held_out)
    )
    assert {toxin.removeprefix("toxin ") for toxin in TOXINS} == learnt | held_out
    assert not learnt & held_out
    assert len({paper.id for paper in read.learnt if paper.id.startswith("p")}) == len(learnt)
    assert f"{other}: skipped" in (shown := flat(capsys.readouterr().err))
    assert "abstracts that are also held out." in shown
    assert read.n_first == sum(not paper.id.isdigit() for paper in read.learnt)


def test_what_is_skipped_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Abstracts without labels or sentences and rows that cannot be read are counted, with a reason."""
    labelled = {"abstract": SECTIONS.format("lead"), "title": "T"}
    plain = {"id": "b", "title": "T", "abstract": "Toxins kill. All know."}
    rows = [{"id": "a", **labelled}, {"id": "a", **labelled}, plain, {**plain, "id": "c", "abstract": ""}]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert ["a"] == [paper.id for paper in read_labelled(path).learnt]
    shown = flat(capsys.readouterr().err)
    assert f"{path}: skipped 1 abstract without labels on all sentences." in shown
    assert f"{path}: skipped 2 abstracts that cannot be used, the first at {path}:2: duplicate id" in shown
    blank = {"sentences": [], "labels": []}
    found = {"sentences": ["We count."], "labels": ["method"]}
    path.write_text("".join(json.dumps(row) + "\n" for row in [blank, found]), encoding="utf-8")
    assert 1 == len(read_labelled(path).learnt)
    assert f"{path}: skipped 1 abstract without a sentence." in flat(capsys.readouterr().err)


def test_pubmed_rct_is_learnt_from(tmp_path: Path) -> None:
    """A file of PubMed RCT is read by its path or by its folder, which stands for its train side."""
    (tmp_path / "train.txt").write_text("###1\nMETHODS\tWe count .\nCONCLUSIONS\tIt works .\n")
    for path in (tmp_path, tmp_path / "train.txt"):
        (paper,) = read_labelled(path).learnt
        assert [Facet.METHOD, Facet.RESULT] == [sentence.facet for sentence in paper.sentences]


def test_the_command_trains_and_measures(corpus: Path, tmp_path: Path) -> None:
    """The output compares the new tagger with the shipped one on the held-out papers."""
    out = tmp_path / "facets-mine.safetensors"
    command = ("train", "facets", corpus, "--text-alone", "--held-out", "0.3", "--out", out)
    shown = flat(run(*command))
    n_held_out = len(read_labelled(corpus, held_out=0.3).held_out)
    assert f"of {n_held_out} abstracts" in shown
    assert f"Learnt from {41 - n_held_out} abstracts" in shown
    assert "Note: The shipped taggers learned from CSAbstruct and SciFact:" in shown
    assert 41 - n_held_out < read_metadata(out)["n_papers"] < 2 * 41  # some are repeated, begun later
    run(*command, "--as-they-begin")
    assert 41 - n_held_out == read_metadata(out)["n_papers"]
    micro = {
        name: float(re.findall(rf"{name} (\d+\.\d)", shown)[0]) for name in ("facets-mine", "facets-surface")
    }
    assert micro["facets-mine"] > micro["facets-surface"]
    again = ("train", "facets", corpus, "--text-alone", "--out", tmp_path / "facets-surface.safetensors")
    assert "choose another name for the file" in flat(run(*again, "--held-out", "0.3", status=1))


def test_nothing_is_trained_on_no_abstract_or_with_an_idle_encoder(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all abstracts are held out, or an encoder is named that no layer is read of, the command says so."""
    monkeypatch.setattr("akin.cli.training.facets.hash64", lambda _: 0)
    with pytest.raises(InputError, match=r"holds out all 41 abstracts of .*corpus\.jsonl"):
        read_labelled(corpus, held_out=0.3)
    command = ("train", "facets", corpus, "--text-alone", "--out", tmp_path / "facets-mine.safetensors")
    assert "leave out --encoder" in flat(run(*command, "--encoder", "nothere", status=1))


def test_a_corpus_without_labels_says_what_is_needed(tmp_path: Path) -> None:
    """A corpus with no labels, or with too few papers to hold some out, is refused."""
    path = tmp_path / "plain.jsonl"
    path.write_text('{"id": "a", "title": "A", "abstract": "Toxins kill. All know."}\n', encoding="utf-8")
    with pytest.raises(InputError, match="section labels in their text"):
        read_labelled(path)
    few = json.dumps({"id": "a", "title": "A", "abstract": SECTIONS.format("lead")})
    path.write_text(f"{few}\n", encoding="utf-8")
    with pytest.raises(InputError, match="20 at least"):
        read_labelled(path, held_out=0.2)
