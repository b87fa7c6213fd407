"""CSFCube (Mysore et al., NeurIPS Datasets 2021): papers akin to one in background, method or result."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from evaluation.collection import Collection, EvalQuery
from evaluation.run import Run
from evaluation.sets.files import JsonObject, json_document, json_lines, locate
from indexer.corpus.rows import RawPaper, to_paper
from models.errors import BrokenRowError, CorpusFormatError, InputError
from models.types import Facet, Paper, Unit
from service.search.aspect import Aspect, select_sentences

FACETS = (Facet.BACKGROUND, Facet.METHOD, Facet.RESULT)
RELEVANT_FROM = 2
MEASURES = (
    "NDCG%20",
    "MAP",
    "P@20",
    "R@20",
    "Rprec",
    "CSFCube-NDCG",
    "CSFCube-NDCG@20",
    "precision@last-relevant",
)

_LABEL_SUFFIX = "_label"
_SPLIT_NAME = re.compile(r"fold([12])_(dev|test)")


class CsfcubeSet:
    """CSFCube in its own layout, the papers plain or gzipped; a subset of the queries is accepted.

    A query is ``{paper id}-{facet}``. Its facet selects sentences by their predicted label, as
    ``service.search.aspect`` does: objectives count as background, "other" is never selected (semantics 2,
    3.5). That is definition 1 of the task; definition 2 gives the same sentences without naming the facet.
    The grade is the adjudicated relevance, and the query paper is not in its own pool (two queries list it,
    semantics 3.7).

    ``fold1`` holds the queries of ``fold1_dev``, ``fold2`` those of ``fold2_dev``. The authors' test splits
    are the same two, swapped, so the mean of the folds' means is what they report as test.
    """

    publisher = "https://github.com/iesl/CSFCube"
    layout = """
abstracts-csfcube-preds.jsonl
evaluation_splits.json
test-pid2anns-csfcube-background.json
test-pid2anns-csfcube-method.json
test-pid2anns-csfcube-result.json
NAME-ranking-background.json, ...      optional: published rankings, {query: [[paper, distance], ...]}
"""

    def load(self, path: Path) -> Collection:
        """Read the collection in the folder ``path``.

        Raises CollectionMissingError if a file is missing, BrokenRowError for a paper that cannot be used and
        CorpusFormatError if the files contradict one another.
        """
        folds = _folds(locate(self, path, "evaluation_splits.json"))
        annotations = {facet: locate(self, path, f"test-pid2anns-csfcube-{facet}.json") for facet in FACETS}
        papers = dict(_papers(locate(self, path, "abstracts-csfcube-preds.jsonl")))
        queries: list[EvalQuery] = []
        qrels: dict[str, dict[str, int]] = {}
        for facet, file in annotations.items():
            for paper_id, judged in json_document(file).items():
                grades = _grades(judged, file, paper_id)
                query = _query(papers, paper_id, facet, pool=tuple(grades), folds=folds, file=file)
                queries.append(query)
                qrels[query.id] = grades
        return Collection(
            name="csfcube",
            papers=papers,
            queries=tuple(queries),
            qrels=qrels,
            relevant_from=RELEVANT_FROM,
            measures=MEASURES,
            notes=tuple(_notes(queries, folds)),
            id_prefixes=("", "s2:"),
        )

    def rankings(self, path: Path) -> Iterator[Run]:
        """Yield the published rankings in ``NAME-ranking-FACET.json``: {query: [[paper, distance], ...]}.

        Raises CorpusFormatError for a file with any other content.
        """
        scores: dict[str, dict[str, dict[str, float]]] = {}
        for file in sorted(path.glob("*-ranking-*.json*")):
            name, _, rest = file.name.partition("-ranking-")
            for query, ranked in json_document(file).items():
                try:
                    of_query = {str(paper): -float(distance) for paper, distance in ranked}
                except (TypeError, ValueError) as error:
                    raise CorpusFormatError(
                        f"{file}: query {query} has no list of papers with their distances. Fetch it again."
                    ) from error
                scores.setdefault(name, {})[f"{query}-{rest.partition('.')[0]}"] = of_query
        for name, of_queries in scores.items():
            yield Run(f"{name} (published)", of_queries)


def _papers(path: Path) -> Iterator[tuple[str, Paper]]:
    for line, record in json_lines(path):
        try:
            paper = to_paper(
                RawPaper(
                    id=record.get("paper_id"),
                    title=record.get("title"),
                    abstract=record.get("abstract"),
                    facets=_facets(record),
                )
            )
        except InputError as error:
            raise BrokenRowError(str(path), line, str(error)) from error
        yield paper.id, paper


def _facets(record: JsonObject) -> list[object]:
    """Return labels as facets (``method_label``: ``method``); unknown ones are rejected by the row reader."""
    labels = record.get("pred_labels")
    if not isinstance(labels, list):
        raise InputError("no list pred_labels")
    return [label.removesuffix(_LABEL_SUFFIX) if isinstance(label, str) else label for label in labels]


def _grades(judged: JsonObject, file: Path, paper_id: str) -> dict[str, int]:
    """Return the adjudicated grades of a query's candidates without the query paper; -1 (not rated) is 0."""
    try:
        pairs = zip(judged["cands"], judged["relevance_adju"], strict=True)
        return {candidate: max(grade, 0) for candidate, grade in pairs if candidate != paper_id}
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusFormatError(
            f"{file}: query {paper_id} needs lists cands and relevance_adju (numbers) of equal length. "
            "Fetch the file again."
        ) from error


