"""Tests of the contract of every entry of SETS, and of each on an example in its layout."""

import json
from pathlib import Path

import pytest

import akin
from evaluation.collection import SETS
from evaluation.measures import per_query, pool_grades
from evaluation.run import Run
from evaluation.systems.systems import Systems
from models.errors import BrokenRowError, CollectionMissingError, InputError
from tests.support.examples.evaluation.set_examples import (
    EXAMPLES,
    REQUIRED,
    example,
    lines,
    query,
    reader_of,
    write,
)
from tests.support.outside_data import outside_data


@pytest.mark.parametrize("name", SETS)
def test_every_collection_keeps_the_contract(name: str, tmp_path: Path) -> None:
    """Ids are consistent single words, no query ranks itself, grades are at least 0, measures known."""
    collection = example(name, tmp_path)
    assert collection.papers
    assert [paper.id for paper in collection.papers.values()] == list(collection.papers)
    for paper in collection.papers.values():
        assert paper.sentences
        assert all(paper.abstract[s.start : s.end] == s.text for s in paper.sentences)
    ids = [each.id for each in collection.queries]
    assert ids == [each for each in dict.fromkeys(ids) if len(each.split()) == 1]
    assert set(ids) == collection.qrels.keys()
    systems = Systems(collection, lambda name: pytest.fail(f"{name} was opened"))
    scores = systems.rank("bm25").scores if collection.queries else {}
    for each in collection.queries:
        assert each.paper.id not in {*scores[each.id], *pool_grades(each, collection)}
        assert collection.papers.keys() >= set(each.pool)
        assert set(range(len(each.paper.sentences))) >= set(each.selected or ())
        assert not (each.is_text and each.paper.title)
        assert each.is_text or each.paper.title or each.paper.id in collection.papers
        assert all(grade >= 0 for grade in collection.qrels[each.id].values())
    nothing = per_query(collection, Run("nothing", {}))
    assert {measure: dict.fromkeys(ids, 0.0) for measure in collection.measures} == nothing


@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name, files in REQUIRED.items() for file in files]
)
def test_a_missing_file_is_named_with_its_publisher_and_layout(name: str, file: str, tmp_path: Path) -> None:
    """The error for a missing file names the file, the publisher and the expected layout."""
    EXAMPLES[name](tmp_path)
    for found in tmp_path.glob(f"{file.removesuffix('*')}*"):
        found.unlink()
    reader = reader_of(name)
    with pytest.raises(CollectionMissingError) as caught:
        reader.load(tmp_path)
    message = str(caught.value)
    assert file in message
    assert f"The collection comes from {reader.publisher}" in message
    assert reader.layout.strip() in message


@pytest.mark.parametrize("name", SETS)
def test_a_folder_that_does_not_exist_is_a_missing_collection(name: str, tmp_path: Path) -> None:
    """A folder that does not exist is reported like a missing file."""
    with pytest.raises(CollectionMissingError, match="nowhere"):
        reader_of(name).load(tmp_path / "nowhere")


def test_pairs_rank_the_positives_of_all_examples(tmp_path: Path) -> None:
    """A query's positive is relevant, its others are left out; a text without a title is a short text."""
    collection = example("pairs", tmp_path)
    assert {"pair:1": {"moons": 1}, "pair:2": {"dunes": 1}, "pair:3": {"dunes": 1}} == collection.qrels
    assert {"moons", "dunes"} == collection.papers.keys()
    first, second, third = collection.queries
    assert first.pool is second.pool is third.pool  # memory grows with the pairs, not with their square
    ranked = [[i for i in each.pool if each.ranks(i)] for each in collection.queries]
    assert [["moons"], ["dunes"], ["moons", "dunes"]] == ranked
    everything = Run("all", {each.id: dict.fromkeys(each.pool, 1.0) for each in collection.queries})
    assert {"pair:1": 100.0, "pair:2": 100.0, "pair:3": 100.0} == per_query(collection, everything, ["P@1"])[
        "P@1"
    ]
    assert [False, False, True] == [each.is_text for each in collection.queries]
    assert ["tides", "tides", "claim"] == [each.cluster for each in collection.queries]


def test_beir_reads_judged_texts_and_documents_without_abstract(tmp_path: Path) -> None:
    """Only the test judgements count; a title replaces a missing text; empty documents are left out."""
    collection = example("beir", tmp_path)
    assert ["d1", "7", "d3"] == list(collection.papers)
    assert ("", "Only a title") == (collection.papers["d3"].title, collection.papers["d3"].abstract)
    assert ["7", "d1"] == [each.id for each in collection.queries]
    tides = query(collection, "7")
    assert (True, (), "Do tides fall?") == (tides.is_text, tides.pool, tides.paper.sentences[0].text)
    assert {"7": {"d1": 2, "7": 0}, "d1": {"d3": 1, "lost": 1}} == collection.qrels
    assert ("nDCG@10", "MAP", "R@100") == collection.measures
    assert (
        "Judgements: test.tsv.",
        "Papers left out, with neither title nor abstract: 1.",
        "Judged papers that are not in the collection: 1, such as 'lost'.",
    ) == collection.notes


