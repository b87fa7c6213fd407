"""The strength of first results: for the papers of a collection, papers of another field, and invented words.

python -m benchmarks.relevance.strength DATA OTHER.jsonl [--papers 300] [--others 60]

DATA is an indexed collection, OTHER a corpus of another field with "title" and "abstract". By the meaning of
``strength``, half of a collection's own papers have a strong first result, and one in twenty a weak one.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator
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
Search = Callable[[], Any]


def own_queries(papers: akin.Collection, n_papers: int) -> Iterator[tuple[str, list[Search]]]:
    """Yield searches from papers of the collection: whole, by facet, and by the title as a text."""
    rng = random.Random(SEED)  # noqa: S311
    every = [each.id for each in papers.list_papers(limit=100_000).papers]
    ids = rng.sample(every, min(n_papers, len(every)))
    titles = {each.id: each.title for each in papers.papers(ids[:500]) if each is not None}
    yield "own papers", [lambda name=name: papers.search(name, include=[]) for name in ids]
    for facet in (Facet.BACKGROUND, Facet.METHOD, Facet.RESULT):
        yield (
            f"own papers, {facet}",
            [lambda name=name, facet=facet: papers.search(name, facet=facet, include=[]) for name in ids],
        )
    yield (
        "their titles as texts, without the paper",
        [
            lambda name=name: papers.search(text=titles[name], filters={"exclude_ids": [name]}, include=[])
            for name in ids
            if len(titles.get(name, "").split()) > 3
        ],
    )


def other_queries(papers: akin.Collection, other: Path, n_others: int) -> Iterator[tuple[str, list[Search]]]:
    """Yield searches from papers of another field, from their titles as texts, and from invented words."""
    rng = random.Random(SEED)  # noqa: S311
    with other.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, 20_000)]
    chosen = rng.sample(rows, min(n_others, len(rows)))
    yield (
        "abstracts of another field",
        [
            lambda row=row: papers.search(title=row["title"], abstract=row["abstract"], include=[])
            for row in chosen
        ],
    )
    yield (
        "titles of another field",
        [lambda row=row: papers.search(text=row["title"], include=[]) for row in chosen],
    )
    letters = "bcdfghjklmnprstvwxz"
    made = ["".join(rng.choice(letters) + rng.choice("aeiou") for _ in range(3)) for _ in range(8 * n_others)]
    noise = [" ".join(made[start : start + 8]) for start in range(0, len(made), 8)]
    yield "invented words", [lambda text=text: papers.search(text=text, include=[]) for text in noise]


def shares(searches: list[Search], name: str, console: Console) -> list[str]:
    """Return how many searches have a strength, the shares of its labels in percent, and its quartiles."""
    found = []
    for search in track(searches, name, console=console, transient=True):
        try:
            answer = search()
        except akin.AkinError:  # a paper may have no sentence of the facet
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
        for queries in (own_queries(papers, given.papers), other_queries(papers, given.other, given.others)):
            for name, searches in queries:
                table.add_row(name, *shares(searches, name, console))
    Console().print(table)


if __name__ == "__main__":
    main()
