"""Tests of measures and runs: values computed by hand, and changes that must not matter."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import ir_measures
import pytest

from evaluation.collection import Collection, EvalQuery
from evaluation.measures import MEASURES, per_query
from evaluation.run import Run, read_trec, write_trec
from models.errors import InputError, StorageError, UnknownNameError
from models.types import Paper

ANY_NUMBER = {"k": "5", "p": "20"}
EVERY_MEASURE = tuple(
    name[:-1] + ANY_NUMBER[name[-1]] if name.endswith(("@k", "%p")) else name for name in MEASURES
)


def paper(name: str) -> Paper:
    """Return a paper with only an id that matters."""
    return Paper(id=name, title=name, abstract="", sentences=())


def collection(**grades: int) -> Collection:
    """Return a collection with one query ``q`` of the paper ``self``, and a pool of the graded papers."""
    papers = {name: paper(name) for name in (*grades, "self")}
    query = EvalQuery(id="q", paper=papers["self"], pool=tuple(grades), cluster="self")
    return Collection("invented", papers, (query,), {"q": grades}, relevant_from=2, measures=EVERY_MEASURE)


def run(*ranking: str) -> Run:
    """Return a run that answers ``q`` with ``ranking``."""
    return Run("invented", {"q": {name: -float(rank) for rank, name in enumerate(ranking)}})


# Ranked a b c d e f; relevant are b (3), d (2) and f (2).
GRADES = {"a": 1, "b": 3, "c": 0, "d": 2, "e": 0, "f": 2}
LOG = math.log2
NDCG_4 = (1 + 3 + 2 / LOG(4)) / (3 + 2 + 2 / LOG(3) + 1 / LOG(4))
NDCG = (1 + 3 + 2 / LOG(4) + 2 / LOG(6)) / (3 + 2 + 2 / LOG(3) + 1 / LOG(4))
TREC_NDCG_4 = (1 + 3 / LOG(3) + 2 / LOG(5)) / (3 + 2 / LOG(3) + 2 / LOG(4) + 1 / LOG(5))
TREC_NDCG = (1 + 3 / LOG(3) + 2 / LOG(5) + 2 / LOG(7)) / (3 + 2 / LOG(3) + 2 / LOG(4) + 1 / LOG(5))


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("NDCG%20", 1 / 3),  # one of six papers
        ("NDCG%50", (1 + 3) / (3 + 2 + 2 / LOG(3))),
        ("CSFCube-NDCG@4", NDCG_4),
        ("CSFCube-NDCG", NDCG),
        ("nDCG@4", TREC_NDCG_4),
        ("nDCG", TREC_NDCG),
        ("MAP", (1 / 2 + 2 / 4 + 3 / 6) / 3),
        ("MAP@R", (1 / 2) / 3),
        ("P@1", 0),
        ("P@4", 2 / 4),
        ("P@20", 3 / 20),
        ("R@4", 2 / 3),
        ("F1@4", 2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3)),
        ("RR", 1 / 2),
        ("Rprec", 1 / 3),
        ("precision@last-relevant", 3 / 6),
    ],
)
def test_a_measure_has_the_value_computed_by_hand(measure: str, expected: float) -> None:
    """Each measure of one ranking of six graded papers equals the value computed by hand."""
    values = per_query(collection(**GRADES), run(*"abcdef"), [measure])
    assert {measure: {"q": pytest.approx(100 * expected)}} == values


def test_ranks_1_and_2_count_alike_in_one_ndcg_and_not_in_the_other() -> None:
    """NDCG is CSFCube's, in which ranks 1 and 2 have the same weight; nDCG is trec_eval's."""
    swapped = per_query(collection(**GRADES), run(*"bacdef"), ["CSFCube-NDCG", "nDCG"])
    values = per_query(collection(**GRADES), run(*"abcdef"), ["CSFCube-NDCG", "nDCG"])
    assert swapped["CSFCube-NDCG"] == pytest.approx(values["CSFCube-NDCG"])
    assert swapped["nDCG"]["q"] > values["nDCG"]["q"] + 1


@pytest.mark.parametrize("measure", EVERY_MEASURE)
def test_a_perfect_ranking_has_the_highest_value(measure: str) -> None:
    """No order of the pool has a higher value than the ideal one."""
    graded = collection(**GRADES)
    best = per_query(graded, run(*"bdface"), [measure])[measure]["q"]
    for order in itertools.islice(itertools.permutations("abcdef"), 0, None, 24):
        assert per_query(graded, run(*order), [measure])[measure]["q"] <= best + 1e-9


def test_map_at_r_is_average_precision_cut_at_the_number_of_relevant_papers() -> None:
    """MAP@R of the metric-learning papers equals trec_eval's average precision cut at R = 3."""
    graded = collection(**GRADES)
    ranks = {"q": {name: float(-rank) for rank, name in enumerate("bacdef")}}
    (oracle,) = ir_measures.iter_calc([ir_measures.AP(rel=2) @ 3], graded.qrels, ranks)  # type: ignore[arg-type]  # a dict of dicts
    assert 100 * oracle.value == pytest.approx(per_query(graded, run(*"bacdef"), ["MAP@R"])["MAP@R"]["q"])


