"""Figures to reproduce: of the CSFCube authors' script on invented rankings, and of real queries.

``csfcube_script.json``: rankings that we invented, each the grades of a query's pool in ranked order, and
their figures in percent by ``compute_metrics`` and ``aggregate_metrics_crossval`` of
https://github.com/iesl/CSFCube, eval_scripts/ranking_eval.py; "fold1" is its dev split, "all" its test split.

``csfcube_measured.json``: ``numbers_of`` the collection's development fold with SPECTER's published rankings
and BM25, and the figures of the authors' script for SPECTER. Queries and papers are only numbers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.collection import Collection
from evaluation.measures import per_query
from evaluation.run import Run

_HERE = Path(__file__).parent
SCRIPT: Mapping[str, Any] = json.loads((_HERE / "csfcube_script.json").read_text(encoding="utf-8"))
MEASURED: Mapping[str, Any] = json.loads((_HERE / "csfcube_measured.json").read_text(encoding="utf-8"))

# The authors' names of our measures; "r_precision" is a misnomer.
AUTHORS_NAMES = {
    "precision": "P@20",
    "recall": "R@20",
    "f1": "F1@20",
    "r_precision": "precision@last-relevant",
    "mean_av_precision": "MAP",
    "mean_reciprocal_rank": "RR",
    "ndcg": "CSFCube-NDCG",
    "ndcg@20": "CSFCube-NDCG@20",
    "ndcg%20": "NDCG%20",
}


def numbers_of(collection: Collection, runs: Mapping[str, tuple[Run, Sequence[str]]]) -> dict[str, Any]:
    """Return the values of each query by run and measure; queries and their papers are numbered by id."""
    queries = sorted(collection.queries, key=lambda query: query.id)
    papers = sorted({query.cluster for query in queries})
    return {
        "queries": [[query.facet, papers.index(query.cluster)] for query in queries],
        "values": {
            name: {
                measure: [round(values[query.id], 4) for query in queries]
                for measure, values in per_query(collection, run, measures).items()
            }
            for name, (run, measures) in runs.items()
        },
    }


@dataclass(frozen=True, slots=True)
class Invented:
    """The rankings of ``csfcube_script.json`` as the files of a collection, and as a run that ranks so."""

    papers: list[dict[str, Any]]
    annotations: dict[str, dict[str, Any]]
    splits: dict[str, dict[str, list[str]]]
    run: Run


def invented() -> Invented:
    """Return a query with a separate paper for each ranking; pools are listed from last to first rank."""
    annotations: dict[str, dict[str, Any]] = {}
    splits: dict[str, dict[str, list[str]]] = {}
    scores: dict[str, dict[str, float]] = {}
    for facet, folds in SCRIPT["rankings"].items():
        annotations[facet], splits[facet] = {}, {}
        for fold, rankings in folds.items():
            names = [f"{facet}{fold}{number}" for number in range(len(rankings))]
            splits[facet][f"{fold}_dev"] = [f"{name}_{facet}" for name in names]
            for name, grades in zip(names, rankings, strict=True):
                pool = [f"c{rank}" for rank in range(len(grades))]
                judged = {"cands": pool[::-1], "relevance_adju": [int(grade) for grade in grades[::-1]]}
                annotations[facet][name] = judged
                scores[f"{name}-{facet}"] = {paper: -float(rank) for rank, paper in enumerate(pool)}
    longest = max(len(judged["cands"]) for of_facet in annotations.values() for judged in of_facet.values())
    names = [name for of_facet in annotations.values() for name in of_facet]
    papers = [_paper(name) for name in (*names, *(f"c{rank}" for rank in range(longest)))]
    return Invented(papers, annotations, splits, Run("invented", scores))


def _paper(name: str) -> dict[str, Any]:
    labels = [f"{facet}_label" for facet in ("background", "method", "result")]
    abstract = [f"{name} matters.", f"We weigh {name}.", f"{name} is heavy."]
    return {"paper_id": name, "title": f"On {name}", "abstract": abstract, "pred_labels": labels}