@pytest.mark.parametrize("name", ["beir", "iclr2022", "trec"])
def test_judgements_of_no_paper_of_the_corpus_are_refused(name: str, tmp_path: Path) -> None:
    """Judgements with other ids than the corpus are an error that shows one id of each, not figures of 0."""
    papers = example(name, tmp_path).papers
    (file,) = (path for path in tmp_path.rglob("*") if path.name in {"test.tsv", "qrels.tsv", "qrels.txt"})
    column = 2 if name == "trec" else 1
    rows = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row[column] = f"doi:{row[column]}"
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(InputError, match=r"No paper judged in .* is in the corpus") as caught:
        reader_of(name).load(tmp_path)
    assert "one of its ids is 'doi:" in str(caught.value)
    assert f"one of the corpus's {next(iter(papers))!r}" in str(caught.value)


def test_judgements_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """A paper with two grades for a query is named with its line and both grades; equal ones may stay."""
    EXAMPLES["trec"](tmp_path)
    file = tmp_path / "qrels.txt"
    file.write_text("t1 0 tides 1\nt1 0 tides 1\nt1 0 moons -1\nt1 0 moons 0\n", encoding="utf-8")
    assert {"t1": {"tides": 1, "moons": 0}} == reader_of("trec").load(tmp_path).qrels
    file.write_text("t1 0 tides 0\nt1 0 moons 1\nt1 0 tides 2\n", encoding="utf-8")
    with pytest.raises(BrokenRowError, match=r"qrels\.txt:3: paper 'tides' has grade 2 .* and 0 above"):
        reader_of("trec").load(tmp_path)


def test_beir_judgements_may_have_no_header(tmp_path: Path) -> None:
    """The first line of the judgements is a header only if its last field has no digit."""
    whole = example("beir", tmp_path)
    (file,) = tmp_path.rglob("test.tsv")
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    assert whole.qrels == reader_of("beir").load(file.parents[1]).qrels


def test_a_text_query_is_itself_only_where_the_text_is_the_same(tmp_path: Path) -> None:
    """A document is taken for the query only if its title or abstract is, not if only the ids are equal."""
    collection = example("beir", tmp_path)
    assert "query:7" == query(collection, "7").paper.id
    assert "d1" == query(collection, "d1").paper.id
    write(tmp_path, "queries.jsonl", lines({"_id": "7", "text": "On dunes"}))
    assert "7" == query(reader_of("beir").load(tmp_path), "7").paper.id


def test_a_beir_query_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """A second query with the same id would be judged by the answers to the first."""
    EXAMPLES["beir"](tmp_path)
    write(tmp_path, "queries.jsonl", lines(*({"_id": "7", "text": text} for text in ("One?", "Two?"))))
    with pytest.raises(BrokenRowError, match=r"queries\.jsonl:2: query '7' occurs twice"):
        reader_of("beir").load(tmp_path)


def test_beir_rows_without_text_or_with_the_id_of_another_are_named(tmp_path: Path) -> None:
    """A judged query without a text, and a second paper of one id, are refused with file and line."""
    EXAMPLES["beir"](tmp_path)
    write(tmp_path, "queries.jsonl", lines({"_id": "7", "query": "Of the wrong key"}))
    with pytest.raises(BrokenRowError, match=r"queries\.jsonl:1: Query '7' has no text"):
        reader_of("beir").load(tmp_path)
    write(tmp_path, "corpus.jsonl", lines(*({"_id": "d1", "text": text} for text in ("One.", "Two."))))
    with pytest.raises(BrokenRowError, match=r"corpus\.jsonl:2: paper 'd1' occurs twice"):
        reader_of("beir").load(tmp_path)


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    """A line that cannot be read is refused with its file and line."""
    EXAMPLES["beir"](tmp_path)
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\n7\td1\tgood\n")
    with pytest.raises(BrokenRowError, match=r"test\.tsv:2: the grade 'good'"):
        reader_of("beir").load(tmp_path)


