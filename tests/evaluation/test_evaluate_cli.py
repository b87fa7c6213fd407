"""Tests of ``akin evaluate``: its output and files, comparisons of runs, and candidates."""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from akin.cli.evaluation.scores import comparison_table, verdicts
from evaluation.collection import DESCRIPTIONS, SETS, Collection, EvalQuery
from evaluation.measurement import Measurement, load_collection
from evaluation.report.tables import LEGEND
from evaluation.run import Run, read_trec, write_trec
from evaluation.statistics.bootstrap import Difference
from evaluation.statistics.multiple import correct
from evaluation.statistics.summary import Comparison
from evaluation.tasks import candidates
from evaluation.tasks.candidates import measure_candidates
from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.merging import compact
from indexer.files.data_folder import CATALOG_FILE, KEEP
from indexer.index.backends.exact import ExactIndex
from indexer.index.vector_index import BACKENDS, build_index
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.errors import InputError, SnapshotMissingError
from models.transport import Scorer, TransportSettings, score_papers
from models.types import Hits, Paper, Sentence
from tests.support.builds import DEMO_CORPUS, build_quietly, write_corpus
from tests.support.commands import flat, run
from tests.support.examples.evaluation.set_examples import EXAMPLES
from tests.support.examples.models.tiny_bert import write_tiny_bert

QUERY = EvalQuery("q", Paper("p", "T", "We do.", (Sentence("We do.", 0, 6),)), (), "q")
QUICK = ("demo", "--limit-queries", "12", "--system", "bm25-facet", "--system", "hashing:ot")


def test_a_set_is_measured_by_its_name() -> None:
    """`akin evaluate demo` prints values and intervals by facet, best system first, and a verdict."""
    shown = run("evaluate", *QUICK)
    assert "demo (12 queries, 100 papers): P@9, percent" in flat(shown)
    assert shown.index("bm25-facet") < shown.index("hashing:ot")
    assert re.search(r"bm25-facet +\d\d\.\d +\d\d\.\d +\d\d\.\d\s+\d\d\.\d–\d\d\.\d", shown)
    assert "First by P@9 over all 12 queries: bm25-facet. Its lead over hashing:ot is resolvable." in flat(
        shown
    )
    assert "Only 12 of 200 queries" in shown


def test_a_narrow_terminal_shows_every_interval() -> None:
    """In 80 columns no figure is cut short."""
    assert "…" not in run("evaluate", *QUICK, width=80)


def test_every_known_set_has_a_command() -> None:
    """The help lists every set with its description, and the other commands."""
    shown = run("evaluate", "--help", width=200)
    for name, description in DESCRIPTIONS.items():
        assert re.search(rf" {name} +{re.escape(description)} ", shown), name
    for name in ("compare", "candidates"):
        assert f" {name} " in shown


def test_help_says_where_a_collection_comes_from() -> None:
    """The help says how to see where a collection comes from, unless it comes with Akin."""
    assert "where it comes from" in flat(run("evaluate", "relish", "--help"))
    assert "where it comes from" not in flat(run("evaluate", "demo", "--help"))


@pytest.mark.parametrize("name", list(SETS))
def test_a_missing_collection_says_where_it_is(tmp_path: Path, name: str) -> None:
    """For an empty folder, the error of each set shows the expected layout."""
    assert "Expected is this layout" in flat(run("evaluate", name, tmp_path, status=1))


def test_a_number_format_is_measured_and_cached_by_itself(tmp_path: Path) -> None:
    """Vectors of another number format differ and are cached separately, for the same encoder."""
    tiny, cache = write_tiny_bert(tmp_path / "tiny"), tmp_path / "cache"
    options = ("demo", "--limit-queries", "2", "--encoder", tiny, "--scorer", "mean_min", "--device", "cpu")
    scores = []
    for form in ("float32", "bfloat16"):
        run("evaluate", *options, "--precision", form, "--cache", cache, "--runs", tmp_path / form)
        file = min((tmp_path / form).glob("*mean_min.run"), key=lambda path: len(path.name))
        scores.append(read_trec(file).scores)
    assert scores[0] != scores[1]
    for query, own in scores[0].items():
        assert own == pytest.approx(scores[1][query], abs=0.05)
    refused = run("evaluate", *options, "--precision", "bfloat16", "--data", tmp_path, status=1)
    assert "leave out --precision, or --data" in flat(refused)


