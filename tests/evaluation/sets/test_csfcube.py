"""Tests of CSFCube: its layout, its queries, and the figures its authors publish for SPECTER."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.collection import SETS, Collection, CollectionReader
from evaluation.run import Run
from evaluation.sets.csfcube import FACETS, CsfcubeSet
from evaluation.statistics.bootstrap import Interval, intervals
from evaluation.statistics.summary import summarise
from evaluation.suite.figures import read_sections
from evaluation.systems.systems import Systems
from models.errors import BrokenRowError, CollectionMissingError, CorpusFormatError
from models.registry import resolve
from models.types import Facet
from tests.support.builds import ROOT
from tests.support.examples.evaluation.csfcube_figures import (
    AUTHORS_NAMES,
    MEASURED,
    SCRIPT,
    Invented,
    invented,
    numbers_of,
)
from tests.support.outside_data import outside_data

LABELLED = {
    "q1": [
        ("What is known.", "background_label"),
        ("", "method_label"),
        ("What we aim at.", "objective_label"),
        ("What we do.", "method_label"),
        ("Thanks.", "other_label"),
        ("What we find.", "result_label"),
    ],
    "q2": [("We do this.", "method_label"), ("We find that.", "result_label")],
    "c1": [("A candidate.", "background_label")],
    "c2": [("Another candidate.", "method_label")],
}
ANNOTATIONS: dict[str, Any] = {
    "background": {"q1": {"cands": ["c1", "c2"], "relevance_adju": [3, 0], "relevance_max": [3, 3]}},
    "method": {"q2": {"cands": ["c2", "q2", "c1"], "relevance_adju": [1, 3, -1]}},
    "result": {"q1": {"cands": ["c2", "q2"], "relevance_adju": [0, 2]}},
}
SPLITS = {
    "background": {"fold1_dev": ["q1_background"], "fold2_test": ["q1_background"]},
    "method": {"fold2_dev": ["q2_method"], "fold1_test": ["q2_method"]},
    "result": {"fold2_test": ["q1_result"]},
}


def write(folder: Path, *, annotations: dict[str, Any] = ANNOTATIONS, splits: Any = SPLITS) -> None:
    """Write an invented collection of four papers in CSFCube's layout."""
    rows = [
        {
            "paper_id": name,
            "metadata": {"year": "2017"},
            "title": f"Title of {name}",
            "abstract": [text for text, _ in sentences],
            "pred_labels": [label for _, label in sentences],
        }
        for name, sentences in LABELLED.items()
    ]
    write_files(folder, rows, annotations, splits)