@pytest.mark.parametrize(
    ("first", "said"), [("q\t1\t1,0", "the grade '1,0'"), ("q d1 1", "1 fields"), ("q\tscore", "2 fields")]
)
def test_a_broken_first_line_of_judgements_is_no_header(tmp_path: Path, first: str, said: str) -> None:
    """The first line of a file of judgements is refused like any other, instead of losing its query."""
    EXAMPLES["beir"](tmp_path)
    write(tmp_path, "qrels/test.tsv", f"{first}\n7\td1\t1\n")
    with pytest.raises(BrokenRowError, match=rf"test\.tsv:1: {said}"):
        reader_of("beir").load(tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "judged"),
    [("beir", "qrels/test.tsv", "{}\td1\t1\n"), ("trec", "qrels.txt", "{} 0 tides 1\n")],
)
def test_judged_queries_that_are_not_there_are_reported(
    name: str, file: str, judged: str, tmp_path: Path
) -> None:
    """Some are counted in a note; if no query has judgements, the error names the first ids of both."""
    EXAMPLES[name](tmp_path)
    content = (tmp_path / file).read_text(encoding="utf-8")
    write(tmp_path, file, content + judged.format("lost1") + judged.format("lost2"))
    assert "Judged queries that are not in the collection: 2." in reader_of(name).load(tmp_path).notes
    write(tmp_path, file, judged.format("lost1") + judged.format("lost2"))
    first = {"beir": "7, d1, q9", "trec": "t1, t2, t3"}[name]
    with pytest.raises(
        InputError, match=f"its first ids are {first}; the first judged ones are lost1, lost2"
    ):
        reader_of(name).load(tmp_path)


def test_beir_reads_the_names_that_scifacts_publishers_use(tmp_path: Path) -> None:
    """SciFact's field names, abstracts as lists of sentences, and a single qrels.tsv are accepted."""
    documents = [
        {"doc_id": 7, "title": "On tides", "abstract": ["Tides rise. They fall.", "We weigh them."]},
        {"doc_id": 8, "title": "On dunes", "abstract": ["Dunes wander."]},
    ]
    write(tmp_path, "corpus.jsonl.gz", lines(*documents))
    claims = [{"query_id": "7", "text": "Tides weigh a lot."}, {"query_id": "9", "text": "Unjudged."}]
    write(tmp_path, "queries.jsonl", lines(*claims))
    write(tmp_path, "qrels.tsv", "query-id\tcorpus-id\tscore\n7\t8\t1\n")
    collection = reader_of("beir").load(tmp_path)
    sentences = [[each.text for each in paper.sentences] for paper in collection.papers.values()]
    assert [["Tides rise. They fall.", "We weigh them."], ["Dunes wander."]] == sentences
    assert {"7": {"8": 1}} == collection.qrels
    (claim,) = collection.queries
    assert ("7", "query:7", "Tides weigh a lot.") == (claim.id, claim.paper.id, claim.paper.abstract)


def test_scifact_reads_as_its_publishers_offer_it() -> None:
    """SciFact has 5,183 abstracts and the 809 claims of its train side, all judged."""
    collection = reader_of("beir").load(outside_data("scifact"))
    assert (5183, 809, 919) == (
        len(collection.papers),
        len(collection.queries),
        sum(len(grades) for grades in collection.qrels.values()),
    )
    first = collection.queries[0]
    assert ("0", {"31715818": 1}) == (first.id, collection.qrels["0"])
    assert "0-dimensional biomaterials lack inductive properties." == first.paper.abstract
    assert (14, "Alterations of the architecture") == (
        len(collection.papers["4983"].sentences),
        collection.papers["4983"].abstract[:31],
    )


def test_demo_asks_for_rows_and_columns(tmp_path: Path) -> None:
    """A background query selects the background sentences and finds its row, a method query its column."""
    collection = example("demo", tmp_path)
    assert (4, 8, ("P@9", "MAP")) == (len(collection.papers), len(collection.queries), collection.measures)
    background, method = (query(collection, f"demo:p00-m01:{facet}") for facet in ("background", "method"))
    assert ((0, 1), "background", "demo:p00-m01") == (
        background.selected,
        background.facet,
        background.cluster,
    )
    assert ((2,), "method") == (method.selected, method.facet)
    assert {"demo:p00-m00": 1} == collection.qrels[background.id]
    assert {"demo:p01-m01": 1} == collection.qrels[method.id]


def test_the_demo_grid_has_nine_relevant_papers_for_each_query() -> None:
    """Every query of the packaged demo has nine relevant papers, given by its file or its folder."""
    folder = Path(akin.__file__).parent / "demo"
    collection = reader_of("demo").load(folder / "papers.jsonl")
    assert (100, 200) == (len(collection.papers), len(collection.queries))
    assert {9} == {len(grades) for grades in collection.qrels.values()}
    assert collection == reader_of("demo").load(folder)


def test_iclr2022_queries_rank_all_papers_but_themselves(tmp_path: Path) -> None:
    """A query is matched to the corpus by its id, or else by its text, and is not in its pool."""
    collection = example("iclr2022", tmp_path)
    assert ["tides", "q2"] == [each.id for each in collection.queries]
    assert ("dunes", "moons", "winds") == query(collection, "tides").pool
    assert {"moons": 2, "dunes": 1, "winds": 0} == collection.qrels["tides"]
    dunes = query(collection, "q2")
    assert ("dunes", ("tides", "moons", "winds"), "q2", False) == (
        dunes.paper.id,
        dunes.pool,
        dunes.cluster,
        dunes.is_text,
    )
    assert (1, "nDCG@10") == (collection.relevant_from, collection.measures[0])