def test_a_query_deleted_from_a_run_counts_as_zero() -> None:
    """A query has a value of 0 in every measure if the run has no paper of its pool for it."""
    graded = collection(**GRADES)
    zero = {measure: {"q": 0.0} for measure in EVERY_MEASURE}
    for scores in ({}, {"q": {}}, {"q": {"stranger": 1.0}}, {"another": {"b": 1.0}}):
        assert zero == per_query(graded, Run("poor", scores))


def test_a_query_without_relevant_papers_counts_as_zero() -> None:
    """A query without relevant papers has a value of 0 in every measure."""
    for graded in (collection(a=0, b=0), replace(collection(a=0, b=0), qrels={})):
        assert {measure: {"q": 0.0} for measure in EVERY_MEASURE} == per_query(graded, run("a", "b"))


def test_shuffling_ties_changes_nothing() -> None:
    """Papers with equal scores are ordered by id, whatever their order in the run."""
    tied = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.5, "e": 0.5, "f": 0.5}
    expected = per_query(collection(**GRADES), Run("tied", {"q": tied}))
    for order in itertools.islice(itertools.permutations("abcdef"), 0, None, 48):
        scores = {name: tied[name] for name in order}
        grades = {name: GRADES[name] for name in reversed(order)}
        assert list("abcdef") == Run("tied", {"q": scores}).ranking("q")
        assert expected == per_query(collection(**grades), Run("tied", {"q": scores}))


def test_no_two_measures_differ_by_the_case_of_a_letter() -> None:
    """Names of measures differ by more than case, and a name in the wrong case is an error."""
    assert len(MEASURES) == len({name.lower() for name in MEASURES})
    with pytest.raises(UnknownNameError, match="CSFCube-NDCG@k"):
        per_query(collection(a=1), Run("one", {"q": {"a": 1.0}}), ["NDCG@20"])


def test_ties_are_ordered_alike_for_all_measures() -> None:
    """Ties have the same order in all measures, not trec_eval's own, which puts the higher id first."""
    values = per_query(
        collection(a=2, b=0), Run("tied", {"q": {"a": 1.0, "b": 1.0}}), ["P@1", "CSFCube-NDCG@1"]
    )
    assert {"P@1": {"q": 100.0}, "CSFCube-NDCG@1": {"q": 100.0}} == values


def test_adding_the_query_to_its_own_pool_changes_nothing() -> None:
    """The query paper is dropped from the pool, from the judgements and from the ranking."""
    graded = collection(**GRADES)
    (query,) = graded.queries
    with_self = replace(
        graded,
        queries=(replace(query, pool=(*query.pool, "self")),),
        qrels={"q": {**GRADES, "self": 3}},
    )
    expected = per_query(graded, run(*"abcdef"))
    assert expected == per_query(with_self, run("self", *"abcdef"))
    assert expected == per_query(graded, run("self", *"abcdef"))


def test_the_query_paper_does_not_lengthen_the_pool() -> None:
    """The query paper does not count in the size of the pool: 10 % of 19 papers are one, of 20 two."""
    grades = {f"p{i:02}": 2 * (i == 1) for i in range(19)}
    graded = collection(**grades)
    ranked = run(*grades)
    (query,) = graded.queries
    for pool in ((*query.pool, "self"), ()):
        listed = replace(graded, queries=(replace(query, pool=pool),))
        assert {"NDCG%10": {"q": 0.0}} == per_query(listed, ranked, ["NDCG%10"])
    longer = replace(
        graded, papers={**graded.papers, "p19": paper("p19")}, queries=(replace(query, pool=()),)
    )
    assert {"NDCG%10": {"q": 100.0}} == per_query(longer, ranked, ["NDCG%10"])


def test_papers_outside_the_pool_are_dropped() -> None:
    """Papers outside the pool change nothing, whether they are ranked or judged."""
    graded = collection(**GRADES)
    wider = replace(graded, qrels={"q": {**GRADES, "stranger": 3}})
    expected = per_query(graded, run(*"abcdef"))
    assert expected == per_query(wider, run("stranger", *"abcdef"))


