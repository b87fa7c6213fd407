"""Small invented test collections, written into a folder in the layouts of their publishers."""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from evaluation.collection import SETS, Collection, CollectionReader, EvalQuery
from models.registry import resolve

TITLE = "On {}"
ABSTRACT = "We study {0} at length. Then {0} is measured."


def write(folder: Path, name: str, content: str) -> None:
    """Write a file and its folder; gzipped if ``name`` ends in ``.gz``."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())


def lines(*records: Mapping[str, object]) -> str:
    """Return ``records`` as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def metadata(*names: str) -> dict[str, dict[str, object]]:
    """Return SciDocs metadata of papers with their subject as id."""
    return {
        name: {
            "paper_id": name,
            "title": TITLE.format(name),
            "abstract": ABSTRACT.format(name),
            "year": 2015,
            "authors": ["1"],
            "references": [],
            "cited_by": [],
        }
        for name in names
    }


def beir(folder: Path) -> None:
    """Write four documents, one of them empty, and three queries, one of them judged only in train.tsv."""
    documents = [
        {"_id": "d1", "title": "On tides", "text": "Tides rise. Tides fall.", "metadata": {}},
        {"_id": "7", "title": "On dunes", "text": "Dunes wander."},
        {"_id": "d3", "title": "Only a title", "text": ""},
        {"_id": "d4", "title": "", "text": ""},
    ]
    write(folder, "corpus.jsonl.gz", lines(*documents))
    queries = [("7", "Do tides fall?"), ("d1", "Tides rise. Tides fall."), ("q9", "Unjudged?")]
    write(folder, "queries.jsonl", lines(*({"_id": i, "text": text} for i, text in queries)))
    write(folder, "qrels/train.tsv", "query-id\tcorpus-id\tscore\nq9\td1\t1\n")
    write(folder, "qrels/test.tsv", "query-id\tcorpus-id\tscore\n7\td1\t2\n7\t7\t0\nd1\td3\t1\nd1\tlost\t1\n")


def csfcube(folder: Path) -> None:
    """Write a query for each facet, with one candidate."""
    papers = [
        {
            "paper_id": paper_id,
            "title": TITLE.format(paper_id),
            "abstract": ["It matters.", "We aim.", "We measure.", "It works."],
            "pred_labels": ["background_label", "objective_label", "method_label", "result_label"],
            "metadata": {"year": 2019},
        }
        for paper_id in ("1", "2")
    ]
    write(folder, "abstracts-csfcube-preds.jsonl", lines(*papers))
    facets = ("background", "method", "result")
    for facet in facets:
        judged = {"1": {"cands": ["2"], "relevance_adju": [3]}}
        write(folder, f"test-pid2anns-csfcube-{facet}.json", json.dumps(judged))
    folds = {facet: {"fold1_dev": [f"1_{facet}"], "fold2_dev": []} for facet in facets}
    write(folder, "evaluation_splits.json", json.dumps(folds))


def demo(folder: Path) -> None:
    """Write four cells of the grid of problems and methods."""
    cells = [(row, column) for row in "01" for column in "01"]
    papers = (
        {
            "id": f"demo:p0{row}-m0{column}",
            "title": f"Problem {row} by method {column}",
            "abstract": [f"Problem {row} matters.", "We aim high.", f"Method {column} runs.", "It works."],
            "facets": ["background", "objective", "method", "result"],
        }
        for row, column in cells
    )
    write(folder, "papers.jsonl", lines(*papers))


def doris_mae(folder: Path) -> None:
    """Write two questions with two and three aspects, and four abstracts, one of them without text."""
    corpus = [
        {"title": TITLE.format(i), "original_abstract": ABSTRACT.format(i)}
        for i in ("tides", "dunes", "moons")
    ]
    corpus.append({"title": "", "original_abstract": ""})
    questions = [
        {
            "query_text": "I look at tides. Dunes matter too.",
            "candidate_pool": [0, 1, 3],
            "aspects": {"1": [], "2": []},
        },
        {"query_text": "What moves moons?", "candidate_pool": [2, 0], "aspects": {"3": ["4", "1"]}},
    ]
    judged = [("1", 0, 1), ("2", 0, 1), ("1", 1, 1), ("2", 1, 0)]
    judged += [("3", 2, 2), ("4", 2, 2), ("1", 2, 0), ("4", 0, -1)]
    annotations = [{"aspect_id": a, "abstract_id": i, "score": s} for a, i, s in judged]
    content = {"Corpus": corpus, "Query": questions, "Annotation": annotations}
    write(folder, "DORIS-MAE_dataset_v1.json", json.dumps(content))