def test_relish_reads_graded_pools_and_folds(tmp_path: Path) -> None:
    """Grades are 0 to 2, of which 2 is relevant; each query has its own pool without itself."""
    collection = example("relish", tmp_path)
    assert (5, 2, 2) == (len(collection.papers), len(collection.queries), collection.relevant_from)
    first = query(collection, "11")
    assert (("12", "13", "14"), "test", "11") == (first.pool, first.fold, first.cluster)
    assert "We study 11. Then 11 is measured." == first.paper.abstract
    assert {"12": 2, "13": 1, "14": 0} == collection.qrels["11"]
    assert (("11", "12"), "dev") == (query(collection, "15").pool, query(collection, "15").fold)
    assert {"11": 0, "12": 2} == collection.qrels["15"]
    assert ("NDCG%20", "MAP") == collection.measures[:2]


def test_scidocs_ranks_four_tasks(tmp_path: Path) -> None:
    """Each task has queries, with the task as the facet and the paper as the cluster."""
    collection = example("scidocs", tmp_path)
    assert {"coview", "coread", "cite", "cocite"} == {each.facet for each in collection.queries}
    cite = query(collection, "cite:tides")
    assert (("dunes", "moons"), "tides", "On tides") == (cite.pool, cite.cluster, cite.paper.title)
    assert {"dunes": 1, "moons": 0} == collection.qrels["cite:tides"]
    assert ("nDCG", "MAP") == collection.measures


def test_a_paper_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """Two papers with the same id are refused."""
    EXAMPLES["relish"](tmp_path)
    twice = {"paper_id": "11", "title": "T", "abstract": ["A."]}
    write(tmp_path, "abstracts-relish.jsonl", lines(twice, twice))
    with pytest.raises(BrokenRowError, match=r"abstracts-relish\.jsonl:2: paper '11' occurs twice"):
        reader_of("relish").load(tmp_path)


def test_a_query_in_no_split_is_left_out_and_reported(tmp_path: Path) -> None:
    """A query in no split is left out with a note, because it would form a third fold."""
    EXAMPLES["relish"](tmp_path)
    write(tmp_path, "relish-evaluation_splits.json", json.dumps({"dev": ["15"], "test": []}))
    collection = reader_of("relish").load(tmp_path)
    assert [("15", "dev")] == [(each.id, each.fold) for each in collection.queries]
    assert {"15"} == collection.qrels.keys()
    assert "Queries left out, in no split of relish-evaluation_splits.json: 1." in collection.notes


@pytest.mark.parametrize("grades", [[1], [1, None]])
def test_pools_and_grades_that_do_not_fit_are_refused(grades: list[int | None], tmp_path: Path) -> None:
    """A pool and grades of different lengths, and a grade that is null, are refused."""
    EXAMPLES["relish"](tmp_path)
    damaged = {"11": {"cands": ["12", "13"], "relevance_adju": grades}}
    write(tmp_path, "test-pid2anns-relish.json", json.dumps(damaged))
    with pytest.raises(InputError, match="of equal length"):
        reader_of("relish").load(tmp_path)


def _no_candidates(name: str, folder: Path) -> None:
    """Change the example of a collection so that all candidates of one query lack a text."""
    if name == "relish":
        judged = json.loads((folder / "test-pid2anns-relish.json").read_text())
        judged["15"] = {"cands": ["none"], "relevance_adju": [2]}
        write(folder, "test-pid2anns-relish.json", json.dumps(judged))
    elif name == "scidocs":
        write(folder, "cite/test.qrel", "tides 0 none 1\n")
    else:
        content = json.loads((folder / "DORIS-MAE_dataset_v1.json").read_text())
        content["Query"][0]["candidate_pool"] = [3]
        write(folder, "DORIS-MAE_dataset_v1.json", json.dumps(content))


@pytest.mark.parametrize("name", ["relish", "scidocs", "doris-mae"])
def test_a_query_without_any_candidate_is_left_out_and_reported(name: str, tmp_path: Path) -> None:
    """A query none of whose candidates can be ranked is left out: it does not rank the whole collection."""
    before = example(name, tmp_path)
    _no_candidates(name, tmp_path)
    collection = reader_of(name).load(tmp_path)
    assert len(before.queries) - 1 == len(collection.queries) == len(collection.qrels)
    assert all(each.pool for each in collection.queries)
    assert "Queries left out, whose candidates are not in the collection: 1." in collection.notes
