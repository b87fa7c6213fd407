"""Tests of collections in TREC's formats, with all kinds of topics, and of ASPIRE's TREC-COVID."""

import csv
import random
from pathlib import Path

import pytest

from evaluation.measures import per_query
from evaluation.run import Run
from evaluation.sets.aspire.treccovid import TreccovidRfSet, draw_queries, split_topics
from evaluation.sets.doris_mae import RELEVANT_FROM
from evaluation.systems.systems import Systems
from evaluation.systems.tagged import has_facet
from evaluation.systems.vectors import VectorSource
from models.encoder import Encoder
from models.errors import CorpusFormatError, InputError
from tests.support.examples.evaluation.set_examples import EXAMPLES, example, lines, query, reader_of, write
from tests.support.examples.evaluation.system_examples import ignore


def test_treccovid_reads_the_prepared_files(tmp_path: Path) -> None:
    """Queries of one topic share a cluster, and an empty pool means all other papers."""
    collection = example("treccovid-rf", tmp_path)
    first = query(collection, "a")
    assert ("treccovid-rf", 1) == (collection.name, collection.relevant_from)
    assert ((), "topic:1", "dev") == (first.pool, first.cluster, first.fold)
    assert {"a": {"b": 1}, "b": {"a": 1}} == collection.qrels


def test_treccovid_is_built_by_aspires_rule(tmp_path: Path) -> None:
    """Papers judged 2, with title and abstract, are relevant to queries of the same single topic."""
    judged = [("1", "a", 2), ("1", "b", 2), ("1", "ab", 2), ("2", "ab", 2), ("2", "c", 2), ("2", "d", 2)]
    judged += [("2", "e", 2), ("1", "partly", 1), ("1", "untold", 2), ("2", "na", 2)]
    write(tmp_path, "qrels-covid_d5_j0.5-5.txt", "".join(f"{t} 4.5 {p} {g}\n" for t, p, g in judged))
    with (tmp_path / "metadata-2021-06-21.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["cord_uid", "sha", "title", "abstract"])
        for paper in ("a", "b", "ab", "c", "d", "e", "partly", "unjudged"):
            rows.writerow([paper, "", f"On {paper}", ""])
            rows.writerow([paper, "", f"On {paper}", f"We study {paper},\nat length."])
        rows.writerow(["na", "", "On na", "N/A"])
    collection = TreccovidRfSet().load(tmp_path)
    assert {"a", "b", "ab", "c", "d", "e"} == collection.papers.keys()
    assert {"a", "b", "c", "d", "e"} == {each.id for each in collection.queries}
    assert {"b": 1, "ab": 1} == collection.qrels["a"]
    assert {"ab": 1, "d": 1, "e": 1} == collection.qrels["c"]
    assert "topic:2" == query(collection, "c").cluster
    folds = {query(collection, "a").fold, query(collection, "c").fold}
    assert {"dev", "test"} == folds


def test_treccovid_draws_fifty_queries_in_the_published_order() -> None:
    """Queries are drawn with one random stream of the publishers' seed, the smallest topic first."""
    relevant = {"1": [f"p{i}" for i in range(80)], "2": [f"q{i}" for i in range(3)]}
    drawn = draw_queries(relevant, dict.fromkeys([*relevant["1"], *relevant["2"]], 1))
    random.seed(472945)
    first, second = list(relevant["2"]), list(relevant["1"])
    random.shuffle(first)
    random.shuffle(second)
    assert {"2": first, "1": second[:50]} == drawn
    assert ["2", "1"] == list(drawn)


def test_treccovid_splits_topics_as_published() -> None:
    """Half of the topics, sorted as text and shuffled with the publishers' seed, are dev."""
    topics = [str(number) for number in range(1, 6)]
    order = sorted(topics)
    random.seed(582)
    random.shuffle(order)
    assert order[:2] == [t for t in order if split_topics(topics)[t] == "dev"]


def test_trec_reads_topics_that_are_texts_or_papers(tmp_path: Path) -> None:
    """A topic is a text, or sentences or a facet of a paper; junk has grade 0; unjudged ones are dropped."""
    collection = example("trec", tmp_path)
    assert ["t1", "t2", "t3"] == [each.id for each in collection.queries]
    text, chosen, facet = collection.queries
    assert (True, "Who weighs tides?", "t1") == (text.is_text, text.paper.abstract, text.cluster)
    assert (False, (0,), "all", "tides") == (chosen.is_text, chosen.selected, chosen.facet, chosen.cluster)
    assert ((1,), "method", "tides") == (facet.selected, facet.facet, facet.paper.id)
    assert {"tides": 1, "moons": 0} == collection.qrels["t1"]


def test_trec_groups_sentences_by_a_facet_that_does_not_choose_them(tmp_path: Path, hashing: Encoder) -> None:
    """Sentences given beside a facet rank as without it, also in systems that tag or weigh words."""
    EXAMPLES["trec"](tmp_path)
    topic = {"id": "t2", "paper_id": "tides", "sentences": [1]}
    write(tmp_path, "topics.jsonl", lines(topic, topic | {"id": "t3", "facet": "result"}))
    write(tmp_path, "qrels.txt", "t2 0 dunes 2\nt3 0 dunes 2\n")
    collection = reader_of("trec").load(tmp_path)
    assert ["all", "result"] == [each.facet for each in collection.queries]
    systems = Systems(collection, lambda _: VectorSource(hashing, on_progress=ignore))
    for name in ("hashing:ot:focus:words", "hashing:ot:focus"):
        scores = systems.rank(name).scores
        assert dict(scores["t2"]) == dict(scores["t3"])
    assert not any(map(has_facet, collection.queries))


def test_trec_says_which_papers_it_leaves_out(tmp_path: Path) -> None:
    """Papers without an abstract are counted in a note, and in the error for a topic that names one."""
    EXAMPLES["trec"](tmp_path)
    (tmp_path / "corpus.jsonl.gz").unlink()
    entries = [
        f"@article{{{name}, title={{On {name}}}, abstract={{We weigh {name}.}}}}"
        for name in ("tides", "moons")
    ]
    write(tmp_path, "corpus.bib", "\n".join([*entries, "@article{dunes, title={On dunes}}", ""]))
    topics = [{"id": "t1", "query": "Who weighs tides?"}]
    write(tmp_path, "topics.jsonl", lines(*topics))
    collection = reader_of("trec").load(tmp_path)
    assert ["tides", "moons"] == list(collection.papers)
    assert "Left out: 1 paper of corpus.bib without an abstract." in collection.notes
    write(tmp_path, "topics.jsonl", lines(*topics, {"id": "t2", "paper_id": "dunes"}))
    with pytest.raises(InputError, match=r"'dunes' is not in the corpus\. Left out: 1 paper of corpus\.bib"):
        reader_of("trec").load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("topics.tsv", "t1\tWho weighs tides?\nt9\tUnjudged?\n"),
        (
            "topics.xml",
            '<topics><topic number="t1"><query>Who weighs tides?</query></topic></topics>',
        ),
        (
            "topics.txt",
            "<top>\n<num> Number: t1\n<title> Who weighs tides?\n\n<desc> Description:\nMore.\n</top>\n",
        ),
    ],
)
def test_trec_topics_come_in_many_formats(name: str, content: str, tmp_path: Path) -> None:
    """Tables, XML and TREC's classic blocks give the same query."""
    EXAMPLES["trec"](tmp_path)
    (tmp_path / "topics.jsonl").unlink()
    write(tmp_path, name, content)
    (found,) = reader_of("trec").load(tmp_path).queries
    assert ("t1", "Who weighs tides?", True) == (found.id, found.paper.abstract, found.is_text)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ({"id": "t1", "paper_id": "lost"}, "is not in the corpus"),
        ({"id": "t1"}, "either a query or a paper_id"),
        ({"id": "t1", "paper_id": "tides", "facet": "mood"}, "unknown facet 'mood'"),
        (
            {"id": "t1", "paper_id": "tides", "sentences": [7]},
            r"topics\.jsonl: topic 't1': .*numbered 0 to 1",
        ),
        ({"id": "t1", "query": " "}, r"topics\.jsonl: topic 't1': .*no text"),
    ],
)
def test_trec_topics_that_cannot_be_used_are_refused(
    topic: dict[str, object], reason: str, tmp_path: Path
) -> None:
    """The error for an unusable topic says what is wrong."""
    EXAMPLES["trec"](tmp_path)
    write(tmp_path, "topics.jsonl", lines(topic))
    with pytest.raises(InputError, match=reason):
        reader_of("trec").load(tmp_path)