def write_files(folder: Path, rows: list[dict[str, Any]], annotations: dict[str, Any], splits: Any) -> None:
    """Write papers, judgements and folds in CSFCube's layout."""
    folder.mkdir(exist_ok=True)
    (folder / "abstracts-csfcube-preds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "evaluation_splits.json").write_text(json.dumps(splits))
    for facet in FACETS:
        (folder / f"test-pid2anns-csfcube-{facet}.json").write_text(json.dumps(annotations[facet]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the invented collection."""
    write(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def development_fold() -> Collection:
    """Return the fold of the collection that is measured during development."""
    collection = CsfcubeSet().load(outside_data("csfcube"))
    queries = tuple(query for query in collection.queries if query.fold == "fold1")
    return replace(collection, queries=queries, qrels={q.id: collection.qrels[q.id] for q in queries})


@pytest.fixture(scope="module")
def published() -> Run:
    """Return SPECTER's rankings of papers by distance, as shipped with the collection."""
    folder = outside_data("csfcube")
    rankings = {facet: json.loads((folder / f"specter-ranking-{facet}.json").read_text()) for facet in FACETS}
    return Run(
        "specter",
        {
            f"{query}-{facet}": {paper_id: -distance for paper_id, distance in ranking}
            for facet, of_queries in rankings.items()
            for query, ranking in of_queries.items()
        },
    )


@pytest.fixture(scope="module")
def weighed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Invented]:
    """Return the invented rankings and their collection of both folds, with all measures of the authors."""
    folder, given = tmp_path_factory.mktemp("weighed"), invented()
    write_files(folder, given.papers, given.annotations, given.splits)
    return replace(CsfcubeSet().load(folder), measures=tuple(AUTHORS_NAMES.values())), given


@pytest.mark.parametrize("fold", ["fold1", "all"])
@pytest.mark.parametrize("facet", [*FACETS, "all"])
def test_invented_rankings_have_the_figures_of_the_authors_script(
    facet: str, fold: str, weighed: tuple[Collection, Invented]
) -> None:
    """Every measure equals the authors' script, per fold and overall, also for queries with edge cases."""
    collection, given = weighed
    rows = summarise(collection, [given.run], n_resamples=10)
    found = {row.measure: row.value for row in rows if (row.facet, row.fold) == (facet, fold)}
    expected = {AUTHORS_NAMES[name]: value for name, value in SCRIPT["figures"][fold][facet].items()}
    assert pytest.approx(expected, abs=1e-4) == found


def of_measured(system: str, facet: str) -> dict[str, Interval]:
    """Return the mean and interval of each measure over the development queries of a facet."""
    numbers = [i for i, (own, _) in enumerate(MEASURED["queries"]) if facet in {own, "all"}]
    table = {
        measure: {f"{i:02}": values[i] for i in numbers}
        for measure, values in MEASURED["values"][system].items()
    }
    return intervals(table, {f"{i:02}": f"{MEASURED['queries'][i][1]:02}" for i in numbers})


@pytest.mark.parametrize("facet", [*FACETS, "all"])
def test_what_the_queries_measure_gives_the_published_figures(facet: str) -> None:
    """The means of SPECTER's stored values per query are those of the authors' script, to 0.01."""
    expected = {AUTHORS_NAMES[name]: value for name, value in MEASURED["specter_figures"][facet].items()}
    found = {measure: figure.value for measure, figure in of_measured("specter", facet).items()}
    assert pytest.approx(expected, abs=0.01) == found


@pytest.mark.parametrize(("system", "named"), [("specter", "specter (published)"), ("bm25", "bm25")])
@pytest.mark.parametrize("facet", [*FACETS, "all"])
def test_the_documented_figures_are_what_the_queries_measure(facet: str, system: str, named: str) -> None:
    """The suite's stored figures and intervals for CSFCube follow from the stored values per query."""
    rows = read_sections(ROOT / "docs" / "measured" / "evaluation.json")["csfcube"].figures.rows
    documented = {
        row.measure: row for row in rows if (row.system, row.facet, row.fold) == (named, facet, "all")
    }
    for measure in ("MAP", "NDCG%20"):
        expected, found = of_measured(system, facet)[measure], documented[measure]
        bounds = (expected.value, expected.low, expected.high)
        assert pytest.approx(bounds, abs=0.05) == (found.value, found.low, found.high)


def test_the_development_fold_measures_the_numbers_kept_here(
    development_fold: Collection, published: Run
) -> None:
    """SPECTER's published rankings and BM25 have the stored values, query by query."""
    words = Systems(development_fold, pytest.fail).rank("bm25")
    runs = {"specter": (published, tuple(AUTHORS_NAMES.values())), "bm25": (words, ("MAP", "NDCG%20"))}
    found = numbers_of(development_fold, runs)
    assert MEASURED["queries"] == found["queries"]
    for system, values in found["values"].items():
        assert MEASURED["values"][system].keys() == values.keys()
        for measure, of_queries in values.items():
            assert pytest.approx(MEASURED["values"][system][measure], abs=0.01) == of_queries


def test_the_table_of_the_development_fold_has_the_published_figures(
    development_fold: Collection, published: Run
) -> None:
    """The summary's figures equal the published ones, and lie within their intervals."""
    rows = summarise(development_fold, [published], n_resamples=1000)
    authors_name = {name: theirs for theirs, name in AUTHORS_NAMES.items()}
    compared = [row for row in rows if row.measure in authors_name]
    assert 7 * 4 * 2 == len(compared)
    for row in compared:
        expected = MEASURED["specter_figures"][row.facet][authors_name[row.measure]]
        assert expected == pytest.approx(row.value, abs=0.01)
        assert row.low < row.value < row.high


def test_the_development_fold_is_read_whole(development_fold: Collection) -> None:
    """The fold has eight queries per facet, with selected sentences and fully judged pools."""
    assert (4205, 24) == (len(development_fold.papers), len(development_fold.queries))
    every_query_is_complete(development_fold)


def test_the_invented_rankings_are_read_whole(weighed: tuple[Collection, Invented]) -> None:
    """Both folds are read, with selected sentences and fully judged pools."""
    collection, given = weighed
    assert given.run.scores.keys() == collection.qrels.keys()
    every_query_is_complete(collection)


def every_query_is_complete(collection: Collection) -> None:
    """Check that each pool is judged and without the query, and each selected sentence has the facet."""
    for query in collection.queries:
        assert query.pool
        assert query.paper.id not in query.pool
        assert set(query.pool) == collection.qrels[query.id].keys() <= collection.papers.keys()
        assert {query.paper.sentences[i].facet for i in query.selected or ()} <= {
            Facet(query.facet),
            *([Facet.OBJECTIVE] if query.facet == "background" else []),
        }
        assert query.selected


def test_the_registry_names_the_reader() -> None:
    """The reader in the registry satisfies the protocol."""
    assert isinstance(resolve(SETS, "csfcube", "test collection")(), CollectionReader)


def test_queries_carry_their_pool_facet_fold_and_paper(folder: Path) -> None:
    """A query's pool never contains the query, even if the files list it."""
    collection = CsfcubeSet().load(folder)
    assert [
        ("q1-background", "q1", ("c1", "c2"), "background", "fold1", "q1"),
        ("q2-method", "q2", ("c2", "c1"), "method", "fold2", "q2"),
        ("q1-result", "q1", ("c2", "q2"), "result", "fold1", "q1"),
    ] == [(q.id, q.paper.id, q.pool, q.facet, q.fold, q.cluster) for q in collection.queries]


def test_grades_are_the_adjudicated_ones(folder: Path) -> None:
    """Grades are the adjudicated ones, 0 if not rated, and the query itself has none."""
    collection = CsfcubeSet().load(folder)
    assert {
        "q1-background": {"c1": 3, "c2": 0},
        "q2-method": {"c2": 1, "c1": 0},
        "q1-result": {"c2": 0, "q2": 2},
    } == collection.qrels
    assert (2, "NDCG%20", "MAP") == (collection.relevant_from, *collection.measures[:2])


def test_aims_count_as_background_and_an_empty_sentence_goes_with_its_label(folder: Path) -> None:
    """Objectives count as background, and sentence numbers are those without empty sentences."""
    collection = CsfcubeSet().load(folder)
    background, method, result = collection.queries
    assert ["What is known.", "What we aim at."] == [
        background.paper.sentences[i].text for i in background.selected or ()
    ]
    assert ["We do this."] == [method.paper.sentences[i].text for i in method.selected or ()]
    assert ["What we find."] == [result.paper.sentences[i].text for i in result.selected or ()]
    assert "What is known. What we aim at. What we do. Thanks. What we find." == background.paper.abstract


def test_a_query_without_a_sentence_of_its_facet_uses_its_whole_abstract(tmp_path: Path) -> None:
    """Without a sentence of its facet, the whole abstract is the query, and a note says so."""
    annotations = {**ANNOTATIONS, "background": {"q2": {"cands": ["c1"], "relevance_adju": [1]}}}
    splits = {**SPLITS, "background": {"fold1_dev": ["q2_background"]}}
    write(tmp_path, annotations=annotations, splits=splits)
    collection = CsfcubeSet().load(tmp_path)
    assert None is collection.queries[0].selected
    assert (
        "Query q2-background: no sentence has its facet, so the whole abstract counts.",
    ) == collection.notes


def test_half_a_collection_says_what_is_missing(tmp_path: Path) -> None:
    """Missing judgements and a missing fold are noted, as the figures are not comparable then."""
    write(tmp_path, annotations={**ANNOTATIONS, "method": {}})
    assert (
        "1 of the 3 queries of the splits have no judgements in this folder.",
        "Only fold1 is here: half of the collection, so the figures are not comparable with published ones.",
    ) == CsfcubeSet().load(tmp_path).notes


def test_papers_may_be_gzipped(folder: Path) -> None:
    """Gzipped papers give the same collection."""
    plain = CsfcubeSet().load(folder)
    papers = folder / "abstracts-csfcube-preds.jsonl"
    (folder / f"{papers.name}.gz").write_bytes(gzip.compress(papers.read_bytes()))
    papers.unlink()
    assert plain == CsfcubeSet().load(folder)


@pytest.mark.parametrize(
    "name", ["evaluation_splits.json", "abstracts-csfcube-preds.jsonl", "test-pid2anns-csfcube-method.json"]
)
def test_a_missing_file_says_where_the_collection_is_offered(name: str, folder: Path) -> None:
    """The error for a missing file names it, the publisher and the expected layout."""
    (folder / name).unlink()
    with pytest.raises(CollectionMissingError, match=rf"(?s){name}.*test-pid2anns.*github.com/iesl/CSFCube"):
        CsfcubeSet().load(folder)


@pytest.mark.parametrize(
    ("annotations", "splits", "message"),
    [
        ({}, {"method": {}, **{f: SPLITS[f] for f in ("background", "result")}}, "q2_method is in no fold"),
        ({}, {**SPLITS, "all": {"fold1_dev": ["q2_method"]}}, "q2_method is in both folds"),
        ({}, {"method": []}, "'method' holds no splits"),
        ({"method": {"q2": {"cands": ["c9"], "relevance_adju": [1]}}}, SPLITS, "1 papers, c9 for one"),
        ({"method": {"q2": {"cands": ["c1"], "relevance_adju": []}}}, SPLITS, "of equal length"),
        ({"method": {"q2": {"cands": ["c1"], "relevance_adju": [None]}}}, SPLITS, "of equal length"),
        ({"method": {"q2": {"cands": ["c1"]}}}, SPLITS, "relevance_adju"),
    ],
)
def test_files_that_contradict_one_another_are_refused(
    annotations: dict[str, Any], splits: Any, message: str, tmp_path: Path
) -> None:
    """Contradicting files are refused with a message that says where."""
    write(tmp_path, annotations={**ANNOTATIONS, **annotations}, splits=splits)
    with pytest.raises(CorpusFormatError, match=message):
        CsfcubeSet().load(tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"paper_id": "x", "title": "X", "abstract": ["One."]}, "no list pred_labels"),
        (
            {"paper_id": "x", "title": "X", "abstract": ["One."], "pred_labels": ["aim_label"]},
            "unknown facet 'aim'",
        ),
        (
            {"paper_id": "x", "title": "X", "abstract": ["One."], "pred_labels": []},
            "0 facets for 1 sentence",
        ),
    ],
)
def test_a_paper_that_cannot_be_used_is_named_with_its_line(
    row: dict[str, Any], message: str, folder: Path
) -> None:
    """An unusable paper is refused with its line."""
    with (folder / "abstracts-csfcube-preds.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(BrokenRowError, match=rf"preds.jsonl:5: .*{message}"):
        CsfcubeSet().load(folder)
