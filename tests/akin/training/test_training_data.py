"""Tests of ``akin train data``: sets written and read, the leak guard's report, and broken files."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from akin.cli import app as cli
from akin.cli.training.sets import HELD_OUT, REPORT, read_citations, read_queries, write_set
from evaluation.sets.pairs import EXAMPLES, TEXTS, PairsSet, read_set
from models.errors import BrokenRowError, InputError
from models.training.examples import Example
from models.training.pairs.citing import short_text, training_set
from tests.support.examples.evaluation.set_examples import EXAMPLES as EVALUATIONS
from tests.support.examples.evaluation.set_examples import lines, metadata, write
from tests.support.examples.models.training_sets import citing_sentences, write_lines

RUN = CliRunner()
SENTENCES = ["We study graphs of proteins.", "Cells are shown to divide.", "Results improve over time."]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return the path of a corpus of forty papers."""
    rows = [{"id": f"p{i}", "title": f"The {i}. study of its kind", "abstract": SENTENCES} for i in range(40)]
    return write_lines(tmp_path / "papers.jsonl", rows)


@pytest.fixture
def contexts(tmp_path: Path) -> Path:
    """Return the path of sentences that cite paper 2i alone, and sentences that cite papers 2i and 2i + 1."""
    return write_lines(tmp_path / "contexts.jsonl", citing_sentences(40))


def made(tmp_path: Path, *args: object) -> tuple[str, Path]:
    """Return the output of a recipe and the folder that it wrote."""
    out = tmp_path / "set"
    result = RUN.invoke(cli.app, ["train", "data", *map(str, args), "--out", str(out)])
    assert result.exit_code == 0, result.output
    return result.output, out


def write_beir(folder: Path, title: str) -> Path:
    """Write a test collection of one paper, and return its folder."""
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", [{"_id": "x", "title": title, "text": "A text."}])
    write_lines(folder / "queries.jsonl", [{"_id": "q", "text": "Is this a query?"}])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tx\t1\n")
    return folder


def test_cocited_papers_without_those_of_evaluations(tmp_path: Path, corpus: Path, contexts: Path) -> None:
    """A set is written next to its held-out examples, and the report counts the papers left out."""
    ids = tmp_path / "ids.txt"
    ids.write_text("p4\np7\n")
    output, out = made(
        tmp_path,
        *("cocited", "--papers", corpus, "--citations", contexts, "--leave-out-ids", ids, "--held-out", 4),
    )
    assert "2 by id" in output
    own, held_out = read_set(out), read_set(out / HELD_OUT)
    assert len(own.examples) == 14
    assert len(held_out.examples) == 4
    assert not own.texts.keys() & held_out.texts.keys()
    assert not {"p4", "p7"} & {*own.texts, *held_out.texts}
    assert own.examples[0].contexts
    report = json.loads((out / REPORT).read_text())
    assert report["left_out_by_the_leak_guard"] == {"id": 2}
    assert report["examples"] == 14
    assert report["evaluations"] == ["ids.txt"]


def test_sentences_are_aligned_by_an_encoder(tmp_path: Path, corpus: Path, contexts: Path) -> None:
    """With ``--align`` every pair has aligned sentences, by its contexts or by the abstracts alone."""
    given, found = ("cocited", "--papers", corpus, "--citations", contexts), list[set[object]]()
    for by in ("contexts", "abstracts"):
        _, out = made(tmp_path, *given, "--align", "hashing", "--align-by", by)
        found.append({example.aligned for example in read_set(out).examples})
        assert f"{by}, hashing" == json.loads((out / "report.json").read_text())["aligned"]
    assert None not in found[0] | found[1]
    assert found[0] != found[1]
    out = tmp_path / "none"
    refused = RUN.invoke(
        cli.app, ["train", "data", *map(str, given), "--out", str(out), "--align-by", "abstracts"]
    )
    assert 1 == refused.exit_code
    assert "--align ENCODER" in " ".join(refused.output.split())
    assert not out.exists()


