"""Any test collection in BEIR's format: short texts as queries, the whole corpus to search."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from evaluation.collection import Collection, EvalQuery
from evaluation.sets.files import JsonObject, add_once, json_lines, locate, read_qrels
from evaluation.sets.papers import (
    PaperText,
    absent_papers,
    notes_on,
    require_judged,
    text_of,
    text_query,
    to_papers,
)
from models.errors import BrokenRowError, InputError
from models.types import Paper

# BEIR reports the test side; a collection without one is measured on dev or train.
_SPLITS = ("test", "dev", "train")


class BeirSet:
    """``corpus.jsonl`` with ``_id, title, text``, ``queries.jsonl`` with ``_id, text``, and judgements.

    Also reads SciFact with its publishers' names: ``doc_id``, ``abstract`` (a list of sentences),
    ``query_id``, and one ``qrels.tsv``. Only judged queries count. A corpus document with the query's id and
    its text, as title (SCIDOCS) or in the abstract (ArguAna), is the query itself and is dropped; one that
    shares only the id (SciFact) is kept.
    """

    publisher = "the BEIR benchmark (github.com/beir-cellar/beir)"
    layout = """
<folder>/
  corpus.jsonl       {"_id", "title", "text"} on each line; any file may be gzipped (.gz)
  queries.jsonl      {"_id", "text"} on each line
  qrels/test.tsv     query-id <TAB> corpus-id <TAB> score, with a header (or dev.tsv, train.tsv, ../qrels.tsv)
"""

    def load(self, path: Path) -> Collection:
        """Read the collection; raises CollectionMissingError, BrokenRowError or CorpusFormatError."""
        corpus, queries = locate(self, path, "corpus.jsonl"), locate(self, path, "queries.jsonl")
        judgements = locate(self, path, *(f"qrels/{split}.tsv" for split in _SPLITS), "qrels.tsv")
        papers, blank = to_papers(corpus_texts(corpus))
        qrels = read_qrels(judgements, header=True)
        kept = tuple(_queries(queries, qrels, papers))
        n_absent = len(qrels) - len(kept)
        qrels = {query.id: qrels[query.id] for query in kept}
        absent = absent_papers(qrels, papers, judgements)
        return Collection(
            name=f"beir/{path.resolve().name}",
            papers=papers,
            queries=kept,
            qrels=qrels,
            relevant_from=1,
            measures=("nDCG@10", "MAP", "R@100"),
            notes=(f"Judgements: {judgements.name}.", *notes_on(blank, absent, queries_absent=n_absent)),
            id_prefixes=("", "s2:") if _is_scifact(corpus) else ("",),
        )


def _is_scifact(corpus: Path) -> bool:
    """Return whether the ids are those of Semantic Scholar, as in SciFact, by the name of the first id."""
    return any("doc_id" in record for _, record in islice(json_lines(corpus), 1))


def corpus_texts(path: Path) -> Iterator[PaperText]:
    """Yield the papers of a corpus file in BEIR's or SciFact's own format; raises BrokenRowError."""
    seen = set[str]()
    for number, record in json_lines(path):
        paper_id = record_id(record, path, number)
        add_once(paper_id, seen, path, number)
        text = record.get("abstract", record.get("text"))
        abstract = (
            [part for part in text if isinstance(part, str)] if isinstance(text, list) else str(text or "")
        )
        yield PaperText(paper_id, text_of(record, "title"), abstract)


def record_id(record: JsonObject, path: Path, line: int) -> str:
    """Return the id of a record in BEIR's or SciFact's own format; raises BrokenRowError if it has none."""
    for key in ("_id", "doc_id", "query_id"):
        value = record.get(key)
        if isinstance(value, str | int | float) and value != "":
            return str(value)
    raise BrokenRowError(str(path), line, "no _id (or doc_id, query_id)")


def _queries(
    path: Path, qrels: Mapping[str, Mapping[str, int]], papers: Mapping[str, Paper]
) -> Iterator[EvalQuery]:
    seen = set[str]()
    listed = []
    for number, record in json_lines(path):
        query_id = record_id(record, path, number)
        add_once(query_id, seen, path, number, what="query")
        listed.append(query_id)
        if query_id not in qrels:
            continue
        try:
            query = text_query(query_id, text_of(record, "text"))
        except InputError as error:
            raise BrokenRowError(str(path), number, str(error)) from error
        same = papers.get(query_id)
        if same is None or (query.abstract not in same.abstract and query.abstract not in same.title):
            # The id of a query is not the id of a paper, even if a paper with another text has it.
            query = text_query(f"query:{query_id}", query.abstract)
        yield EvalQuery(id=query_id, paper=query, pool=(), cluster=query_id, is_text=True)
    require_judged(listed, qrels, path)
