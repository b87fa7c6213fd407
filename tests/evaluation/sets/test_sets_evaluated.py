"""Tests of collections evaluated without rankings of papers: sentence functions, and SciDocs' other tasks."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float32

from evaluation.measurement import Request, measure
from evaluation.sets import functions
from evaluation.sets.functions import FunctionsSet
from evaluation.sets.scidocs import ScidocsSet
from evaluation.statistics.summary import Row
from evaluation.systems.system import TEXT_SYSTEMS
from evaluation.systems.vectors import VectorSource
from evaluation.tasks.classification import macro_f1
from evaluation.tasks.functions import Functions
from evaluation.tasks.recommendation import Click, Metadata, recommend
from evaluation.tasks.sentences import BLOCK_BYTES, retrieval_by_label, sentence_values
from evaluation.tasks.task import TaskOptions
from models.encoder import Encoder
from models.errors import (
    BrokenRowError,
    CollectionMissingError,
    CorpusFormatError,
    EncoderError,
    InputError,
)
from models.types import EncodedPaper, Paper, Sentence
from tests.support.builds import DEMO_CORPUS
from tests.support.examples.evaluation.set_examples import EXAMPLES, lines, write
from tests.support.outside_data import outside_data


def value(rows: Sequence[Row], facet: str, measure: str) -> float:
    """Return one figure of a table."""
    (row,) = [row for row in rows if (row.facet, row.measure) == (facet, measure)]
    assert row.low <= row.value <= row.high or math.isnan(row.low)
    return row.value


def reference(vectors: np.ndarray, labels: np.ndarray, query: int) -> tuple[float, float, float]:
    """Return P@1, R-precision and MAP@R of one query, computed rank by rank from their definitions."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    others = [i for i in range(len(labels)) if i != query]
    ranked = sorted(others, key=lambda i: -float(unit[query] @ unit[i]))
    hits = [labels[i] == labels[query] for i in ranked]
    r = sum(hits)
    precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(r) if hits[i]]
    return 100.0 * hits[0], 100.0 * sum(hits[:r]) / r, 100.0 * sum(precisions) / r


@pytest.mark.parametrize("block_bytes", [1, 1000, BLOCK_BYTES])
def test_retrieval_by_label_follows_its_definitions(block_bytes: int) -> None:
    """The values of every query equal those computed rank by rank, whatever the size of the blocks."""
    draw = np.random.default_rng(3)
    vectors = draw.normal(size=(40, 5)).astype(np.float32)
    labels = np.arange(40) % 3
    values = retrieval_by_label(vectors, labels, block_bytes=block_bytes)
    expected = np.array([reference(vectors, labels, query) for query in range(40)])
    found = np.stack([values[measure] for measure in ("P@1", "Rprec", "MAP@R")], axis=1)
    np.testing.assert_allclose(expected, found, atol=1e-9)


def test_retrieval_by_label_worked_by_hand() -> None:
    """Ranks that are right, wrong, right give MAP@R (1 + 0) / 2 for two other items with the label."""
    angles = np.radians([0, 10, 25, 45])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * 7
    values = retrieval_by_label(vectors, np.array([0, 0, 1, 0]))
    assert (100.0, 50.0, 50.0) == tuple(values[m][0] for m in ("P@1", "Rprec", "MAP@R"))
    assert (0.0, 50.0, 25.0) == tuple(values[m][3] for m in ("P@1", "Rprec", "MAP@R"))
    assert (0.0, 0.0, 0.0) == tuple(values[m][2] for m in ("P@1", "Rprec", "MAP@R"))