def _query(
    papers: Mapping[str, Paper],
    paper_id: str,
    facet: Facet,
    *,
    pool: tuple[str, ...],
    folds: Mapping[str, str],
    file: Path,
) -> EvalQuery:
    missing = [each for each in (paper_id, *pool) if each not in papers]
    if missing:
        raise CorpusFormatError(
            f"{file}: query {paper_id} names {len(missing)} papers, {missing[0]} for one, that the abstracts "
            "do not hold. Take both files from one release."
        )
    paper = papers[paper_id]
    split_id = f"{paper_id}_{facet}"
    if split_id not in folds:
        raise CorpusFormatError(
            f"{file}: query {split_id} is in no fold of evaluation_splits.json. Take both from one release."
        )
    selected = select_sentences(
        Aspect(facets=(facet,)), paper, n_vectors=len(paper.sentences), unit=Unit.SENTENCE
    ).like
    return EvalQuery(
        id=f"{paper_id}-{facet}",
        paper=paper,
        pool=pool,
        cluster=paper_id,
        selected=selected or None,
        facet=facet.value,
        fold=folds[split_id],
    )


def _folds(path: Path) -> dict[str, str]:
    """Return ``fold1`` or ``fold2`` for each ``{paper id}_{facet}``; a test split is the other fold."""
    folds: dict[str, str] = {}
    for facet, splits in json_document(path).items():
        if not isinstance(splits, dict):
            raise CorpusFormatError(f"{path}: {facet!r} holds no splits fold1_dev and so on. Fetch it again.")
        for split, query_ids in splits.items():
            if (match := _SPLIT_NAME.fullmatch(split)) is None:
                continue  # a judged query that is in no fold is rejected later
            number = int(match[1]) if match[2] == "dev" else 3 - int(match[1])
            for query_id in query_ids:
                if folds.setdefault(query_id, f"fold{number}") != f"fold{number}":
                    raise CorpusFormatError(f"{path}: query {query_id} is in both folds. Fetch it again.")
    return folds


def _notes(queries: list[EvalQuery], folds: Mapping[str, str]) -> Iterator[str]:
    absent = len(folds.keys() - {f"{query.paper.id}_{query.facet}" for query in queries})
    if absent:
        yield f"{absent} of the {len(folds)} queries of the splits have no judgements in this folder."
    if len({query.fold for query in queries}) == 1:
        yield (
            f"Only {queries[0].fold} is here: half of the collection, so the figures are not comparable with "
            "published ones."
        )
    for query in queries:
        if query.selected is None:
            yield f"Query {query.id}: no sentence has its facet, so the whole abstract counts."