def functions(folder: Path) -> None:
    """Write two abstracts with five labelled sentences."""
    abstracts = [
        {"abstract_id": 0, "sentences": ["Seas.", "We sail."], "labels": ["background", "method"]},
        {
            "abstract_id": 0,
            "sentences": ["Oceans.", "We row.", "Else."],
            "labels": ["background", "method", "other"],
        },
    ]
    write(folder, "dev.jsonl", lines(*abstracts))


def iclr2022(folder: Path) -> None:
    """Write four papers; one query is in the corpus with the same id, the other with another id."""
    papers = [
        {"_id": name, "title": TITLE.format(name), "text": ABSTRACT.format(name)}
        for name in ("tides", "dunes", "moons", "winds")
    ]
    write(folder, "corpus.jsonl", lines(*papers))
    write(folder, "queries.jsonl", lines(papers[0], {**papers[1], "_id": "q2"}))
    judged = "query-id\tcorpus-id\tscore\ntides\tmoons\t2\ntides\tdunes\t1\ntides\twinds\t0\nq2\twinds\t1\n"
    write(folder, "qrels.tsv", judged)


def pairs(folder: Path) -> None:
    """Write three pairs: two with the same paper, and a short text with its paper."""
    texts = [
        {"id": name, "title": TITLE.format(name), "sentences": [ABSTRACT.format(name)]}
        for name in ("tides", "dunes", "moons")
    ]
    texts.append({"id": "claim", "title": "", "sentences": ["Winds blow."]})
    write(folder, "texts.jsonl", lines(*texts))
    belong = [("tides", "moons"), ("tides", "dunes"), ("claim", "dunes")]
    write(folder, "examples.jsonl", lines(*({"query": q, "positive": p} for q, p in belong)))


def relish(folder: Path) -> None:
    """Write two queries, one of them also judged against itself."""
    papers = (
        {"paper_id": i, "title": TITLE.format(i), "abstract": [f"We study {i}.", f"Then {i} is measured."]}
        for i in ("11", "12", "13", "14", "15")
    )
    write(folder, "abstracts-relish.jsonl", lines(*papers))
    judged = {
        "11": {"cands": ["12", "13", "14"], "relevance_adju": [2, 1, 0]},
        "15": {"cands": ["15", "11", "12"], "relevance_adju": [2, 0, 2]},
    }
    write(folder, "test-pid2anns-relish.json", json.dumps(judged))
    write(folder, "relish-evaluation_splits.json", json.dumps({"dev": ["15"], "test": ["11"]}))


def scidocs(folder: Path) -> None:
    """Write a query for each ranking task, two classes with different words, and clicks on similar titles."""
    write(folder, "paper_metadata_view_cite_read.json", json.dumps(metadata("tides", "dunes", "moons")))
    for task in ("coview", "coread", "cite", "cocite"):
        write(folder, f"{task}/test.qrel", "tides 0 dunes 1\ntides 0 moons 0\ntides 0 tides 1\n")

    animals, stones = [f"cat {i}" for i in range(12)], [f"ore {i}" for i in range(12)]
    write(folder, "paper_metadata_mag_mesh.json", json.dumps(metadata(*animals, *stones)))
    for task in ("mag", "mesh"):
        labelled = [f"{a},0\n{s},1\n" for a, s in zip(animals, stones, strict=True)]
        write(folder, f"{task}/train.csv", "pid,class_label\n" + "".join(labelled[:8]))
        write(folder, f"{task}/test.csv", "pid,class_label\n" + "".join(labelled[8:]))

    write(folder, "paper_metadata_recomm.json", json.dumps(metadata(*animals, *stones)))
    clicks = [f'{animals[i]},{animals[i + 1]},"{stones[i]},{animals[i + 1]}"\n' for i in range(10)]
    for split, kept in (("train", clicks[:6]), ("val", clicks[6:8]), ("test", clicks[8:])):
        write(folder, f"recomm/{split}.csv", "pid,clicked_pid,other_pids\n" + "".join(kept))
    write(folder, "recomm/propensity_scores.json", json.dumps({"scores": [0.4, 0.2]}))