def test_functions_reports_every_label_and_clusters_by_abstract(tmp_path: Path) -> None:
    """Sentences with vectors of their function find each other; the only one with its label finds none."""
    EXAMPLES["functions"](tmp_path)
    axes = {"background": 0, "method": 1, "other": 2}

    def encode(papers: Sequence[Paper]) -> list[Float32[np.ndarray, "n_sentence dim"]]:
        return [np.eye(3, dtype=np.float32)[[axes[str(s.facet)] for s in p.sentences]] for p in papers]

    rows = FunctionsSet().evaluate(tmp_path, encode, system="labels")
    assert {"all", "background", "method", "other"} == {row.facet for row in rows}
    assert (80.0, 100.0, 0.0) == tuple(value(rows, f, "P@1") for f in ("all", "method", "other"))
    assert 80.0 == value(rows, "all", "MAP@R")
    assert {("functions", "labels", 5)} == {(r.set, r.system, r.n) for r in rows if r.facet == "all"}


def test_functions_leaves_out_sentences_without_a_vector(tmp_path: Path) -> None:
    """Sentences that the encoder dropped are neither queries nor candidates."""
    EXAMPLES["functions"](tmp_path)
    rows = FunctionsSet().evaluate(
        tmp_path, lambda papers: [np.ones((1, 2), dtype=np.float32) for _ in papers], system="first"
    )
    assert {2} == {row.n for row in rows}
    assert {"all", "background"} == {row.facet for row in rows}


def test_functions_refuses_vectors_that_are_not_of_sentences(tmp_path: Path) -> None:
    """More vectors than sentences are refused."""
    EXAMPLES["functions"](tmp_path)
    with pytest.raises(EncoderError, match="needs an encoder of sentences"):
        FunctionsSet().evaluate(
            tmp_path, lambda papers: [np.ones((9, 2), dtype=np.float32) for _ in papers], system="x"
        )


@pytest.mark.parametrize("wrong", ["null", "7", '["B."]'])
def test_functions_refuses_sentences_that_are_no_texts(tmp_path: Path, wrong: str) -> None:
    """A sentence that is not a text is refused with its line, not read as the name of its value."""
    write(tmp_path, "dev.jsonl", f'{{"sentences": ["A.", {wrong}], "labels": ["method", "method"]}}\n')
    with pytest.raises(BrokenRowError, match=r"dev\.jsonl:1: sentence 2 is not a text"):
        FunctionsSet().load(tmp_path)


def test_functions_refuses_labels_it_does_not_know(tmp_path: Path) -> None:
    """An unknown label is refused with its line."""
    write(tmp_path, "dev.jsonl", '{"sentences": ["A."], "labels": ["mood"]}\n')
    with pytest.raises(BrokenRowError, match=r"dev\.jsonl:1: unknown labels mood"):
        FunctionsSet().load(tmp_path)


def test_functions_refuses_a_file_without_a_sentence(tmp_path: Path) -> None:
    """An empty file is named."""
    write(tmp_path, "dev.jsonl", "")
    with pytest.raises(InputError, match=r"dev\.jsonl holds no labelled sentence"):
        FunctionsSet().load(tmp_path)