def test_a_paper_of_the_pool_left_out_ranks_below_all() -> None:
    """A missing paper ranks last, and only lowers measures that count all relevant papers."""
    whole = per_query(collection(**GRADES), run(*"abcdef"))
    cut = per_query(collection(**GRADES), run(*"abcde"))
    assert [whole[name] for name in ("P@5", "RR", "Rprec", "CSFCube-NDCG@5")] == [
        cut[name] for name in ("P@5", "RR", "Rprec", "CSFCube-NDCG@5")
    ]
    assert 100 * (1 / 2 + 2 / 4) / 3 == pytest.approx(cut["MAP"]["q"])
    assert 100 * (NDCG - 2 / LOG(6) / (5 + 2 / LOG(3) + 1 / LOG(4))) == pytest.approx(
        cut["CSFCube-NDCG"]["q"]
    )
    assert {"q": 0.0} == cut["precision@last-relevant"]


def test_without_a_pool_the_whole_collection_is_ranked() -> None:
    """Without a pool every ranked paper except the query paper counts, whether judged or not."""
    graded = collection(a=2, b=0)
    everything = replace(graded, queries=(replace(graded.queries[0], pool=()),))
    values = per_query(everything, run("self", "x", "a", "b"), ["P@1", "RR"])
    assert {"P@1": {"q": 0.0}, "RR": {"q": 50.0}} == values


@pytest.mark.parametrize(
    "name", ["ndcg@20", "P@", "P@0", "P@k", "NDCG%p", "NDCG%", "MAP5", "MAP@20", "", "@5"]
)
def test_an_unknown_measure_is_refused(name: str) -> None:
    """The error for an unknown measure lists the known ones."""
    with pytest.raises(UnknownNameError, match="precision@last-relevant"):
        per_query(collection(a=1), run("a"), [name])


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_refused(score: float) -> None:
    """A run with a score that is not finite is refused."""
    with pytest.raises(InputError, match="finite"):
        Run("broken", {"q": {"a": 1.0, "b": score}})


def test_a_score_in_a_file_that_is_not_finite_is_named(tmp_path: Path) -> None:
    """A file with such a score is refused with its line."""
    path = tmp_path / "run.trec"
    path.write_text("q Q0 a 1 2.0 x\nq Q0 b 2 1e999 x\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"run\.trec:2: the score '1e999' is not finite"):
        read_trec(path)


def test_a_run_survives_its_file(tmp_path: Path) -> None:
    """A run written and read again has exactly the same scores, without the queries that have no papers."""
    written = Run("a-system", {"q1": {"a": 1 / 3, "b": -1e-17}, "q2": {"c": 2.0}, "q3": {}})
    path = tmp_path / "run.trec"
    write_trec(written, path)
    assert "q1 Q0 a 1 0.3333333333333333 a-system" == path.read_text().splitlines()[0]
    assert Run("a-system", {"q1": {"a": 1 / 3, "b": -1e-17}, "q2": {"c": 2.0}}) == read_trec(path)
    assert "another" == read_trec(path, system="another").system


@pytest.mark.parametrize(
    ("system", "query_id", "paper_id"),
    [("two words", "q", "a"), ("s", "q 1", "a"), ("s", "q", "a\tb"), ("s", "", "a")],
)
def test_what_the_trec_format_cannot_hold_is_not_written(
    system: str, query_id: str, paper_id: str, tmp_path: Path
) -> None:
    """Names that are empty or have several words, which would shift the fields, are refused."""
    with pytest.raises(InputError, match="one word"):
        write_trec(Run(system, {query_id: {paper_id: 1.0}}), tmp_path / "run.trec")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"q Q0 a 1 0.5\n", ":1: 5 fields"),
        (b"q Q0 a 1 0.5 s\nq Q0 b 2 high s\n", ":2: the score 'high'"),
        (b"q Q0 a 1 nan s\n", "finite"),
        (b"q Q0 a 1 0.5 s\nq Q0 a 2 0.4 s\n", ":2: paper 'a' comes twice"),
        (b"q Q0 a 1 0.5 s\nq Q0 b 2 0.4 t\n", "2 systems .*; split the file by its last column"),
        (b"q Q0 \xff 1 0.5 s\n", ":1: no UTF-8"),
        (b"", "holds no line of a run; make the run again"),
    ],
)
def test_a_broken_run_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """A broken run file is refused, with the line if there is one."""
    path = tmp_path / "run.trec"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_trec(path)


def test_a_run_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    """Reading and writing raise ``StorageError`` with the path."""
    path = tmp_path / "absent" / "run.trec"
    with pytest.raises(StorageError, match="absent"):
        read_trec(path)
    with pytest.raises(StorageError, match="absent"):
        write_trec(run("a"), path)
