"""ICLR2022 (Parisot and Zavrel, SDP 2022): similar papers of one conference, judged by experts."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from evaluation.collection import Collection, EvalQuery
from evaluation.sets.beir import corpus_texts, record_id
from evaluation.sets.files import json_lines, locate, read_qrels
from evaluation.sets.papers import PaperText, absent_papers, notes_on, require_judged, text_of, to_papers
from models.errors import InputError
from models.types import Paper


class Iclr2022Set:
    """1,094 papers, 40 queries, 1,844 judgements: 0, 1 (relevant) or 2 (very relevant; semantics 4.3).

    BEIR's format, but queries are papers with ``title`` and ``text``, and are also in the corpus: every query
    ranks the whole corpus except itself. The query's paper is found by its id, else by its title and
    abstract; the publishers' script deletes whatever ranks first. nDCG@10 is trec_eval's, not that script's
    variant, which computes the ideal from the retrieved papers only.
    """

    publisher = "Zeta Alpha (github.com/zetaalphavector/multi-obj-repr-learning, download_data.sh)"
    layout = """
<folder>/
  corpus.jsonl     {"_id", "title", "text"} on each line
  queries.jsonl    {"_id", "title", "text"} on each line
  qrels.tsv        query-id <TAB> corpus-id <TAB> score, with a header
"""

    def load(self, path: Path) -> Collection:
        """Read the collection; raises CollectionMissingError, BrokenRowError or CorpusFormatError."""
        corpus, queries = locate(self, path, "corpus.jsonl"), locate(self, path, "queries.jsonl")
        judgements = locate(self, path, "qrels.tsv")
        qrels = read_qrels(judgements, header=True)
        papers, blank = to_papers(corpus_texts(corpus))
        kept = tuple(_queries(queries, qrels, papers))
        qrels = {query.id: qrels[query.id] for query in kept}
        absent = absent_papers(qrels, papers, judgements)
        return Collection(
            name="iclr2022",
            papers=papers,
            queries=kept,
            qrels=qrels,
            relevant_from=1,
            measures=("nDCG@10", "MAP", "P@5", "R@20"),
            notes=notes_on(blank, absent),
        )


def _queries(
    path: Path, qrels: Mapping[str, Mapping[str, int]], papers: Mapping[str, Paper]
) -> Iterator[EvalQuery]:
    same_text = {(paper.title, paper.abstract): paper for paper in papers.values()}
    texts = [
        PaperText(record_id(record, path, number), text_of(record, "title"), text_of(record, "text"))
        for number, record in json_lines(path)
    ]
    require_judged([text.id for text in texts], qrels, path)
    queries, blank = to_papers(text for text in texts if text.id in qrels)
    if blank:
        raise InputError(f"{path}: queries without title and text: {', '.join(blank)}; fetch it again.")
    for query_id, query in queries.items():
        itself = papers.get(query_id) or same_text.get((query.title, query.abstract), query)
        pool = tuple(paper_id for paper_id in papers if paper_id != itself.id)
        yield EvalQuery(id=query_id, paper=itself, pool=pool, cluster=query_id)