def test_what_is_skipped_is_reported_and_no_older_examples_are_held_out(tmp_path: Path, corpus: Path) -> None:
    """Skipped rows are counted with reasons, and a set without held-out examples removes older ones."""
    with corpus.open("a", encoding="utf-8") as stream:
        stream.write('{"id": "p0", "title": "Again", "abstract": "A text."}\n{"id": "x"}\n')
    shown, out = made(tmp_path, "crops", "--papers", corpus, "--held-out", 4)
    assert "No evaluation was named" in shown
    assert json.loads((out / REPORT).read_text())["evaluations"] == []
    assert "Skipped 2 rows (1 for a repeated id):" in shown
    assert f"{corpus.name}:42: " in shown
    assert (out / HELD_OUT / EXAMPLES).exists()
    made(tmp_path, "crops", "--papers", corpus)
    assert not (out / HELD_OUT).exists()


@pytest.mark.parametrize("recipe", ["cocited", "contexts"])
def test_sentences_of_papers_of_evaluations_are_left_out(
    tmp_path: Path, corpus: Path, contexts: Path, recipe: str
) -> None:
    """Citing sentences of evaluated papers, found by id or by title, are left out."""
    leaked = [
        {"id": "c4", "title": "Written by whom is evaluated", "abstract": SENTENCES},
        {"id": "other", "title": "Nobody cites or evaluates this", "abstract": SENTENCES},
    ]
    more = write_lines(tmp_path / "more.jsonl", leaked)
    ids = tmp_path / "ids.txt"
    ids.write_text("c8\nc10\n")
    beir = write_beir(tmp_path / "beir", "Written by whom is evaluated")
    output, out = made(
        tmp_path,
        *(recipe, "--papers", corpus, "--papers", more, "--citations", contexts),
        *("--leave-out-ids", ids, "--leave-out", f"beir={beir}"),
    )
    assert "evaluations use them (beir=beir, ids.txt): 3 by id of the citing paper, 1 by title." in output
    assert "3 by id of the citing paper" in output
    report = json.loads((out / REPORT).read_text())
    assert report["left_out_by_the_leak_guard"] == {"id of the citing paper": 3, "title": 1}
    own = read_set(out)
    assert len(own.examples) == 17
    assert not {"p4", "p8", "p10"} & own.texts.keys()


def test_a_whole_evaluation_is_left_out(tmp_path: Path, corpus: Path, contexts: Path) -> None:
    """``--leave-out SET=PATH`` leaves out the papers of a test collection by title, whatever their ids."""
    folder = write_beir(tmp_path / "beir", "The 8. Study of its kind!")
    args = ("contexts", "--papers", corpus, "--citations", contexts, "--leave-out", f"beir={folder}")
    output, out = made(tmp_path, *args)
    assert "1 by title" in output
    assert len(read_set(out).examples) == 19


def test_papers_of_every_task_of_an_evaluation_are_left_out(tmp_path: Path) -> None:
    """SciDocs' papers of classification and recommendation are left out like those that it ranks."""
    subjects = {"view_cite_read": "tides of seas", "mag_mesh": "cats of Rome", "recomm": "ores of salt"}
    for tasks, subject in subjects.items():
        write(tmp_path / "scidocs", f"paper_metadata_{tasks}.json", json.dumps(metadata(subject)))
    titles = [f"On {subject}" for subject in (*subjects.values(), "nothing evaluated")]
    rows = [{"id": f"p{i}", "title": title, "abstract": SENTENCES} for i, title in enumerate(titles)]
    papers = write_lines(tmp_path / "papers.jsonl", rows)
    output, out = made(
        tmp_path, "cloze", "--papers", papers, "--leave-out", f"scidocs={tmp_path / 'scidocs'}"
    )
    assert "3 by title" in output
    assert ["cloze:p3"] == [example.query for example in read_set(out).examples]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("10.1145/3292500", "doi:10.1145/3292500"),
        ("https://doi.org/10.1145/ABC", "doi:10.1145/abc"),
        ("arXiv:2104.06921v2", "arxiv:2104.06921"),
        ("https://arxiv.org/abs/2104.06921", "arxiv:2104.06921"),
        ("own/7", "own/7"),
        ("24491034", ""),
    ],
)
def test_ids_to_leave_out_may_be_written_as_people_write_them(tmp_path: Path, line: str, left: str) -> None:
    """DOIs, arXiv ids and addresses mean the ids of papers; a number alone is only itself."""
    names = ("doi:10.1145/3292500", "doi:10.1145/abc", "arxiv:2104.06921", "own/7", "pmid:24491034")
    rows = [{"id": name, "title": f"About {name}", "abstract": " ".join(SENTENCES)} for name in names]
    (tmp_path / "ids.txt").write_text(f"{line}\n")
    papers = write_lines(tmp_path / "papers.jsonl", [*rows])
    _, out = made(tmp_path, "cloze", "--papers", papers, "--leave-out-ids", tmp_path / "ids.txt")
    kept = {example.query.removeprefix("cloze:") for example in read_set(out).examples}
    assert {left} - {""} == {*names} - kept


