"""The files in which ASPIRE's authors publish RELISH and TRECCOVID-RF: papers, judged pools, splits."""

from collections.abc import Iterator
from pathlib import Path

from evaluation.collection import Collection, CollectionReader, EvalQuery
from evaluation.sets.files import add_once, csv_rows, is_there, json_document, json_lines, locate
from evaluation.sets.papers import PaperText, notes_on, text_of, to_papers
from models.errors import BrokenRowError, CorpusFormatError

MEASURES = (
    "NDCG%20",
    "MAP",
    "CSFCube-NDCG",
    "CSFCube-NDCG@20",
    "P@20",
    "R@20",
    "Rprec",
    "precision@last-relevant",
)

# ASPIRE tunes on dev and reports test, unlike CSFCube, where the folds swap roles.
SPLITS_NOTE = (
    "The figure over all folds is the mean of dev and test; the papers report test: see --json or --report.",
)


def aspire_layout(name: str) -> str:
    """Return the expected files of one of ASPIRE's sets."""
    return f"""
<folder>/
  abstracts-{name}.jsonl             {{"paper_id", "title", "abstract": [sentences]}} on each line
  test-pid2anns-{name}.json          {{query id: {{"cands": [paper ids], "relevance_adju": [grades]}}}}
  {name}-evaluation_splits.json      {{"dev": [query ids], "test": [query ids]}}
  {name}-queries-release.csv         optional: paper_id, title, topic_ids of every query
"""


def load_aspire(reader: CollectionReader, folder: Path, *, name: str, relevant_from: int) -> Collection:
    """Read one of ASPIRE's sets; folds are its ``dev`` and ``test``.

    Queries cluster by topic if the queries' file names topics, else each by itself. Queries that rank every
    paper except themselves have the empty pool, and no grades of 0: 9,000 candidates of each of 2,000 queries
    would fill the memory. Raises CollectionMissingError, BrokenRowError or CorpusFormatError.
    """
    abstracts = locate(reader, folder, f"abstracts-{name}.jsonl")
    annotations = locate(reader, folder, f"test-pid2anns-{name}.json")
    splits = locate(reader, folder, f"{name}-evaluation_splits.json")
    papers, blank = to_papers(_texts(abstracts))
    folds = _folds(splits)
    topics = _topics(reader, folder, f"{name}-queries-release.csv")
    queries: list[EvalQuery] = []
    qrels: dict[str, dict[str, int]] = {}
    absent: set[str] = set()
    n_unsplit = n_lost = 0
    for query_id, judged in json_document(annotations).items():
        if query_id not in papers:
            absent.add(query_id)
            continue
        if query_id not in folds:
            n_unsplit += 1
            continue
        grades = _grades(annotations, query_id, judged)
        absent.update(grades.keys() - papers.keys())
        grades.pop(query_id, None)
        pool = tuple(paper_id for paper_id in grades if paper_id in papers)
        if not pool:
            n_lost += 1
            continue
        if len(pool) == len(papers) - 1:
            pool, grades = (), {paper_id: grade for paper_id, grade in grades.items() if grade > 0}
        cluster = topics.get(query_id, query_id)
        queries.append(EvalQuery(query_id, papers[query_id], pool, cluster, fold=folds[query_id]))
        qrels[query_id] = grades
    unsplit = (f"Queries left out, in no split of {splits.name}: {n_unsplit:,}.",) * bool(n_unsplit)
    return Collection(
        name=name,
        papers=papers,
        queries=tuple(queries),
        qrels=qrels,
        relevant_from=relevant_from,
        measures=MEASURES,
        notes=(*notes_on(blank, absent, without_candidates=n_lost), *unsplit, *SPLITS_NOTE),
    )


def _texts(path: Path) -> Iterator[PaperText]:
    seen = set[str]()
    for number, record in json_lines(path):
        abstract, paper_id = record.get("abstract"), text_of(record, "paper_id")
        if not paper_id or not isinstance(abstract, list) or not all(isinstance(s, str) for s in abstract):
            raise BrokenRowError(
                str(path), number, "no paper_id, or an abstract that is not a list of sentences"
            )
        add_once(paper_id, seen, path, number)
        yield PaperText(paper_id, text_of(record, "title"), abstract)


def _grades(path: Path, query_id: str, judged: object) -> dict[str, int]:
    candidates = judged.get("cands") if isinstance(judged, dict) else None
    grades = judged.get("relevance_adju") if isinstance(judged, dict) else None
    if (
        not isinstance(candidates, list)
        or not isinstance(grades, list)
        or len(candidates) != len(grades)
        or not all(isinstance(grade, int | float) for grade in grades)
    ):
        raise CorpusFormatError(
            f"{path}: query {query_id!r} needs lists cands and relevance_adju (numbers) of equal length. "
            "Fetch it again."
        )
    return {str(paper_id): int(grade) for paper_id, grade in zip(candidates, grades, strict=True)}


def _folds(path: Path) -> dict[str, str]:
    return {str(query_id): fold for fold, ids in json_document(path).items() for query_id in ids}


def _topics(reader: CollectionReader, folder: Path, name: str) -> dict[str, str]:
    if not is_there(folder, name):
        return {}
    rows = csv_rows(locate(reader, folder, name), "paper_id")
    return {row["paper_id"]: f"topic:{row['topic_ids']}" for _, row in rows if row.get("topic_ids")}
