"""Tests of ``akin match``: its files, what it keeps for the next match, and its report."""

import csv
import json
import os
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow.parquet as pq
import pytest

from akin.cli.search import match
from indexer.files.durable import folder_lock
from indexer.snapshot.opening import open_snapshot
from models.encoder import load_encoder
from service.match.affinity import Affinities
from service.match.paper_distances import PaperDistances
from tests.support.annotators import annotated
from tests.support.builds import DEMO_CORPUS
from tests.support.commands import flat, run
from tests.support.sentence_engines import Whole

N_SUBMISSIONS, N_REVIEWERS = 4, 5
OPTIONS = ("--encoder", "hashing", "--reviewers", "2", "--quota", "2")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return submissions on problems of the demo corpus, with a reviewer for each problem and one more."""
    folder = tmp_path_factory.mktemp("match")
    by_problem: dict[str, list[dict[str, object]]] = {}
    for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines():
        paper = json.loads(line)
        by_problem.setdefault(paper["id"][5:8], []).append(paper)
    problems = sorted(by_problem)[:N_REVIEWERS]
    submissions = [
        by_problem[each][0] | {"title": f"=Submission <{each}>"} for each in problems[:N_SUBMISSIONS]
    ]
    (folder / "submissions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in submissions))
    (folder / "profiles").mkdir()
    for each in problems:
        own = "".join(json.dumps(paper) + "\n" for paper in by_problem[each][1:7])
        (folder / "profiles" / f"{each}@example.jsonl").write_text(own)
    (folder / "conflicts.csv").write_text(f"demo:p00-m00,{problems[0]}@example\n")
    return folder


def _match(files: Path, out: Path, *options: str) -> str:
    return run("match", files / "submissions.jsonl", files / "profiles", "--out", out, *OPTIONS, *options)


@pytest.fixture(scope="module")
def matched(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that a match with conflicts wrote."""
    out = tmp_path_factory.mktemp("out") / "matched"
    shown = _match(files, out, "--conflicts", str(files / "conflicts.csv"))
    assert "Reviews assigned 8" in flat(shown)
    return out


