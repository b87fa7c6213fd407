"""The strength of first results: for the papers of a collection, papers of another field, and invented words.

python -m benchmarks.relevance.strength DATA OTHER.jsonl [--papers 300] [--others 60]

DATA is an indexed collection, OTHER a corpus of another field with "title" and "abstract". By the meaning of
``strength``, half of a collection's own papers have a strong first result, and one in twenty a weak one.
"""

import argparse
import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import akin
from models.types import Facet

SEED = 0
LABELS = ("strong", "fair", "weak")
FACETS = (None, Facet.BACKGROUND, Facet.METHOD, Facet.RESULT)
Query = dict[str, Any]  # keywords of a search


def own_queries(papers: akin.Collection, n_papers: int) -> Iterator[tuple[str, list[Query]]]:
    """Yield searches from papers of the collection, and from their titles as texts, without the papers."""
    every = [each.id for each in papers.list_papers(limit=100_000).papers]
    ids = random.Random(SEED).sample(every, min(n_papers, len(every)))  # noqa: S311
    yield "own papers", [{"paper_id": name} for name in ids]
    unlike = {"facet": Facet.BACKGROUND}
    yield "own papers, unlike background", [{"paper_id": name, "unlike": unlike} for name in ids]
    yield (
        "titles of own papers",
        [
            {"text": paper.title, "filters": {"exclude_ids": [paper.id]}}
            for paper in papers.papers(ids[:500])
            if paper is not None and len(paper.title.split()) > 3
        ],
    )


def other_queries(other: Path, n_others: int) -> Iterator[tuple[str, list[Query]]]:
    """Yield searches from papers of another field, from their titles as texts, and from invented words."""
    rng = random.Random(SEED)  # noqa: S311
    with other.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, 20_000)]
    chosen = rng.sample(rows, min(n_others, len(rows)))
    yield "papers of another field", [{name: row[name] for name in ("title", "abstract")} for row in chosen]
    yield "titles of another field", [{"text": row["title"]} for row in chosen]
    letters = "bcdfghjklmnprstvwxz"
    made = ["".join(rng.choice(letters) + rng.choice("aeiou") for _ in range(3)) for _ in range(8 * n_others)]
    yield "invented words", [{"text": " ".join(made[i : i + 8])} for i in range(0, len(made), 8)]


def shares(papers: akin.Collection, queries: list[Query], name: str, console: Console) -> list[str]:
    """Return how many searches have a strength, the shares of its labels in percent, and its quartiles."""
    found = []
    for query in track(queries, name, console=console, transient=True):
        try:
            answer = papers.search(include=[], **query)
        except akin.AkinError:  # a paper may have no sentence of the facet, or be unlike it
            continue
        if len(answer) and answer[0].strength:
            found.append(answer[0].strength)
    if not found:
        return ["0"]
    labels = [f"{100 * np.mean([each.label == label for each in found]):.0f}" for label in LABELS]
    quartiles = np.quantile([each.nearer_than for each in found], [0.25, 0.5, 0.75])
    return [str(len(found)), *labels, " ".join(f"{each:.2f}" for each in quartiles)]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--papers", type=int, default=300)
    parser.add_argument("--others", type=int, default=60)
    given = parser.parse_args()
    console = Console(stderr=True)
    table = Table(
        "first results of", "searches", *(f"{label}, %" for label in LABELS), "nearer than: quartiles"
    )
    with akin.open(given.data) as papers:
        table.title = f"{len(papers):,} papers"
        for name, queries in (*own_queries(papers, given.papers), *other_queries(given.other, given.others)):
            for facet in FACETS:
                named = f"{name}, {facet}" if facet else name
                of_facet = [{**query, "facet": facet} for query in queries]
                table.add_row(named, *shares(papers, of_facet, named, console))
    Console().print(table)


if __name__ == "__main__":
    main()
