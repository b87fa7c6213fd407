"""Tests of the benchmark suite's rows: what it reports, over made-up measurements and tiny collections."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks.suite import backends, collections, rows, solvers, stages, storage
from benchmarks.suite.encoders import read_papers
from benchmarks.suite.report import picture
from benchmarks.suite.rows import ALL_SOLVED, OURS, STAGES, Row
from indexer.index.vector_index import build_index
from models.encoder import load_encoder
from models.types import Paper
from service.collection.generations import open_engine
from service.settings import Settings
from tests.support.builds import build_quietly, many_papers, write_corpus

PAPERS = [Paper(f"p{number}", "a title", "One sentence.", ()) for number in range(10)]
SPENT = {OURS: [1.0]}


def vectors_of(folder: Path, n_rows: int) -> Path:
    """Write made-up vectors like a segment's, and return the folder."""
    np.save(folder / "vectors.npy", np.ones((n_rows, 4), np.float16))
    return folder


def test_building_is_judged_where_an_index_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection without an index is judged by one of made-up rows, against indexing as many sentences."""
    monkeypatch.setattr(collections, "_BUILT_ROWS", 5_000)
    built: list[tuple[int, str]] = []
    monkeypatch.setattr(
        collections, "build_index", lambda rows, backend, *, device: built.append((len(rows), backend))
    )
    (row,) = collections._building(vectors_of(tmp_path, 20), PAPERS, SPENT)
    assert [(5_000, "ivfpq")] == built
    assert ("P7", 0.05) == (row.goal, row.most)
    assert "of indexing as many sentences" in row.what
    assert "10 papers are compared one by one" in row.note
    monkeypatch.setattr(collections, "choose_backend", lambda n_rows: "ivfpq")
    (row,) = collections._building(tmp_path, PAPERS, SPENT)
    assert (20, "auto") == built[-1]
    assert "of indexing 10 papers, building the index" == row.what


def test_the_picture_of_solvers_shows_only_others() -> None:
    """Only other software that takes longer is drawn, on a logarithmic scale: no floors, nor Akin itself."""
    spent = {OURS: [1.0, 1.0], "ten": [10.0, 10.0], "thousand": [1_000.0, 1_000.0], "floor": [0.5, 0.5]}
    found = [
        *(rows.beside(spent, peer, goal="P2", what="solve") for peer in ("ten", "thousand")),
        rows.beside(spent, "floor", goal="P2", what="solve", inverted=True),
        rows.beside({**spent, ALL_SOLVED: [2.0, 2.0]}, ALL_SOLVED, goal="P2", what="solve"),
    ]
    drawn = ET.fromstring(picture({"rows": [asdict(row) for row in found]}))  # noqa: S314 - our own
    names = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert ["ten (raw vectors)", "10x", "thousand (raw vectors)", "1,000x"] == names
    ten, thousand = (float(bar.get("width", 0)) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect"))
    assert thousand == pytest.approx(3 * ten, abs=0.2)


def test_a_page_is_measured_beside_its_search(tmp_path: Path) -> None:
    """Validation, views and template are shares of the search; nothing stays replaced."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "papers.jsonl", many_papers(12)), data, load_encoder("hashing"))
    engine = open_engine(Settings(data=data, device="cpu"))
    found = list(stages.of_pages(engine, data, ["p0", "p1", "p2"]))
    assert ["views of the results", "filling the template", "validating the request, as JSON"] == [
        row.what.rpartition(": ")[2] for row in found
    ]
    assert {STAGES} == {row.goal for row in found}
    assert all(row.ratio and row.theirs for row in found)
    assert "render" == stages.page.render.__name__