def test_functions_reads_its_file_once_for_all_systems(
    tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file is not parsed again for each way to give sentences vectors."""
    EXAMPLES["functions"](tmp_path)
    read: list[Path] = []
    whole = functions.read_labelled_sentences
    monkeypatch.setattr(functions, "read_labelled_sentences", lambda file: read.append(file) or whole(file))
    source = VectorSource(hashing, on_progress=lambda *_: None)
    rows = list(FunctionsSet().figures(tmp_path, [source], [], functions=()))
    assert {"hashing:alone", "hashing:context"} == {row.system for row in rows}
    assert [tmp_path / "dev.jsonl"] == read


def test_two_ways_to_give_sentences_vectors_are_compared_by_sentence() -> None:
    """A lead is the difference of the figures, with its interval; other sentences are refused."""
    labels = {str(i): "ab"[i % 2] for i in range(40)}
    clusters = {each: str(int(each) // 4) for each in labels}
    known = np.eye(2, dtype=np.float32)[[list("ab").index(label) for label in labels.values()]]
    mixed = known + np.random.default_rng(0).normal(size=known.shape).astype(np.float32)
    first, second = (sentence_values(each, labels, clusters) for each in (known, mixed))
    (lead,) = first.minus(second, ("P@1",))
    assert ("P@1", "all", 40) == (lead.measure, lead.facet, lead.difference.n)
    apart = value(first.rows("x"), "all", "P@1") - value(second.rows("y"), "all", "P@1")
    assert pytest.approx(apart) == lead.difference.value
    assert 0 < lead.difference.low < apart < lead.difference.high
    fewer = dict(list(labels.items())[:-1])
    with pytest.raises(InputError, match="same queries on both sides"):
        first.minus(sentence_values(known[:-1], fewer, clusters))


def test_the_task_of_functions_compares_the_pairs_it_has(tmp_path: Path) -> None:
    """A pair with a system that the encoder lacks is left out; the others are corrected together."""
    EXAMPLES["functions"](tmp_path)
    own = ("{encoder}:context", "{encoder}:alone")
    quick = TaskOptions("hashing", None, "cpu", 3, lambda *_: None)
    found = Functions((own, (f"{own[0]}:layer1", own[1]))).measure(tmp_path, quick)
    assert {("hashing:context", "hashing:alone", "MAP@R"), ("hashing:context", "hashing:alone", "P@1")} == {
        (each.a, each.b, each.comparison.measure) for each in found.compared
    }
    assert not any(math.isnan(each.comparison.p_corrected) for each in found.compared)
    assert {"hashing:context", "hashing:alone"} == {row.system for row in found.rows}
    assert {"MAP@R", "P@1"} == {row.measure for row in found.rows}
    assert (2, 0) == (found.n_papers, found.n_queries)
    assert ("Sentences of dev.jsonl.", "--limit-queries does not apply to labelled sentences.") == found.notes


RCT = """###24491034
BACKGROUND\tWe ask .
METHODS\tWe count .
CONCLUSIONS\tIt works .

###2
RESULTS\tWe found .
RESULTS\t
CONCLUSIONS\tIt works , too .
"""


def test_functions_reads_pubmed_rct(tmp_path: Path) -> None:
    """Results are by PubMed RCT's labels; conclusions have the facet result; empty sentences are dropped."""
    write(tmp_path, "dev.txt", RCT)
    papers = FunctionsSet().load(tmp_path).papers
    facets = {name: [str(sentence.facet) for sentence in paper.sentences] for name, paper in papers.items()}
    assert {"24491034": ["background", "method", "result"], "2": ["result", "result"]} == facets
    axes = {"We ask .": 0, "We count .": 1, "It works .": 2, "We found .": 3, "It works , too .": 2}
    rows = FunctionsSet().evaluate(
        tmp_path,
        lambda papers: [np.eye(4, dtype=np.float32)[[axes[s.text] for s in p.sentences]] for p in papers],
        system="x",
    )
    counts = {row.facet: row.n for row in rows}
    assert {"all": 5, "background": 1, "methods": 1, "results": 1, "conclusions": 2} == counts
    assert 100.0 == value(rows, "conclusions", "P@1")


@pytest.mark.parametrize("content", ["RESULTS\tA.\n", "###1\nRESULTS A.\n", "###1\nMOOD\tA.\n"])
def test_functions_names_the_line_of_a_broken_pubmed_rct_file(tmp_path: Path, content: str) -> None:
    """A sentence without an abstract, or with a missing or unknown label, is refused with its line."""
    write(tmp_path, "test.txt", "\n" + content)
    line = 1 + len(content.splitlines())
    with pytest.raises(BrokenRowError, match=rf"test\.txt:{line}: neither ###ID nor LABEL <TAB> sentence"):
        FunctionsSet().load(tmp_path)


def test_functions_reads_sentences_labelled_with_communicative_functions(tmp_path: Path) -> None:
    """Any label is accepted; each sentence is a text, and those of a paper form a cluster."""
    rows = [
        ("Aim of the paper", "we aim", "We aim at x.", "P1_s-1-0"),
        ("Summary of past work", "all of", "All of it is past.", "P1_s-1-1"),
        ("Aim of the paper", "the aim", "The aim is y.", "P2_s-1-0"),
    ]
    file = tmp_path / "sentences.tsv"
    file.write_text("\n" + "".join("\t".join(row) + "\n" for row in rows))
    labelled = functions.read_labelled_sentences(file)
    assert [row[2] for row in rows] == [paper.abstract for paper in labelled.papers.values()]
    assert [(row[0],) for row in rows] == list(labelled.labels.values())
    assert ["P1", "P1", "P2"] == list(labelled.clusters.values())
    axes = iter([[0], [1], [0]])
    found = FunctionsSet().evaluate(
        file, lambda papers: [np.eye(2, dtype=np.float32)[next(axes)] for _ in papers], system="x"
    )
    assert 100.0 == value(found, "Aim of the paper", "P@1")
    assert {None} == {s.facet for p in FunctionsSet().load(file).papers.values() for s in p.sentences}
    file.write_text("Aim of the paper\tThe aim is y.\n")
    with pytest.raises(BrokenRowError, match=r"sentences\.tsv:1: 2 columns; expected function, phrase"):
        functions.read_labelled_sentences(file)


def test_functions_reads_all_tables_of_communicative_functions_of_a_folder(tmp_path: Path) -> None:
    """The sentences of all .tsv files of a folder, one for each section of papers, are one pool."""
    write(tmp_path, "method.tsv", "Aim of the paper\tthe aim\tThe aim is y.\tP1_s-2-0\n")
    write(tmp_path, "introduction.tsv", "Aim of the paper\twe aim\tWe aim at x.\tP1_s-1-0\n")
    labelled = FunctionsSet().labelled(tmp_path)
    assert ["introduction.tsv:line:1", "method.tsv:line:1"] == list(labelled.papers)
    assert labelled.papers.keys() == labelled.labels.keys() == {each.id for each in labelled.papers.values()}
    assert ["P1", "P1"] == list(labelled.clusters.values())
    assert ("Sentences of introduction.tsv, method.tsv.",) == FunctionsSet().load(tmp_path).notes
    EXAMPLES["functions"](tmp_path)
    assert ("Sentences of dev.jsonl.",) == FunctionsSet().load(tmp_path).notes


def precision_and_chance(path: Path, hashing: Encoder, expected: dict[str, int]) -> tuple[Row, float]:
    """Return P@1 of the hashing encoder, and of chance, after checking the count of each label."""
    rows = FunctionsSet().evaluate(
        path, lambda papers: [encoded.sentences for encoded in hashing.encode(papers)], system="hashing"
    )
    total = sum(expected.values())
    assert {"all": total, **expected} == {row.facet: row.n for row in rows}
    (found,) = [row for row in rows if (row.facet, row.measure) == ("all", "P@1")]
    return found, 100.0 * sum(n * (n - 1) for n in expected.values()) / (total * (total - 1))


def test_functions_on_the_demo_corpus(hashing: Encoder, tmp_path: Path) -> None:
    """On the demo's invented abstracts, hashed words are resolvably better than chance."""
    papers = [json.loads(line) for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
    rows = ({"sentences": paper["abstract"], "labels": paper["facets"]} for paper in papers)
    write(tmp_path, "dev.jsonl", lines(*rows))
    counts = Counter(label for paper in papers for label in paper["facets"])
    found, by_chance = precision_and_chance(tmp_path / "dev.jsonl", hashing, dict(counts))
    assert pytest.approx(34.4, abs=0.5) == found.value
    assert found.low > by_chance


def test_functions_on_csabstruct(hashing: Encoder) -> None:
    """CSAbstruct has 295 abstracts and 2,026 sentences, and hashed words are better than chance."""
    path = outside_data("csabstruct/dev.jsonl")
    assert 295 == len(FunctionsSet().load(path).papers)
    counts = {"background": 681, "method": 624, "objective": 244, "result": 410, "other": 67}
    found, by_chance = precision_and_chance(path, hashing, counts)
    assert found.value > by_chance + 5


def by_words(papers: Sequence[Paper]) -> Float32[np.ndarray, "n_papers dim"]:
    """Return vectors that separate cats from ores."""
    return np.array([["cat" in p.abstract, "ore" in p.abstract, 0.1] for p in papers], dtype=np.float32)


def test_scidocs_measures_classes_and_clicks(tmp_path: Path) -> None:
    """Vectors that separate the classes classify all test papers and rank clicked papers first."""
    EXAMPLES["scidocs"](tmp_path)
    rows = ScidocsSet().evaluate(tmp_path, by_words, system="words")
    assert [
        ("mag", "macro-F1", 8),
        ("mesh", "macro-F1", 8),
        ("recomm", "adj-NDCG", 2),
        ("recomm", "adj-P@1", 2),
    ] == [(row.facet, row.measure, row.n) for row in rows]
    assert [100.0] * 4 == [value(rows, row.facet, row.measure) for row in rows]


def test_scidocs_without_knowledge_is_at_the_floor(tmp_path: Path) -> None:
    """Equal vectors put every paper into one class, with F1 of 2/3 for it and 0 for the other."""
    EXAMPLES["scidocs"](tmp_path)
    rows = ScidocsSet().evaluate(
        tmp_path, lambda papers: np.ones((len(papers), 3), dtype=np.float32), system="nothing"
    )
    assert pytest.approx(100 / 3) == value(rows, "mag", "macro-F1")


@pytest.mark.parametrize(
    "file", ["mag/test.csv", "recomm/propensity_scores.json", "paper_metadata_recomm.json"]
)
def test_scidocs_names_what_its_other_tasks_lack(file: str, tmp_path: Path) -> None:
    """A file that only ``evaluate`` needs is reported missing before anything is encoded."""
    EXAMPLES["scidocs"](tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(CollectionMissingError, match=Path(file).name):
        ScidocsSet().evaluate(tmp_path, lambda papers: pytest.fail("encoded"), system="x")


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        ("query,clicked,shown\nq,a,a,b,c\n", BrokenRowError, r"test\.csv:2: more fields than the header"),
        ('query,clicked,shown\n"q\n",a,"a,b"\nq,x,"a,b"\n', BrokenRowError, r"test\.csv:4: expected query"),
        ("query,clicked,shown\n", CorpusFormatError, r"test\.csv holds no click"),
    ],
)
def test_scidocs_leaves_no_click_out_in_silence(
    content: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    """Clicks that cannot be read are refused with their line, and so is a file without any."""
    EXAMPLES["scidocs"](tmp_path)
    (tmp_path / "recomm" / "test.csv").write_text(content, encoding="utf-8")
    with pytest.raises(error, match=said):
        ScidocsSet().evaluate(tmp_path, by_words, system="words")


def test_macro_f1_counts_classes_alike() -> None:
    """Two classes of 4 and 1 papers with F1 of 6/7 and 0 average to 3/7; an empty class does not count."""
    table = np.array([[[3, 1, 0], [0, 0, 0], [0, 0, 0]], [[4, 0, 0], [0, 1, 0], [0, 0, 0]]])
    np.testing.assert_allclose([100 * (6 / 7 + 0) / 2, 100.0], macro_f1(table))


def test_a_click_weighs_the_more_the_rarer_its_position_is_clicked() -> None:
    """A click weighs by inverse propensity: right at 0.4 and wrong at 0.2, P@1 is 1/0.4 of 1/0.4 + 1/0.2."""
    papers = {n: Paper(n, "", n, (Sentence(n, 0, len(n)),)) for n in ("q", "near", "far")}
    angles = {"q": 0.0, "near": 0.1, "far": 1.5}

    def encode(given: Sequence[Paper]) -> Float32[np.ndarray, "n_papers dim"]:
        return np.array([[math.cos(angles[p.id]), math.sin(angles[p.id])] for p in given], dtype=np.float32)

    liked, disliked = Click("q", "near", ("near", "far")), Click("q", "far", ("near", "far"))
    rows = recommend(
        {"train": [liked] * 400, "val": [liked], "test": [liked, disliked]},
        dict.fromkeys(papers, Metadata("", None, frozenset(), frozenset(), frozenset())),
        (0.4, 0.2),
        papers,
        encode,
        system="angles",
    )
    weight_liked, weight_disliked = 1 / 0.4, 1 / 0.2
    total = weight_liked + weight_disliked
    assert pytest.approx(100 * weight_liked / total) == value(rows, "recomm", "adj-P@1")
    expected = 100 * (weight_liked + weight_disliked / math.log2(3)) / total
    assert pytest.approx(expected) == value(rows, "recomm", "adj-NDCG")


def test_a_click_beyond_the_known_positions_is_refused() -> None:
    """A click at a position without a propensity is refused."""
    click = Click("q", "b", ("a", "b"))
    with pytest.raises(InputError, match="position 2, but propensities of 1 positions"):
        recommend({"test": [click]}, {}, (0.4,), {}, lambda papers: pytest.fail("encoded"), system="x")


def test_a_tie_with_the_clicked_paper_counts_half() -> None:
    """Two papers with equal vectors share ranks 1 and 2: NDCG is 1 / log2(2.5), and P@1 is 0."""
    papers = {n: Paper(n, "", n, (Sentence(n, 0, len(n)),)) for n in ("q", "one", "twin")}
    click = Click("q", "twin", ("one", "twin"))
    rows = recommend(
        {"train": [click] * 10, "val": [click], "test": [click]},
        {},
        (0.4, 0.2),
        papers,
        lambda given: np.ones((len(given), 2), dtype=np.float32),
        system="blind",
    )
    assert pytest.approx(100 / math.log2(2.5)) == value(rows, "recomm", "adj-NDCG")
    assert 0.0 == value(rows, "recomm", "adj-P@1")


def test_scidocs_has_the_mean_of_its_twelve_figures(tmp_path: Path) -> None:
    """SPECTER's "Avg" is over 12 figures: four rankings and clicks with two each, and two classes."""
    EXAMPLES["scidocs"](tmp_path)
    request = Request(systems=("bm25", "hashing:document"))
    rows = measure("scidocs", tmp_path, request, on_progress=lambda *_: None).rows
    (average,) = [row for row in rows if row.measure == "Avg"]
    own = [row for row in rows if row.system == "hashing:document" and row.facet != "all"]
    assert ("hashing:document", 12) == (average.system, average.n)
    assert pytest.approx(sum(row.value for row in own) / 12) == average.value
    assert math.isnan(average.low)


@pytest.mark.parametrize("name", ["functions", "scidocs"])
def test_an_encoder_in_a_folder_has_one_name_in_all_figures(
    name: str, hashing: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures have the name given for an encoder, although one in a folder calls itself by its whole path."""

    class InFolder:
        spec = replace(hashing.spec, name=str(tmp_path / "runs/encoder"))

        def encode(self, papers: Sequence[Paper], *, layers: Sequence[int] = ()) -> Sequence[EncodedPaper]:
            return hashing.encode(papers, layers=layers)

    monkeypatch.setattr("evaluation.measurement.load_encoder", lambda *_, **__: InFolder())
    EXAMPLES[name](tmp_path)
    request = Request(encoders=("runs/encoder",), scorers=())
    systems = {row.system for row in measure(name, tmp_path, request, on_progress=lambda *_: None).rows}
    by_words = set(TEXT_SYSTEMS)
    assert {"runs/encoder"} == {system.partition(":")[0] for system in systems - by_words}


@pytest.mark.parametrize(("name", "noted"), [("functions", True), ("beir", False)])
def test_a_limit_of_queries_that_covers_only_rankings_is_noted(
    name: str, noted: bool, tmp_path: Path
) -> None:
    """A set that also measures vectors says that it measures all of them in spite of the limit."""
    EXAMPLES[name](tmp_path)
    request = Request(encoders=("hashing",), limit_queries=1)
    notes = measure(name, tmp_path, request, on_progress=lambda *_: None).collection.notes
    assert noted == ("--limit-queries applies only to rankings of papers." in notes)