def trec(folder: Path) -> None:
    """Write three papers in Akin's format, and topics: texts, sentences of a paper and a facet of a paper."""
    papers = [
        {
            "id": name,
            "title": TITLE.format(name),
            "abstract": [f"All know {name}.", f"We weigh {name}."],
            "facets": ["background", "method"],
        }
        for name in ("tides", "dunes", "moons")
    ]
    write(folder, "corpus.jsonl.gz", lines(*papers))
    topics = [
        {"id": "t1", "query": "Who weighs tides?"},
        {"id": "t2", "paper_id": "tides", "sentences": [0]},
        {"id": "t3", "paper_id": "tides", "facet": "method"},
        {"id": "t4", "query": "Unjudged?"},
    ]
    write(folder, "topics.jsonl", lines(*topics))
    write(folder, "qrels.txt", "t1 0 tides 1\nt1 0 moons -2\nt2 0 dunes 2\nt3 0 moons 1\nt3 0 lost 1\n")


def treccovid(folder: Path) -> None:
    """Write the layout of ASPIRE's authors: two queries of a topic, each with all others as candidates."""
    papers = (
        {"paper_id": i, "title": TITLE.format(i), "abstract": [f"We study {i}."], "topic_ids": "1"}
        for i in ("a", "b", "c")
    )
    write(folder, "abstracts-treccovid.jsonl", lines(*papers))
    judged = {
        "a": {"cands": ["b", "c"], "relevance_adju": [1, 0]},
        "b": {"cands": ["a", "c"], "relevance_adju": [1, 0]},
    }
    write(folder, "test-pid2anns-treccovid.json", json.dumps(judged))
    write(folder, "treccovid-evaluation_splits.json", json.dumps({"dev": ["a", "b"], "test": []}))
    queries = "paper_id,title,year,topic_ids\na,On a,2020,1\nb,On b,2020,1\n"
    write(folder, "treccovid-queries-release.csv", queries)


EXAMPLES: Mapping[str, Callable[[Path], None]] = {
    "beir": beir,
    "csfcube": csfcube,
    "demo": demo,
    "doris-mae": doris_mae,
    "functions": functions,
    "iclr2022": iclr2022,
    "pairs": pairs,
    "relish": relish,
    "scidocs": scidocs,
    "trec": trec,
    "treccovid-rf": treccovid,
}

# The files that a collection cannot be loaded without, by their names in the error message.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "beir": ("corpus.jsonl", "queries.jsonl"),
    "csfcube": (
        "abstracts-csfcube-preds.jsonl",
        "evaluation_splits.json",
        "test-pid2anns-csfcube-method.json",
    ),
    "demo": ("papers.jsonl",),
    "doris-mae": ("DORIS-MAE_dataset_v1.json",),
    "functions": ("dev.jsonl",),
    "iclr2022": ("corpus.jsonl", "queries.jsonl", "qrels.tsv"),
    "pairs": ("texts.jsonl", "examples.jsonl"),
    "relish": ("abstracts-relish.jsonl", "test-pid2anns-relish.json", "relish-evaluation_splits.json"),
    "scidocs": ("paper_metadata_view_cite_read.json", "cite/test.qrel", "cocite/test.qrel"),
    "trec": ("corpus.*", "topics.*", "qrels.*"),
    "treccovid-rf": ("abstracts-treccovid.jsonl", "test-pid2anns-treccovid.json"),
}


def reader_of(name: str) -> CollectionReader:
    """Return the reader of a collection."""
    reader = resolve(SETS, name, "test collection")()
    assert isinstance(reader, CollectionReader)
    return reader


def example(name: str, folder: Path) -> Collection:
    """Write the example of a collection and load it."""
    EXAMPLES[name](folder)
    return reader_of(name).load(folder)


def query(collection: Collection, query_id: str) -> EvalQuery:
    """Return a query of a collection."""
    (found,) = [query for query in collection.queries if query.id == query_id]
    return found