def test_candidates_are_split_into_faiss_and_scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts are those of the search that is timed; small collections, without lists, have none."""
    vectors = backends.synthetic(3_000, 32)
    index, queries = build_index(vectors, "ivfpq", device="cpu"), vectors[:16].astype(np.float32)
    assert not list(backends._stages(index, vectors, queries, "candidates"))
    monkeypatch.setattr(backends, "scan_is_cheaper", lambda n_rows, cost_rows: False)
    searched: list[int] = []
    monkeypatch.setattr(
        backends,
        "rescored",
        lambda rows, queries, *, proposed, k: searched.append(np.count_nonzero(proposed >= 0)),
    )
    compared, *found = backends._stages(index, vectors, queries, "candidates")
    assert ("P4", "FAISS's own calls") == (compared.goal, compared.beside)
    assert ["choosing lists", "choosing lists and scanning their codes, FAISS", "re-scoring"] == [
        row.what.removeprefix("candidates: ") for row in found
    ]
    assert {STAGES} == {row.goal for row in found}
    assert [8 * index.usual_effort(backends.K, 3_000).n_proposed] * 2 == searched  # type: ignore[attr-defined]


def test_cold_reads_are_split_into_disk_and_memory() -> None:
    """The disk is what a bare read takes; the rest is what a second read takes."""
    spent = {OURS: [0.03, 0.03], storage._TOUCH: [1.5, 1.5], storage._BARE: [0.02, 0.02]}
    found = list(storage._rows(spent, dict.fromkeys(spent, 7.0), [0.01, 0.01]))
    assert [pytest.approx(2 / 3), pytest.approx(1 / 3)] == [r.ratio for r in found if r.goal == STAGES]
    assert [25.0] == [row.most for row in found if row.most]


def test_what_is_compared_takes_turns_in_any_order() -> None:
    """Every round runs each action once, not always in the same order."""
    ran: list[str] = []
    spent = rows.in_turns({name: partial(ran.append, name) for name in "abc"}, rounds=20, warm=False)
    turns = {tuple(ran[start : start + 3]) for start in range(0, 60, 3)}
    assert [20, 20, 20] == [len(spent[name]) for name in "abc"]
    assert {("a", "b", "c")} == {tuple(sorted(turn)) for turn in turns}
    assert len(turns) > 1


def test_one_round_has_no_quartiles() -> None:
    """A ratio of one round has no spread, which the page does not invent."""
    assert rows.beside({OURS: [1.0], "x": [2.0]}, "x", goal="", what="it").spread is None
    assert (2.0, 4.0) == rows.beside({OURS: [1.0] * 3, "x": [2.0, 3.0, 4.0]}, "x", goal="", what="it").spread


def test_goals_for_large_collections_are_judged_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate stage has no goals below two million rows; FAISS Flat finds what is nearest."""
    monkeypatch.setattr(backends, "CALLS", 3)
    monkeypatch.setattr(backends, "TRIED_CALLS", 1)
    monkeypatch.setattr(backends, "K", 10)
    small = [row for row in backends._of_size(3_000) if row.goal == "P4"]
    monkeypatch.setattr(backends, "_GOAL_ROWS", 3_000)
    large = [row for row in backends._of_size(3_000) if row.goal == "P4"]
    assert {None} == {row.is_met for row in small}
    times = [row for row in large if row.beside or row.unit != "share"]
    assert {80, 6.5, 1.3, 3.5} == {row.least or row.most for row in times}
    assert [0.97, 0.97] == [row.least for row in large if row.unit == "share" and not row.beside]
    vectors = backends.synthetic(100, 16)
    found = backends.FlatAlone.build(vectors).search(vectors[:5].astype(np.float32), 3)
    assert [0, 1, 2, 3, 4] == found.rows[:, 0].tolist()


def test_goals_of_a_search_by_id_count_no_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is judged is a search without words and explanation, in a large collection."""
    data = tmp_path / "data"
    corpus = write_corpus(tmp_path / "papers.jsonl", many_papers(70))
    build_quietly(corpus, data, load_encoder("hashing"))
    engine = open_engine(Settings(data=data, device="cpu"))
    read = read_papers(corpus, 70)
    monkeypatch.setattr(collections, "installed", lambda name: "")
    assert {None} == {row.is_met for row in collections.queries(engine, read) if row.goal == "P5"}
    monkeypatch.setattr(collections, "_GOAL_PAPERS", 70)
    judged = [row for row in collections.queries(engine, read) if row.goal == "P5" and row.most]
    assert 3 == len(judged)
    assert all(row.what.startswith(collections._BARE) for row in judged)


def test_stored_rows_hold_the_candidates() -> None:
    """Ranking from stored rows finds the papers that ranking from float32 rows finds."""
    papers = solvers.made_up_papers(1.0)
    kept = solvers.stored(papers)
    assert (papers.rows.astype(np.float16) == kept.rows[kept.numbers]).all()
    assert len(kept.rows) == solvers._APART * len(papers.rows)
    assert set(solvers.ours_best(papers)[:10]) == set(solvers.ours_stored(papers, kept)[:10])


def test_a_goal_for_a_kernel_in_c_is_judged_apart() -> None:
    """Such a goal does not change whether the row's own goal is met."""
    row = Row("P1", "re-rank", "ms", 5.0, "another", 165.0, 33.0, least=25, in_c=100)
    assert (True, False) == (row.is_met, row.is_met_in_c)
    assert Row("P1", "re-rank", "ms", 5.0).is_met_in_c is None


def test_the_version_of_every_peer_is_named() -> None:
    """OpenVINO computes the rows of int8."""
    assert {"openvino", "onnxruntime", "txtai"} <= set(rows._PACKAGES)
