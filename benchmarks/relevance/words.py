"""The cost of shared words on a collection, and how much the candidate stage loses of a ranking with words.

python -m benchmarks.relevance.words DATA [--queries 100 --exhaustive 50]

Each query is run with and without words, in turns, on one thread. The exhaustive comparison scores every
paper of the collection with words; the last column shows how many of its first 20 the service finds.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from indexer.files.data_folder import DataFolder
from indexer.words.file import WORDS
from service.collection.generations import open_engine
from service.search.aspect import Aspect, Contrast
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

TOP = 20
_TEXT_WORDS = 6

Kinds = Mapping[str, Callable[[int], SearchQuery]]


def kinds(engine: SearchEngine) -> Kinds:
    """Return functions that make a query of each kind from the paper at a position."""
    snapshot = engine.snapshot

    def by_id(position: int, aspect: Aspect | None = None) -> SearchQuery:
        return SearchQuery((Seed(snapshot.paper(position).id, aspect=aspect or Aspect()),), limit=TOP)

    def unlike_last(position: int) -> SearchQuery:
        last = len(snapshot.vectors(position)) - 1
        return by_id(position, Aspect(sentences=(0,), unlike=Contrast(sentences=(last,))))

    def three(position: int) -> SearchQuery:
        near = engine.search(SearchQuery((Seed(snapshot.paper(position).id),), limit=10)).results
        names = (snapshot.paper(position).id, near[4].paper.id, near[9].paper.id)
        return SearchQuery(tuple(map(Seed, names)), limit=TOP)

    def text(position: int) -> SearchQuery:
        words = snapshot.paper(position).title.split()
        return SearchQuery((Seed(text=" ".join(words[:_TEXT_WORDS])),), limit=TOP)

    return {
        "a whole abstract": by_id,
        "its first sentence": partial(by_id, aspect=Aspect(sentences=(0,))),
        "first sentence, unlike the last": unlike_last,
        "three seeds": three,
        "a short text": text,
    }


def timed(engine: SearchEngine, query: SearchQuery) -> tuple[float, list[str]]:
    """Return milliseconds of processor time, and the ids of the answer."""
    started = time.process_time()
    answer = engine.search(query)
    return 1000 * (time.process_time() - started), [result.paper.id for result in answer.results]


def without_words(query: SearchQuery) -> SearchQuery:
    """Return the same query with words not counted."""
    return replace(query, words=0.0)


def of_kind(
    engine: SearchEngine, full: SearchEngine, queries: list[SearchQuery], n_exhaustive: int
) -> list[str]:
    """Return a row's cells: medians with and without words, their ratio, and the share of the best found."""
    own_ms, bare_ms, shares = [], [], []
    for number, query in enumerate(track(queries, "Asking")):
        took, found = timed(engine, query)
        own_ms.append(took)
        bare_ms.append(timed(engine, without_words(query))[0])
        if number < n_exhaustive:
            best = timed(full, query)[1]
            shares.append(len(set(found) & set(best)) / max(len(best), 1))
    ratio = statistics.median(own / bare for own, bare in zip(own_ms, bare_ms, strict=True))
    return [
        f"{statistics.median(own_ms):.1f}",
        f"{statistics.median(bare_ms):.1f}",
        f"{ratio:.2f}",
        f"{statistics.mean(shares):.2%} ({sum(share == 1 for share in shares)} of {len(shares)} whole)",
    ]


def sizes(engine: SearchEngine, data: Path) -> str:
    """Return the bytes per paper, of words and of all other files."""
    files = [
        (name, (DataFolder(data).segment(segment.entry.name) / name).stat().st_size)
        for segment in engine.snapshot.segments
        for name in segment.entry.files
    ]
    n_papers = sum(len(segment) for segment in engine.snapshot.segments)
    own = sum(size for name, size in files if name == WORDS)
    rest = sum(size for name, size in files if name != WORDS)
    return f"words {own / n_papers:,.0f} bytes a paper, all other files {rest / n_papers:,.0f}"


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--exhaustive", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    engine = open_engine(Settings(data=given.data))
    n_papers = len(engine.snapshot)
    full = SearchEngine(engine.snapshot, engine.load, n_candidates=n_papers)
    drawn = np.random.default_rng(given.seed).choice(engine.snapshot.positions, given.queries, replace=False)
    engine.warm_up()
    started = time.process_time()
    engine.search(kinds(engine)["a whole abstract"](int(drawn[0])))
    first_s = time.process_time() - started
    title = f"{n_papers:,} papers, {len(engine.snapshot.segments)} segments; {sizes(engine, given.data)}"
    table = Table("query", "with words, ms", "without, ms", "ratio", f"found of the best {TOP}", title=title)
    for name, query_of in kinds(engine).items():
        queries = [query_of(position) for position in drawn.tolist()]
        table.add_row(name, *of_kind(engine, full, queries, given.exhaustive))
    Console(width=140).print(table)
    print(f"first query with words: {1000 * first_s:.0f} ms (processor)")


if __name__ == "__main__":
    main()
