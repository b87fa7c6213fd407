"""The benchmark suite: ``python -m benchmarks [--suite quick|full] [--json FILE] [--corpus FILE]``.

Each row measures a goal: the cost of Akin, the cost of a peer or of the minimal work, measured in the same
process in turns, their ratio with its quartiles, and whether the goal is met. ``quick`` takes about fifteen
minutes; ``full`` also searches two million rows, and indexes 20,000 papers of ``--corpus``. Peers that are
not installed are left out: ``make bench`` installs them separately.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch load their thread pools

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from rich.console import Console

from benchmarks.suite.report import counted, table, write_report
from benchmarks.suite.rows import Row, machine
from tests.support.builds import many_papers, write_corpus

# Rows of the candidate stage, papers to index, papers to encode.
SIZES = {"quick": ((100_000,), 600, 96), "full": ((100_000, 2_000_000), 20_000, 384)}
# Sentences per abstract, by deciles, of 20,000 computer science papers: varying lengths cost padding.
SENTENCES = (1, 4, 4, 5, 5, 6, 6, 7, 8, 9, 14)
SECTIONS = ("solvers", "backends", "transformers", "collections", "serving")


def main() -> None:
    """Measure, print and write the rows."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=SIZES, default="quick")
    parser.add_argument("--json", type=Path, help="write the rows to this file, and a page beside it (.md)")
    parser.add_argument("--corpus", type=Path, help="papers to index; default: the demo corpus, made longer")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    console, found = Console(width=None if sys.stdout.isatty() else 160), []
    with tempfile.TemporaryDirectory() as folder:
        for name in given.only:
            console.print(f"[bold]{name}[/bold] ...")
            of_section = list(_section(name, given.suite, given.corpus, Path(folder)))
            console.print(table(of_section))
            found += of_section
    console.print(counted(found))
    if given.json:
        rows = [{**asdict(row), "is_met": row.is_met} for row in found]
        only = [] if set(given.only) == set(SECTIONS) else given.only
        results = {"suite": given.suite, "only": only, "machine": machine(), "rows": rows}
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        write_report(given.json)


def _section(name: str, suite: str, corpus: Path | None, folder: Path) -> Iterator[Row]:
    """Return the rows of one section; each section imports what it needs."""
    n_rows, n_papers, n_encoded = SIZES[suite]
    corpus = corpus or _made_corpus(folder, n_papers)
    rows: Callable[..., Iterator[Row]] = import_module(f"benchmarks.suite.{name}").rows
    if name == "backends":
        return rows(n_rows)
    if name == "transformers":
        return rows(corpus, n_encoded, threads=1)
    if name == "collections":
        return rows(corpus, n_papers, threads=1)
    return rows(folder / "served") if name == "serving" else rows()


def _made_corpus(folder: Path, n_papers: int) -> Path:
    """Write ``n_papers`` papers from the demo corpus's sentences, with realistic numbers of sentences."""
    drawn = np.interp(np.random.default_rng(0).random(n_papers), np.linspace(0, 1, 11), SENTENCES)
    papers = many_papers(n_papers)
    texts: list[Any] = [paper["abstract"] for paper in papers]
    for number, paper in enumerate(papers):
        longer = chain(*(texts[number - back] for back in range(3)))
        paper["abstract"] = [*islice(longer, int(drawn[number].round()))]
    return write_corpus(folder / "papers.jsonl", papers)


if __name__ == "__main__":
    main()