def test_labelled_abstracts_of_an_evaluation_are_left_out(tmp_path: Path) -> None:
    """The abstracts of CSAbstruct have neither titles nor ids, so they are found by their text."""
    labelled = lines({"sentences": SENTENCES, "labels": ["background", "method", "result"]})
    write(tmp_path / "csabstruct", "test.jsonl", labelled)
    rows = [{"id": "p0", "title": "A title of its own", "abstract": " ".join(SENTENCES)}]
    rows.append({"id": "p1", "title": "Another title", "abstract": " ".join(reversed(SENTENCES))})
    papers = write_lines(tmp_path / "papers.jsonl", [*rows])
    args = ("cloze", "--papers", papers, "--leave-out", f"functions={tmp_path / 'csabstruct'}")
    output, out = made(tmp_path, *args)
    assert "1 by text" in output
    assert ["cloze:p1"] == [example.query for example in read_set(out).examples]


@pytest.mark.parametrize("name", ["beir", "trec", "doris-mae"])
def test_numbers_of_an_evaluation_are_no_ids_of_papers(tmp_path: Path, name: str) -> None:
    """A paper with the number of a query, or of an entry in a list of texts, is kept; one by title is not."""
    titles = [("0", "Not about it"), ("7", "Nor is this"), ("t1", "And this?"), ("z", "Who weighs tides?")]
    rows = [{"id": own, "title": title, "abstract": SENTENCES} for own, title in titles]
    papers = write_lines(tmp_path / "numbered.jsonl", [*rows])
    beir = lines({"_id": "d1", "title": "Tides", "text": "Tides rise."})
    queries = lines(*({"_id": own, "text": "Who weighs tides?"} for own in "07"))
    if name == "beir":
        write(tmp_path / "own", "corpus.jsonl", beir)
        write(tmp_path / "own", "queries.jsonl", queries)
        write(tmp_path / "own", "qrels.tsv", "0\td1\t1\n7\td1\t1\n")
    else:
        EVALUATIONS[name](tmp_path / "own")
    output, out = made(tmp_path, "cloze", "--papers", papers, "--leave-out", f"{name}={tmp_path / 'own'}")
    kept = {example.query for example in read_set(out).examples}
    assert {"cloze:0", "cloze:7", "cloze:t1"} <= kept
    assert ("cloze:z" in kept) == (name == "doris-mae")
    assert "by id" not in output


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("beir", "s2:d1"),
        ("csfcube", "1"),
        ("csfcube", "s2:1"),
        ("functions", "pmid:24293578"),
        ("relish", "pmid:13"),
        ("scidocs", "s2:dunes"),
    ],
)
def test_papers_of_an_evaluation_are_left_out_by_their_ids_in_corpora(
    tmp_path: Path, name: str, used: str
) -> None:
    """Corpora have prefixes before ids of Semantic Scholar and PubMed, and evaluations have none."""
    rows = [{"id": own, "title": f"On {own} in other words", "abstract": SENTENCES} for own in (used, "s2:0")]
    papers = write_lines(tmp_path / "papers.jsonl", [*rows])
    if name == "functions":
        write(tmp_path / "own", "test.txt", "###24293578\nMETHODS\tWe weigh.\nRESULTS\tIt is heavy.\n\n")
    else:
        EVALUATIONS[name](tmp_path / "own")
    if name == "beir":  # with the ids named as SciFact's publishers do
        corpus = tmp_path / "own" / "corpus.jsonl.gz"
        corpus.write_bytes(gzip.compress(gzip.decompress(corpus.read_bytes()).replace(b"_id", b"doc_id")))
    output, out = made(tmp_path, "cloze", "--papers", papers, "--leave-out", f"{name}={tmp_path / 'own'}")
    assert "1 by id" in output
    assert ["cloze:s2:0"] == [example.query for example in read_set(out).examples]


