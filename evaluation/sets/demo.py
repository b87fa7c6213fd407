"""The demo grid: a hundred invented papers, each with a problem (row) and a method (column)."""

import re
from pathlib import Path

from evaluation.collection import Collection, EvalQuery
from evaluation.sets.files import locate
from indexer.corpus.read import read_corpus
from models.errors import InputError
from models.types import Facet, Paper, Unit
from service.search.aspect import Aspect, select_sentences

_CELL = re.compile(r"demo:(p\d\d)-(m\d\d)")


class DemoSet:
    """Two queries per paper: ``background``, with its row relevant, and ``method``, with its column relevant.

    The facet's sentences are selected, objectives counting as background, and all other papers are ranked: 9
    of 99 are relevant. The judgements are known by construction and the abstracts are cleaner than real ones,
    so this is a check, not a benchmark.
    """

    publisher = "this project (akin/demo, installed with the package)"
    layout = """
<folder>/            or the file itself
  papers.jsonl       {"id": "demo:pNN-mNN", "title", "abstract": [sentences], "facets": [labels]} on each line
"""

    def load(self, path: Path) -> Collection:
        """Read the grid from its file or folder ``path``; raises CollectionMissingError or InputError."""
        corpus = path if path.is_file() else locate(self, path, "papers.jsonl")
        papers = {paper.id: paper for paper in read_corpus(corpus, format_name="jsonl", on_error="fail")}
        cells = {paper_id: _cell(paper_id) for paper_id in papers}
        queries, qrels = [], {}
        for paper in papers.values():
            for axis, facet in enumerate((Facet.BACKGROUND, Facet.METHOD)):
                query = _query(paper, facet)
                queries.append(query)
                akin = (other for other in papers if cells[other][axis] == cells[paper.id][axis])
                qrels[query.id] = {other: 1 for other in akin if other != paper.id}
        return Collection(
            name="demo",
            papers=papers,
            queries=tuple(queries),
            qrels=qrels,
            relevant_from=1,
            measures=("P@9", "MAP"),
        )


def _query(paper: Paper, facet: Facet) -> EvalQuery:
    n_sentences = len(paper.sentences)
    selected = select_sentences(
        Aspect(facets=(facet,)), paper, n_vectors=n_sentences, unit=Unit.SENTENCE
    ).like
    return EvalQuery(
        id=f"{paper.id}:{facet}", paper=paper, pool=(), cluster=paper.id, selected=selected, facet=facet.value
    )


def _cell(paper_id: str) -> tuple[str, str]:
    """Return the row and the column of a paper."""
    match = _CELL.fullmatch(paper_id)
    if match is None:
        raise InputError(f"Paper {paper_id!r} is not a paper of the demo grid; ids look like 'demo:p03-m07'.")
    return match[1], match[2]