def test_json_holds_every_figure(tmp_path: Path) -> None:
    """--json is a list of flat objects, one for each system, facet, fold and measure, in percent."""
    file = tmp_path / "figures.json"
    run("evaluate", *QUICK, "--json", file)
    rows = json.loads(file.read_bytes())
    keys = ["set", "system", "facet", "fold", "measure", "value", "low", "high", "n"]
    assert [keys] * len(rows) == [list(row) for row in rows]
    assert {("demo", system, facet, "all", measure) for system in ("bm25-facet", "hashing:ot")
            for facet in ("background", "method", "all") for measure in ("P@9", "MAP")} == {
        tuple(row[key] for key in keys[:5]) for row in rows
    }  # fmt: skip
    assert all(0 <= row["low"] <= row["value"] <= row["high"] <= 100 for row in rows)


def test_runs_are_written_one_file_a_system(tmp_path: Path) -> None:
    """--runs writes a TREC file per system, under a name that file systems allow."""
    run("evaluate", *QUICK, "--runs", tmp_path / "runs")
    assert ["bm25-facet.run", "hashing-ot.run"] == sorted(path.name for path in (tmp_path / "runs").iterdir())
    read = read_trec(tmp_path / "runs" / "hashing-ot.run")
    assert ("hashing:ot", 12) == (read.system, len(read.scores))