def test_sentences_that_cite_the_same_papers(tmp_path: Path, corpus: Path, contexts: Path) -> None:
    """Two sentences that cite the same two papers form a pair, unless an evaluated paper wrote one."""
    again = [
        {**row, "citing": f"d{row['citing']}", "context": f"As before, we think: {row['context']}"}
        for row in citing_sentences(40)
    ]
    ids = tmp_path / "ids.txt"
    ids.write_text("c0\ndc2\n")
    citations = ("--citations", contexts, "--citations", write_lines(tmp_path / "again.jsonl", again))
    _, out = made(tmp_path, "sentences", "--papers", corpus, *citations, "--leave-out-ids", ids)
    own = read_set(out)
    assert len(own.examples) == 18
    first = own.examples[0]
    assert own.texts[first.positive].abstract == f"As before, we think: {own.texts[first.query].abstract}"


def test_sets_that_need_no_sentences_of_others(tmp_path: Path, corpus: Path) -> None:
    """Crops and cloze need only papers; citations need only edges between them."""
    edges = write_lines(tmp_path / "edges.jsonl", [{"citing": "p0", "cited": ["p1", "p2"]}])
    for recipe, extra, n_examples in (
        ("crops", (), 40),
        ("cloze", (), 40),
        ("citations", ("--edges", edges), 2),
    ):
        folder = tmp_path / recipe
        folder.mkdir()
        _, out = made(folder, recipe, "--papers", corpus, *extra)
        assert len(read_set(out).examples) == n_examples
    assert all(len(example.negatives) == 5 for example in read_set(out).examples)


def test_queries_with_passages(tmp_path: Path) -> None:
    """Texts and titled passages are read, and a negative equal to the positive is left out."""
    file = write_lines(
        tmp_path / "q.jsonl",
        [
            {
                "query": "what folds?",
                "positive": {"title": "Folding", "text": "Proteins fold."},
                "negatives": ["No."],
            },
            {"query": "what else?", "positive": "Cells do.", "negatives": ["Cells do.", "No."]},
        ],
    )
    _, out = made(tmp_path, "queries", "--queries", file)
    first, second = read_set(out).examples
    texts = read_set(out).texts
    assert texts[first.positive].title == "Folding"
    assert texts[first.query].abstract == "what folds?"
    assert [texts[name].abstract for name in second.negatives] == ["No."]


def test_equal_texts_are_one_text_whatever_their_ids(tmp_path: Path) -> None:
    """A passage with the words of the positive or of the query is no negative, and equal queries are one."""
    rows: list[dict[str, object]] = [
        {
            "query": {"id": "1", "text": "What folds?"},
            "positive": {"id": "2", "text": "Proteins fold."},
            "negatives": [{"id": "3", "text": " proteins  fold."}, "what folds?", {"id": "4", "text": "No."}],
        },
        {"query": {"id": "5", "text": "what folds? "}, "positive": "Sheets do.", "negatives": ["No."]},
    ]
    _, out = made(tmp_path, "queries", "--queries", write_lines(tmp_path / "q.jsonl", rows))
    first, second = read_set(out).examples
    texts = read_set(out).texts
    assert [texts[name].abstract for name in first.negatives] == ["No."]
    assert (first.query, first.negatives) == (second.query, second.negatives)