def test_a_classic_topic_that_is_broken_is_named_with_its_file(tmp_path: Path) -> None:
    """Several files may be at fault, so the message says which."""
    EXAMPLES["trec"](tmp_path)
    (tmp_path / "topics.jsonl").unlink()
    write(tmp_path, "topics.txt", "<top>\n<num> Number: t1\n</top>\n")
    with pytest.raises(CorpusFormatError, match=r"topics\.txt: a topic has no <num> or no <title>"):
        reader_of("trec").load(tmp_path)


def test_doris_mae_sums_the_scores_of_a_questions_aspects(tmp_path: Path) -> None:
    """A grade is the mean over aspects and sub-aspects, scaled, and relevant from one per aspect."""
    collection = example("doris-mae", tmp_path)
    first, second = collection.queries
    assert (True, "I look at tides. Dunes matter too.", ("0", "1")) == (
        first.is_text,
        first.paper.abstract,
        first.pool,
    )
    of_first, of_second = (
        {paper: grade / RELEVANT_FROM for paper, grade in collection.qrels[each.id].items()}
        for each in (first, second)
    )
    assert {"0": 1.0, "1": 0.5} == of_first
    assert pytest.approx({"2": 4 / 3, "0": 1 / 3}) == of_second
    assert RELEVANT_FROM == collection.relevant_from
    assert ("Papers left out, with neither title nor abstract: 1.",) == collection.notes
    perfect = Run("x", {first.id: {"0": 2.0, "1": 1.0}, second.id: {"2": 2.0, "0": 1.0}})
    values = per_query(collection, perfect, ("nDCG@10", "MAP", "Rprec"))
    assert {100.0} == {round(value, 6) for of_queries in values.values() for value in of_queries.values()}


@pytest.mark.parametrize("broken", ['{"Corpus": []}', '{"Corpus": [], "Query": [{}], "Annotation": []}'])
def test_a_broken_doris_mae_is_refused(broken: str, tmp_path: Path) -> None:
    """A file in another format is refused by name."""
    write(tmp_path, "DORIS-MAE_dataset_v1.json", broken)
    with pytest.raises(CorpusFormatError, match=r"DORIS-MAE_dataset_v1\.json is not in the published format"):
        reader_of("doris-mae").load(tmp_path)