def _rows(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


def test_scores_are_the_affinities(matched: Path, files: Path) -> None:
    """All files have the same affinities; pairs in conflict are only in the Parquet file, marked."""
    scores = {(row[0], row[1]): float(row[2]) for row in _rows(matched / "scores.csv")}
    assert N_SUBMISSIONS * N_REVIEWERS - 1 == len(scores)
    assert ("demo:p00-m00", "p00@example") not in scores
    header, *cmt = _rows(matched / "cmt-scores.tsv", "\t")
    assert ["Paper ID", "Reviewer Email", "Score"] == header
    assert scores == {(row[0], row[1]): float(row[2]) for row in cmt}
    table = pq.read_table(matched / "affinities.parquet").to_pylist()
    assert N_SUBMISSIONS * N_REVIEWERS == len(table)
    snapshot = open_snapshot(matched / "collection")
    nearness = PaperDistances(snapshot)
    for row in table:
        pair = row["submission"], row["reviewer"]
        assert (pair not in scores) == row["conflict"]
        if pair in scores:
            assert pytest.approx(row["affinity"], abs=1e-6) == scores[pair]
    papers = [
        json.loads(line)["id"] for line in (files / "profiles/p03@example.jsonl").read_text().splitlines()
    ]
    submission = nearness.indexed(snapshot.position("demo:p01-m00"))
    expected = Affinities(nearness, {"p03@example": snapshot.find_all(papers)}).of([submission])[0, 0]
    assert pytest.approx(expected, abs=1e-6) == scores["demo:p01-m00", "p03@example"]


def test_assignments_keep_quotas_and_conflicts(matched: Path) -> None:
    """The table and CMT's XML have the same pairs, and a title that starts a formula is escaped."""
    header, *rows = _rows(matched / "assignments.csv")
    assert ["submission", "title", "reviewer", "affinity"] == header
    assert 2 * N_SUBMISSIONS == len(rows)
    assert {"'=Submission <p00>"} == {row[1] for row in rows if row[0] == "demo:p00-m00"}
    assert ("demo:p00-m00", "p00@example") not in {(row[0], row[2]) for row in rows}
    names, counts = np.unique([row[2] for row in rows], return_counts=True)
    assert counts.max() <= 2
    root = ET.fromstring((matched / "cmt-assignments.xml").read_text(encoding="utf-8"))  # noqa: S314 - our own
    pairs = {(each.get("submissionId"), user.get("email")) for each in root for user in each}
    assert {(row[0], row[2]) for row in rows} == pairs
    assert len(names) > 1


def test_the_report_shows_reasons_and_loads(matched: Path, files: Path) -> None:
    """The report has each submission's reviewers and papers, escaped text, and no scripts or links."""
    html = (matched / "report.html").read_text(encoding="utf-8")
    assert "=Submission &lt;p00&gt;" in html
    assert "<p00>" not in html
    assert 2 * N_SUBMISSIONS == html.count('<span class="assigned">')
    paper = json.loads((files / "profiles/p01@example.jsonl").read_text().splitlines()[0])
    assert paper["title"] in html
    assert "1 in conflict" in html
    assert "http" not in html.replace('http-equiv="Content-Security-Policy"', "")
    assert "<script" not in html


def test_the_same_match_again_computes_nothing(matched: Path, files: Path) -> None:
    """The same match again writes the same files without computing affinities."""
    scores, table = (matched / "scores.csv").read_bytes(), (matched / "assignments.csv").read_bytes()
    (rows,) = (matched / "collection/match").glob("*.npy")
    before = rows.stat().st_mtime_ns
    _match(files, matched, "--conflicts", str(files / "conflicts.csv"))
    assert (scores, table) == (
        (matched / "scores.csv").read_bytes(),
        (matched / "assignments.csv").read_bytes(),
    )
    assert [rows] == list((matched / "collection/match").glob("*.npy"))
    assert before == rows.stat().st_mtime_ns


def test_a_match_needs_no_linux(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that does not report the cores of a process, such as macOS, can match."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    _match(files, tmp_path)
    assert (tmp_path / "report.html").exists()


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_match_wrote_goes_with_the_next(files: Path, tmp_path: Path) -> None:
    """Files of an earlier match that the next does not write are removed; other files stay."""
    plain = ["affinities.parquet", "cmt-scores.tsv", "collection", "report.html", "scores.csv"]
    _match(files, tmp_path)
    (tmp_path / "notes.txt").write_text("one's own")
    assert sorted([*plain, "assignments.csv", "cmt-assignments.xml", "notes.txt"]) == _names(tmp_path)
    run(
        "match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path, "--encoder", "hashing"
    )  # fmt: skip
    assert sorted([*plain, "notes.txt"]) == _names(tmp_path)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_match_that_fails_leaves_all_as_it_was(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, interrupted: bool
) -> None:
    """If reviewers do not suffice or writing is interrupted, all files are left unchanged."""
    _match(files, tmp_path, "--nearest", "1")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    if interrupted:

        def write(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(match, "write_report", write)
        run("match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path, *OPTIONS, status=130)
    else:
        few = (*OPTIONS[:2], "--reviewers", "3", "--quota", "1")
        run("match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path, *few, status=1)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert sorted([*before, "collection"]) == _names(tmp_path)


def test_two_matches_do_not_write_into_one_folder(files: Path, tmp_path: Path) -> None:
    """A second match into the same folder is refused with the folder's name and the remedy."""
    with folder_lock(tmp_path):
        printed = run(
            "match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path, *OPTIONS, status=1
        )
    assert f"{tmp_path}: another akin match is writing into this folder; wait for it" in flat(printed)
    assert "--out" in flat(printed)
    assert [] == _names(tmp_path)


@pytest.mark.parametrize(
    "option", [("--quota", "99999999999999999999999"), ("--reviewers", "99999999999999999999999")]
)
def test_numbers_have_a_maximum(files: Path, tmp_path: Path, option: tuple[str, str]) -> None:
    """A number that is too large is an error of its option."""
    printed = run(
        "match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path, *option, status=2
    )
    assert f"Invalid value for '{option[0]}'" in printed


def test_sentences_are_those_given(files: Path, tmp_path: Path) -> None:
    """Sentences and facets given as lists stay as given, in the collection and in the report."""
    text = (files / "submissions.jsonl").read_text().splitlines()[0]
    whole = " ".join(json.loads(text)["abstract"])
    given = json.loads(text) | {"abstract": [whole], "facets": ["result"]}
    (tmp_path / "submissions.jsonl").write_text(json.dumps(given) + "\n")
    out = tmp_path / "out"
    run(
        "match", tmp_path / "submissions.jsonl", files / "profiles", "--out", out, "--encoder", "hashing"
    )  # fmt: skip
    snapshot = open_snapshot(out / "collection")
    (sentence,) = snapshot.paper(snapshot.position(given["id"])).sentences
    assert (whole, "result") == (sentence.text, sentence.facet)
    assert whole in unescape((out / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--quota", "4"), "so --quota would have no effect; add --reviewers"),
        (("--quotas", "none.csv", "--aim", "worst"), "so --quotas, --aim would have no effect; add"),
        (("--reviewers", "2", "--corpus", "none.jsonl"), "leave out --corpus, or give a list"),
    ],
)
def test_options_that_would_not_count_are_refused(
    files: Path, tmp_path: Path, given: tuple[str, ...], message: str
) -> None:
    """Quotas and an aim without an assignment, and a corpus beside a folder of profiles, are errors."""
    out = tmp_path / "out"
    shown = run("match", files / "submissions.jsonl", files / "profiles", "--out", out, *given, status=1)
    assert message in flat(shown)


def test_what_was_read_is_reported(files: Path, tmp_path: Path) -> None:
    """A broken submission, papers without a year and a line taken for a header are reported."""
    text = (files / "submissions.jsonl").read_text()
    (tmp_path / "submissions.jsonl").write_text(text + '{"id": "x", "title": "X", "abstract": ""}\n')
    (tmp_path / "profiles").mkdir()
    for number, path in enumerate(sorted((files / "profiles").iterdir())):
        papers = [json.loads(line) | {"year": 2020} for line in path.read_text().splitlines()]
        del papers[0]["year"]
        text = "".join(json.dumps(paper) + "\n" for paper in papers[number:])
        (tmp_path / "profiles" / path.name).write_text(text)
    (tmp_path / "conflicts.csv").write_text("paper,person\n")
    printed = run(
        "match", tmp_path / "submissions.jsonl", tmp_path / "profiles", "--out", tmp_path / "out",
        "--conflicts", tmp_path / "conflicts.csv", "--since", "2019", "--encoder", "hashing",
    )  # fmt: skip
    assert f"{tmp_path}/conflicts.csv:1: read as a header: paper, person" in flat(printed)
    assert "Papers left out because they have no year 1 Conflicts" in flat(printed)
    assert "Submissions left out, unreadable or without abstract 1 Reviewers" in flat(printed)
    shown = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "could not be read or have no abstract: 1." in shown
    assert "because they have no year: 1." in shown


def test_a_document_encoder_is_refused_at_once(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder with one vector per paper is refused with a remedy, and nothing is written."""
    whole = annotated(Whole(load_encoder("hashing")))
    monkeypatch.setattr(match, "load_annotator", lambda *_, **__: whole)
    out = tmp_path / "out"
    printed = run("match", files / "submissions.jsonl", files / "profiles", "--out", out, status=1)
    assert "sentence by sentence" in flat(printed)
    assert "--encoder minilm" in printed
    assert not out.exists()


def test_what_cannot_be_done_is_said(files: Path, tmp_path: Path, hashed_data: Path) -> None:
    """Too few reviewers, missing profiles and a collection in the folder are clear errors."""
    printed = run(
        "match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path / "a",
        "--encoder", "hashing", "--reviewers", "3", "--quota", "1", status=1,
    )  # fmt: skip
    assert "4 submissions x 3 reviews are more than the 5" in flat(printed)
    assert ["collection"] == _names(tmp_path / "a")
    printed = run(
        "match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path / "a",
        "--encoder", "hashing", "--reviewers", "6", status=1,
    )  # fmt: skip
    assert "4 of 4 submissions have fewer than 6 reviewers without a conflict: demo:p00-m00," in flat(printed)
    problems = [path.name.removesuffix(".jsonl") for path in (files / "profiles").iterdir()]
    pairs = [f"demo:p0{number}-m00,{each}" for number in (1, 2) for each in problems if each[:3] != "p00"]
    (tmp_path / "pairs.csv").write_text("\n".join(pairs))
    printed = run(
        "match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path / "a", "--encoder",
        "hashing", "--reviewers", "1", "--quota", "1", "--conflicts", tmp_path / "pairs.csv", status=1,
    )  # fmt: skip
    assert "without a conflict: demo:p01-m00, demo:p02-m00. Raise the quota" in flat(printed)
    assert "akin match SUBMISSIONS PROFILES" in flat(run("match", files, "--out", tmp_path / "b", status=1))
    (tmp_path / "c").mkdir()
    (tmp_path / "c/collection").symlink_to(hashed_data)
    refused = run("match", files / "submissions.jsonl", files / "profiles", "--out", tmp_path / "c", status=1)
    assert "is a collection, which the match would replace" in flat(refused)