def test_passages_of_evaluations_are_left_out_by_their_ids(tmp_path: Path) -> None:
    """An example is left out if its query or one of its passages has an excluded id."""
    rows: list[dict[str, object]] = [
        {"query": {"id": "1", "text": "what folds?"}, "positive": {"id": "7", "text": "Proteins fold."}},
        {"query": {"id": "7", "text": "what else?"}, "positive": {"id": "2", "text": "Cells do."}},
        {"query": "and who?", "positive": "People do.", "negatives": [{"id": "9", "text": "Cells do."}]},
        {"query": "where then?", "positive": {"id": "3", "text": "Cells do."}},
    ]
    ids = tmp_path / "ids.txt"
    ids.write_text("9\n7\n")
    args = ("queries", "--queries", write_lines(tmp_path / "q.jsonl", rows), "--leave-out-ids", ids)
    output, out = made(tmp_path, *args)
    assert "3 by id" in output
    own = read_set(out)
    assert [own.texts[example.query].abstract for example in own.examples] == ["where then?"]


def test_what_belongs_to_a_held_out_query_is_kept_on_disk_and_not_ranked(tmp_path: Path) -> None:
    """``belong`` survives writing and reading, and those papers are not in the pool of the query."""
    texts = {name: short_text(name, f"A text of the name {name}.") for name in "abcd"}
    examples = [Example("a", "b", belong=("d",)), Example("c", "d")]
    write_set(tmp_path / "set", training_set("set", examples, texts), {})
    assert list(read_set(tmp_path / "set").examples) == examples
    first, second = PairsSet().load(tmp_path / "set").queries
    assert [i for i in first.pool if first.ranks(i)] == ["b"]
    assert [i for i in second.pool if second.ranks(i)] == ["b", "d"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"context": "No ids."}, "expected"),
        ({"context": 3, "cited": []}, "expected"),
        ({"context": "A text.", "cited": ["p"], "n_cited": "two"}, "whole number"),
    ],
)
def test_broken_citations_are_named(tmp_path: Path, row: dict[str, object], said: str) -> None:
    """A row that is no citation is refused with its line."""
    file = write_lines(tmp_path / "c.jsonl", [{"context": "Fine.", "cited": ["p"]}, row])
    with pytest.raises(BrokenRowError, match=said) as refused:
        list(read_citations([file], {}))
    assert refused.value.line == 2


def test_a_citing_paper_that_is_null_is_unknown(tmp_path: Path) -> None:
    """Two such sentences are not of one paper called None: each has the name of its line."""
    row: dict[str, object] = {"citing": None, "context": "Fine.", "cited": ["p"]}
    file = write_lines(tmp_path / "c.jsonl", [row, row])
    assert ["c.jsonl:1", "c.jsonl:2"] == [each.citing for each in read_citations([file], {})]


def test_broken_queries_are_named(tmp_path: Path) -> None:
    """A query without a passage is refused."""
    with pytest.raises(BrokenRowError, match="expected"):
        read_queries([write_lines(tmp_path / "q.jsonl", [{"query": "what?"}])])


def test_a_query_that_is_its_own_positive_is_named(tmp_path: Path) -> None:
    """A query equal to its passage is refused with its line."""
    rows = [{"query": "what folds?", "positive": text} for text in ("Proteins.", " What folds?")]
    file = write_lines(tmp_path / "q.jsonl", [*rows])
    with pytest.raises(BrokenRowError, match=r"q\.jsonl:2: the query is also the positive"):
        read_queries([file])


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (TEXTS, {"id": "a", "title": "T", "sentences": "not a list"}),
        (TEXTS, {"id": "a", "title": "T", "sentences": []}),
        (EXAMPLES, {"query": "p0"}),
        (EXAMPLES, {"query": "p0", "positive": "p1", "aligned": [0]}),
        (EXAMPLES, {"query": "p0", "positive": "p1", "negatives": "p2"}),
    ],
)
def test_broken_sets_are_named(tmp_path: Path, corpus: Path, name: str, row: dict[str, object]) -> None:
    """A broken line of a set is refused with the name of its file."""
    _, out = made(tmp_path, "cloze", "--papers", corpus)
    write_lines(out / name, [row])
    with pytest.raises(BrokenRowError, match=name):
        read_set(out)