def test_the_report_is_written(tmp_path: Path) -> None:
    """--report writes an HTML page with the systems and some explained rankings."""
    run("evaluate", *QUICK, "--report", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "bm25-facet" in page
    assert "<svg" in page
    assert "demo:p" in page


def test_vectors_come_from_a_snapshot(hashed_data: Path, tmp_path: Path) -> None:
    """With --data the encoder and vectors of the snapshot give the same figures as encoding again."""
    figures = []
    for number, source in enumerate((("--data", hashed_data), ("--encoder", "hashing"))):
        file = tmp_path / f"{number}.json"
        run("evaluate", "demo", "--limit-queries", "12", *source, "--scorer", "mean_min", "--json", file)
        figures.append(
            {(r["system"], r["facet"], r["measure"]): r["value"] for r in json.loads(file.read_bytes())}
        )
    stored, encoded = figures
    assert {"hashing:mean_min", "hashing:mean_min:focus", "bm25"} <= {system for system, _, _ in stored}
    assert {"hashing:document"} == {key[0] for key in encoded.keys() - stored.keys()} - {
        "hashing:alone:mean_min"
    }
    # The snapshot stores float16, which may swap near ties.
    assert stored == pytest.approx({key: encoded[key] for key in stored}, abs=2)


def test_classification_by_function_needs_no_queries(tmp_path: Path) -> None:
    """A set of labelled sentences is measured for each encoder, in context and alone."""
    lines = [
        {
            "abstract_id": str(i),
            "sentences": [f"We study topic {i}.", f"Gain {i} is large."],
            "labels": ["a", "b"],
        }
        for i in range(6)
    ]
    labels = {"a": "background", "b": "result"}
    content = [json.dumps({**line, "labels": [labels[label] for label in line["labels"]]}) for line in lines]
    (tmp_path / "test.jsonl").write_text("\n".join(content), encoding="utf-8")
    shown = run("evaluate", "functions", tmp_path, "--encoder", "hashing")
    assert "functions: P@1, percent" in flat(shown)
    assert {"hashing:context", "hashing:alone"} <= set(shown.split())


def test_options_that_a_set_does_not_use_are_refused(tmp_path: Path) -> None:
    """Labelled sentences rank nothing, and only they take function encoders: no option is ignored."""
    EXAMPLES["functions"](tmp_path)
    for option, value in {"--scorer": "ot", "--tau": 1, "--words": 1, "--cache": "c", "--runs": "r"}.items():
        shown = run("evaluate", "functions", tmp_path, "--encoder", "hashing", option, value, status=1)
        assert f"akin evaluate functions does not use {option}; leave it out" in flat(shown)
    shown = run("evaluate", "demo", "--functions", tmp_path / "nothere.safetensors", status=1)
    assert "akin evaluate demo does not use --functions" in flat(shown)


def two_runs(folder: Path) -> tuple[Path, Path]:
    """Write the runs of two systems on a few demo queries, and return their files."""
    run("evaluate", *QUICK, "--runs", folder)
    return folder / "bm25-facet.run", folder / "hashing-ot.run"


def test_two_runs_are_compared(tmp_path: Path) -> None:
    """`compare A B` prints differences with intervals, and states which are resolvable."""
    a, b = two_runs(tmp_path)
    file = tmp_path / "differences.json"
    shown = flat(run("evaluate", "compare", a, b, "--set", "demo", "--json", file))
    assert re.search(r"Resolvable: bm25-facet is better than hashing:ot in P@9 over all 200 queries", shown)
    first = json.loads(file.read_bytes())[0]
    keys = "set a b measure facet value low high n resolvable p p_corrected"
    assert set(keys.split()) == set(first)
    assert first["low"] <= first["value"] <= first["high"]
    turned = flat(run("evaluate", "compare", b, a, "--set", "demo"))
    assert "Resolvable: bm25-facet is better than hashing:ot" in turned


def test_the_best_of_several_is_corrected_for_all_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of three systems is corrected for three comparisons, in the report too; notes are kept."""
    seen: list[int] = []

    def counting(found: list[Comparison], *, n_family: int = 0) -> list[Comparison]:
        seen.append(n_family)
        return correct(found, n_family=n_family)

    monkeypatch.setattr("evaluation.report.report.correct", counting)
    given = (*QUICK, "--system", "bm25", "--report", tmp_path / "report.html")
    shown = run("evaluate", *given, "--format", "json")  # after the output of progress
    figures = json.loads(shown[shown.index("{\n") :])
    assert "Only 12 of 200 queries." in figures["notes"]
    compared = figures["comparisons"]
    first, second = sorted((each["comparison"] for each in compared), key=lambda one: one["p_corrected"])
    ps = sorted(each["difference"]["p"] for each in (first, second))
    assert min(1.0, 3 * ps[0]) == pytest.approx(first["p_corrected"])
    assert max(min(1.0, 3 * ps[0]), min(1.0, 2 * ps[1])) == pytest.approx(second["p_corrected"])
    assert seen == [3]


def test_the_best_of_several_leads_where_the_corrected_comparison_holds() -> None:
    """A lead that does not hold after correction is not called resolvable, whatever its own interval."""
    leads = {"held": (0.5, 0.01), "chosen": (0.5, 0.2), "close": (-0.5, 0.9)}
    against = tuple(
        (name, Comparison("RR", "all", Difference(1.0, low, 2.0, 30, 0.01), p))
        for name, (low, p) in leads.items()
    )
    queries = tuple(replace(query, id=f"q{i}", cluster=f"q{i}") for i, query in enumerate([QUERY] * 30))
    collection = Collection("c", {}, queries, {}, 1, ("RR",))
    runs = tuple(Run(name, {}) for name in ("best", *leads))
    shown = Console(width=400)
    with shown.capture() as capture:
        shown.print(verdicts(Measurement(collection, runs, (), against, ())))
    text = capture.get()
    assert "First by RR over all 30 queries: best." in text
    assert "Its lead over held is resolvable.\n" in text
    assert "over chosen is resolvable by itself, but does not hold after correction for all 6 pairs" in text
    assert "do not separate it from close (+1.0, -0.5 to +2.0)" in text


@pytest.mark.parametrize(
    ("low", "p_corrected", "expected"),
    [
        (0.1, 0.01, "Resolvable: a is better than b"),
        (0.1, 0.2, "it does not hold"),
        (-1.0, 0.2, "Not resolvable: in RR, 9 queries do not separate a from b."),
    ],
)
def test_the_verdict_is_that_of_the_corrected_comparison(
    low: float, p_corrected: float, expected: str
) -> None:
    """An interval that excludes zero is not enough if the corrected p is too large."""
    found = Comparison("RR", "all", Difference(1.0, low, 2.0, 9, 0.01), p_corrected)
    collection = Collection("c", {}, (), {}, 1, ("RR",))
    shown = Console(width=200)
    with shown.capture() as capture:
        shown.print(comparison_table("a", "b", [found], collection))
    assert expected in flat(capture.get())
    assert ("Not resolvable" in capture.get()) == (p_corrected > 0.05)


@pytest.mark.parametrize(
    ("form", "before"),
    [("table", "Note: "), ("markdown", "Note: "), ("latex", "% Note: "), ("json", '"')],
)
def test_runs_are_shown_with_their_reservations(tmp_path: Path, form: str, before: str) -> None:
    """Queries that a run leaves out and the notes of a collection are printed in every format."""
    EXAMPLES["csfcube"](tmp_path)
    write_trec(Run("half", {"1-method": {"2": 1.0}}), tmp_path / "half.run")
    for command in (("runs", "half.run"), ("compare", "half.run", "half.run")):
        files = [tmp_path / name for name in command[1:]]
        given = (command[0], *files, "--set", "csfcube", "--path", tmp_path, "--format", form)
        shown = flat(run("evaluate", *given))
        who = "half leaves" if command[0] == "runs" else "half.run leave"
        assert f"{who} 2 queries unanswered, which count 0; the first: 1-background." in shown
        assert f"{before}Only fold1 is here" in shown
        assert 1 == shown.count(f"{before}Intervals from 1 query papers are too narrow")


def test_equal_runs_do_not_differ(tmp_path: Path) -> None:
    """A run compared with itself is not resolvable."""
    a, _ = two_runs(tmp_path)
    shown = flat(run("evaluate", "compare", a, a, "--set", "demo"))
    assert "Not resolvable: in P@9, 200 queries do not separate" in shown


def test_two_runs_of_one_system_go_by_their_files(tmp_path: Path) -> None:
    """Two runs of one system are named by their files."""
    a, _ = two_runs(tmp_path)
    later = tmp_path / "later.run"
    later.write_bytes(a.read_bytes())
    assert f"{a.stem} − later" in run("evaluate", "compare", a, later, "--set", "demo")


def test_runs_in_folders_of_their_own_are_named_by_these(tmp_path: Path) -> None:
    """Runs with the same system and file name are named by their paths, with separate figures."""
    one, two = two_runs(tmp_path)
    named = Run("run", read_trec(one).scores)
    files = [tmp_path / folder / "x.run" for folder in "abc"]
    for file, given in zip(files, (named, named, Run("run", read_trec(two).scores)), strict=True):
        file.parent.mkdir()
        write_trec(given, file)
    out = tmp_path / "new" / "differences.json"
    run("evaluate", "compare", *files, "--set", "demo", "--json", out)
    rows = [
        each for each in json.loads(out.read_bytes()) if (each["measure"], each["facet"]) == ("P@9", "all")
    ]
    assert [str(file) for file in files[1:]] == [each["b"] for each in rows]
    assert 0.0 == rows[0]["value"] != rows[1]["value"]
    shown = json.loads(run("evaluate", "runs", *files, "--set", "demo", "--format", "json"))
    assert {str(file) for file in files} == {each["system"] for each in shown["rows"]}


def test_a_file_in_a_folder_that_is_not_there_is_no_loss(tmp_path: Path, hashed_data: Path) -> None:
    """The folder of a JSON file is created before anything is measured."""
    a, b = two_runs(tmp_path)
    candidates = ("candidates", "--data", hashed_data, "--backend", "exact", "--queries", "5")
    for number, command in enumerate(
        (("compare", a, b, "--set", "demo"), ("runs", a, "--set", "demo"), candidates)
    ):
        file = tmp_path / f"new{number}" / "figures.json"
        run("evaluate", *command, "--json", file)
        assert json.loads(file.read_bytes())


@pytest.mark.parametrize("more", [["--encoder", "hashing"], ["--scorer", "ot"]])
def test_a_named_system_leaves_nothing_to_choose(more: list[str]) -> None:
    """--system with --encoder or --scorer is refused."""
    assert "leave out" in flat(run("evaluate", "demo", "--system", "bm25", *more, status=1))


def test_output_folders_are_made(tmp_path: Path) -> None:
    """The folder of an output file is created."""
    file = tmp_path / "new" / "figures.json"
    run("evaluate", "demo", "--system", "bm25", "--json", file)
    assert json.loads(file.read_bytes())


def test_a_run_of_another_collection_is_refused(tmp_path: Path) -> None:
    """A run without papers for any query is an error, and so is an unknown set."""
    write_trec(Run("other", {"x": {"y": 1.0}}), tmp_path / "other.run")
    compare = ("evaluate", "compare", tmp_path / "other.run", tmp_path / "other.run", "--set")
    assert "ranks papers for none of the 200 queries" in flat(run(*compare, "demo", status=1))
    assert "known: beir" in flat(run(*compare, "nothing", status=1))
    query_id = load_collection("demo", DEMO_CORPUS).queries[0].id
    write_trec(Run("other", {query_id: {"doi:y": 1.0}}), tmp_path / "other.run")
    said = flat(run(*compare, "demo", status=1))
    assert "ranks no paper of demo: one of its ids is 'doi:y', one of the collection's 'demo:p00-m00'" in said
    write_trec(Run("other", {query_id: {"doi:y": 1.0, "demo:p00-m01": 2.0}}), tmp_path / "other.run")
    assert "other.run ranks 1 of 2 papers that the collection does not have, such as doi:y" in flat(
        run(*compare, "demo")
    )


def candidates_of(data: Path, **given: Any) -> dict[tuple[str, int, str], float]:
    """Return the figures of the candidate stage by backend, depth and measure."""
    found = measure_candidates(data, n_queries=8, on_progress=lambda *_: None, **given)
    assert {8} == {row.n for row in found}
    return {(row.backend, row.depth, row.measure): row.value for row in found}


def test_recall_is_against_the_exact_index(hashed_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact index under another name has full recall at every depth; exact itself has no recall."""
    monkeypatch.setitem(BACKENDS, "same", "indexer.index.backends.exact:ExactIndex")
    found = candidates_of(hashed_data, backends=["same"])
    assert {("same", depth, "recall"): 100.0 for depth in (10, 20, 50)} == {
        key: value for key, value in found.items() if key[2] == "recall"
    }
    assert {found["exact", 20, "top@20"]} == {found["same", 20, "top@20"]}


def test_a_poor_backend_is_found_out(hashed_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that proposes wrong rows has low recall and loses papers of the exhaustive ranking."""
    monkeypatch.setitem(BACKENDS, "poor", f"{__name__}:PoorIndex")
    found = candidates_of(hashed_data, backends=["poor"])
    assert found["poor", 20, "recall"] < 80
    assert found["poor", 20, "top@20"] < found["exact", 20, "top@20"] - 20


def test_segments_with_other_indexes_are_no_reference(
    hashed_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection is the exact reference only if all of its segments are exact, not the first alone."""
    monkeypatch.setitem(BACKENDS, "poor", f"{__name__}:PoorIndex")
    mixed = copy.copy(hashed_snapshot)
    (segment,) = mixed.manifest.segments
    segments = (replace(segment, backend="exact"), replace(segment, backend="poor"))
    mixed.manifest = replace(mixed.manifest, segments=segments)
    mixed.index = build_index(mixed.gather(np.arange(len(mixed.live)))[0], "poor", device="cpu")
    monkeypatch.setattr(candidates, "open_snapshot", lambda *_, **__: mixed)
    found = candidates_of(Path())
    assert found["exact+poor", 20, "recall"] < 80
    assert found["exact+poor", 20, "top@20"] < found["exact", 20, "top@20"] - 20


def test_an_emptied_collection_has_no_candidates(tmp_path: Path, hashing: Encoder) -> None:
    """A collection whose papers are all deleted, and that is compacted, is refused for its size."""
    paper = {"id": "p", "title": "T", "abstract": "We do. It is."}
    build_quietly(write_corpus(tmp_path / "c.jsonl", [paper]), tmp_path / "data", hashing)
    with Catalog.open(tmp_path / "data" / CATALOG_FILE) as catalog:
        delete_papers(tmp_path / "data", ["p"], catalog, keep=KEEP)
    compact(tmp_path / "data", open_snapshot(tmp_path / "data"), device="cpu", keep=KEEP)
    assert "holds 0 papers" in flat(run("evaluate", "candidates", "--data", tmp_path / "data", status=1))


class PoorIndex(ExactIndex):
    """An index that finds the rows farthest from each query."""

    def search(
        self, queries: np.ndarray, k: int, *, together: bool = False, allowed: np.ndarray | None = None
    ) -> Hits:
        """Return the rows nearest to the negated queries."""
        return super().search(-queries, k, together=together, allowed=allowed)


def test_depth_20_of_an_exhaustive_ranking(hashed_data: Path, hashed_snapshot: Snapshot) -> None:
    """``top@20`` equals the overlap of exact candidates with the top 20 of all papers scored, by hand."""
    drawn = np.random.default_rng(0).permutation(len(hashed_snapshot))[:8]
    overlaps = []
    for position in drawn:
        query = hashed_snapshot.vectors(int(position))
        others = [p for p in range(len(hashed_snapshot)) if p != position]
        scores: dict[str, list[float]] = {"single": [], "ot": []}
        for other in others:
            rows = hashed_snapshot.vectors(other)
            for scorer, of_scorer in scores.items():
                settings = TransportSettings(tau=0.15)
                plans = score_papers(
                    query, rows, np.array([0, len(rows)]), scorer=Scorer(scorer), settings=settings
                )
                of_scorer.append(float(plans.scores[0]))
        best = {
            name: set(np.argsort(-np.array(values), kind="stable")[:20]) for name, values in scores.items()
        }
        overlaps.append(5.0 * len(best["single"] & best["ot"]))
    assert pytest.approx(np.mean(overlaps)) == candidates_of(hashed_data)["exact", 20, "top@20"]


def test_candidates_are_shown(hashed_data: Path, tmp_path: Path) -> None:
    """`akin evaluate candidates` prints a line per backend and depth, and writes the figures."""
    file = tmp_path / "candidates.json"
    shown = run(
        "evaluate", "candidates", "--data", hashed_data, "--backend", "hnsw", "--queries", "5", "--json", file
    )
    assert re.search(r"hnsw +20 +\d+\.\d \(", shown)
    assert {"backend", "depth", "measure", "value", "low", "high", "n"} == set(
        json.loads(file.read_bytes())[0]
    )


def test_candidates_need_a_collection(tmp_path: Path, hashing: Encoder) -> None:
    """An empty folder and a collection of too few papers are errors."""
    with pytest.raises(SnapshotMissingError):
        candidates_of(tmp_path)
    build_quietly(DEMO_CORPUS, tmp_path / "few", hashing, limit=10)
    with pytest.raises(InputError, match="holds 10 papers"):
        candidates_of(tmp_path / "few")


def test_known_items(hashed_data: Path, tmp_path: Path) -> None:
    """`akin evaluate items` searches known papers by titles or questions, and prints the success rates."""
    file = tmp_path / "items.json"
    shown = flat(run("evaluate", "items", "--data", hashed_data, "--titles", "20", "--json", file))
    assert "20 known papers among 100" in shown
    rows = json.loads(file.read_bytes())
    figures = {(row["way"], row["measure"]): row["found"]["value"] for row in rows}
    for way in ("text, the service's default", "find by title"):
        assert 100.0 == figures[way, "success@1"] == figures[way, "success@10"] == figures[way, "nDCG@10"]
    questions = tmp_path / "questions.tsv"
    paper = json.loads(run("papers", "--data", hashed_data, "--output", "json"))["papers"][0]
    questions.write_text(f"{paper['id']}\t{paper['title']}\n\ndemo:p03-m07\tzzz\n", encoding="utf-8")
    shown = flat(run("evaluate", "items", "--data", hashed_data, "--questions", questions))
    assert re.search(r"the service's default 50\.0 \(", shown)
    assert "not found: zzz" in shown
    assert "find by title" not in shown


@pytest.mark.parametrize("study", [("items", "--titles", "5"), ("candidates", "--queries", "5")])
def test_a_study_reads_the_folder_of_the_environment(
    hashed_data: Path, monkeypatch: pytest.MonkeyPatch, study: tuple[str, ...]
) -> None:
    """Without --data, the studies of a collection read AKIN_DATA, as other commands do."""
    monkeypatch.setenv("AKIN_DATA", str(hashed_data))
    assert ", percent" in run("evaluate", *study)


@pytest.mark.parametrize(
    ("study", "heading"),
    [
        (("items", "--titles", "1"), "1 known paper among 100, percent"),
        (("candidates", "--queries", "1"), "Candidates of 1 query, percent"),
    ],
)
def test_a_single_query_has_no_interval(hashed_data: Path, study: tuple[str, ...], heading: str) -> None:
    """The figure of one query is shown without an interval."""
    shown = run("evaluate", *study, "--data", hashed_data)
    assert heading in shown
    assert "100.0" in shown
    assert "nan" not in shown


@pytest.mark.parametrize(("form", "before"), [("markdown", ""), ("latex", "% ")])
def test_written_comparisons_have_their_legend(form: str, before: str) -> None:
    """Markdown and LaTeX explain the words yes, alone and no, once; figures alone need no such words."""
    shown = run("evaluate", *QUICK, "--format", form)
    assert f"\n{before}{LEGEND}\n" in shown
    assert LEGEND not in run("evaluate", "demo", *QUICK[1:3], "--system", "bm25", "--format", form)


@pytest.mark.parametrize(
    ("lines", "message"),
    [("demo:p03-m07", "no tab"), ("none\twhat", "no paper of that id"), ("\n", "holds no question")],
)
def test_questions_are_checked(hashed_data: Path, tmp_path: Path, lines: str, message: str) -> None:
    """A line without a question, an unknown paper and an empty file are refused."""
    questions = tmp_path / "questions.tsv"
    questions.write_text(lines, encoding="utf-8")
    command = ("evaluate", "items", "--data", hashed_data, "--questions", questions)
    assert message in flat(run(*command, status=1))