@pytest.mark.parametrize(
    ("text", "aligned", "said"),
    [
        ({"id": "a", "title": "", "sentences": ["Again."]}, None, r"texts\.jsonl:3: the id 'a' occurs twice"),
        ({"id": "b", "title": "", "sentences": ["", "First.", "Next."]}, [0, 1], "'b', which has blank ones"),
        ({"id": "b", "title": "", "sentences": ["First.", "Next."]}, [0, 2], "2 of 'b'; its 2 are numbered"),
        ({"id": "b", "title": "", "sentences": ["", "First.", "Next."]}, None, ""),
    ],
)
def test_a_set_by_hand_is_read_as_meant_or_refused(
    tmp_path: Path, text: dict[str, object], aligned: list[int] | None, said: str
) -> None:
    """A repeated id, and numbers of sentences that are blank or not there, are refused with their line."""
    given = [{"id": name, "title": "T", "sentences": ["One.", "Two."]} for name in ("a", "c")]
    write_lines(tmp_path / TEXTS, [*given, text])
    positive = "c" if text["id"] == "a" else "b"
    write_lines(tmp_path / EXAMPLES, [{"query": "a", "positive": positive, "aligned": aligned}])
    if said:
        with pytest.raises(BrokenRowError, match=said):
            read_set(tmp_path)
    else:
        assert "First. Next." == read_set(tmp_path).texts["b"].abstract


@pytest.mark.parametrize(
    ("positive", "said"), [("z", "names 'z', which is not one of its texts"), ("a", "contains a text twice")]
)
def test_an_example_of_unknown_or_equal_texts_is_named(tmp_path: Path, positive: str, said: str) -> None:
    """An example that names no text, or one twice, is refused with its file and line."""
    given = [{"id": name, "title": "T", "sentences": ["One."]} for name in ("a", "b")]
    write_lines(tmp_path / TEXTS, given)
    good, bad = (json.dumps({"query": "a", "positive": own}) for own in ("b", positive))
    (tmp_path / EXAMPLES).write_text(f"{good}\n\n{bad}\n", encoding="utf-8")
    with pytest.raises(BrokenRowError, match=rf"{EXAMPLES}:3: {said}"):
        read_set(tmp_path)


def test_nothing_found_is_an_error(tmp_path: Path, corpus: Path) -> None:
    """A set without examples is an error, and so is reading a missing set."""
    file = write_lines(tmp_path / "c.jsonl", [{"context": "It was found so before (x).", "cited": ["other"]}])
    args = ["train", "data", "contexts", "--papers", str(corpus), "--citations", str(file), "--out", "x"]
    result = RUN.invoke(cli.app, args)
    assert result.exit_code == 1
    with pytest.raises(InputError, match="akin train data"):
        read_set(tmp_path / "absent")


def test_papers_of_held_out_crops_are_left_out_of_other_sets(tmp_path: Path, corpus: Path) -> None:
    """``--leave-out pairs=`` leaves out the papers of held-out crops, which have their ids in their own."""
    (tmp_path / "crops").mkdir()
    _, crops = made(tmp_path / "crops", "crops", "--papers", corpus, "--held-out", 4)
    output, out = made(tmp_path, "cloze", "--papers", corpus, "--leave-out", f"pairs={crops / HELD_OUT}")
    assert "4 by id" in output
    held_out = {example.query.split(":")[1] for example in read_set(crops / HELD_OUT).examples}
    assert not held_out & {example.query.split(":")[1] for example in read_set(out).examples}


@pytest.mark.parametrize(("first", "second"), [("sentences", "contexts"), ("contexts", "sentences")])
def test_held_out_sentences_are_left_out_of_other_sets(tmp_path: Path, first: str, second: str) -> None:
    """``--leave-out pairs=`` leaves out sentences of a held-out set, with or without citation marks."""
    held_out = tmp_path / "held-out"
    context = "As was found for all cells {}, tides move them (Tidewater, 1999)."
    used = context.format("but two")
    texts = [short_text("q", used if first == "sentences" else used.partition(" (")[0] + ".")]
    texts.append(short_text("p", "Another sentence that nobody writes."))
    write_set(held_out, training_set("set", [Example("q", "p")], {text.id: text for text in texts}), {})
    rows = [{"id": name, "title": f"About {name}", "abstract": " ".join(SENTENCES)} for name in ("p0", "p1")]
    cited = ["p0"] if second == "contexts" else ["p0", "p1"]
    kinds = ("but two", "but three", "but four")
    citing = [{"citing": f"c{kind}", "context": context.format(kind), "cited": cited} for kind in kinds]
    args = ("--papers", write_lines(tmp_path / "p.jsonl", [*rows]))
    args += ("--citations", write_lines(tmp_path / "c.jsonl", [*citing]))
    output, out = made(tmp_path, second, *args, "--leave-out", f"pairs={held_out}")
    assert "Papers and sentences left out because evaluations use them" in output
    assert "1 by text of the sentence." in output
    kept = " ".join(text.abstract for text in read_set(out).texts.values())
    assert [False, True, True] == [kind in kept for kind in kinds]


@pytest.mark.parametrize("report", [None, "[1]", '{"loss": 0.1}', "no JSON"])
def test_a_set_replaces_nothing_but_a_set(tmp_path: Path, corpus: Path, report: str | None) -> None:
    """A folder with other content is left unchanged, and refused before the corpus is read."""
    out = tmp_path / "thesis"
    (out / HELD_OUT).mkdir(parents=True)
    (out / HELD_OUT / "mine.txt").write_text("mine")
    if report is not None:
        (out / REPORT).write_text(report)
    args = ["train", "data", "crops", "--papers", str(tmp_path / "absent"), "--out", str(out)]
    result = RUN.invoke(cli.app, args)
    assert 1 == result.exit_code
    assert f"--out {out}: the folder is not empty" in result.output
    assert "mine" == (out / HELD_OUT / "mine.txt").read_text()


def test_no_examples_are_left_beside_held_out_ones_of_others(tmp_path: Path, corpus: Path) -> None:
    """A run stopped while it replaces a set leaves no examples; the next run writes a complete set."""
    _, out = made(tmp_path, "crops", "--papers", corpus, "--held-out", 4)
    (out / "notes.txt").write_text("mine")
    (out / TEXTS).unlink()
    (out / TEXTS / "in the way").mkdir(parents=True)
    again = ["crops", "--papers", str(corpus), "--held-out", "8", "--seed", "1"]
    result = RUN.invoke(cli.app, ["train", "data", *again, "--out", str(out)])
    assert 1 == result.exit_code
    assert not (out / EXAMPLES).exists()
    (out / TEXTS / "in the way").rmdir()
    (out / TEXTS).rmdir()
    made(tmp_path, *again)
    own, held_out = read_set(out), read_set(out / HELD_OUT)
    assert (32, 8) == (len(own.examples), len(held_out.examples))
    assert not own.texts.keys() & held_out.texts.keys()
    assert {"notes.txt", EXAMPLES, TEXTS, REPORT, HELD_OUT} == {child.name for child in out.iterdir()}


@pytest.mark.parametrize(("recipe", "said"), [("crops", "10 words"), ("cloze", "three sentences")])
def test_nothing_found_says_what_the_recipe_needs(tmp_path: Path, recipe: str, said: str) -> None:
    """If a recipe finds no example, the error says what it needs, without citations if it uses none."""
    papers = write_lines(tmp_path / "short.jsonl", [{"id": "p", "title": "Short", "abstract": "A text."}])
    args = ["train", "data", recipe, "--papers", str(papers), "--out", str(tmp_path / "x")]
    result = RUN.invoke(cli.app, args)
    assert 1 == result.exit_code
    assert said in result.output
    assert "cited" not in result.output
