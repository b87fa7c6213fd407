"""The cost of matching a whole conference: encode, compare, assign and explain, also after a kill.

``python -m benchmarks.relevance.matching CORPUS OUT [--submissions 2000 --reviewers 3000 --papers 20]``.
Reviewers are the authors with most papers, each with their latest ones; submissions are the latest papers of
the corpus. The comparison is killed half way and started again.
"""

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from indexer.corpus.read import read_corpus
from indexer.snapshot.opening import open_snapshot
from indexer.spare_cores import N_CORES
from models.annotator import load_annotator
from models.types import Paper
from service.match.assignment import Aim
from service.match.matching import Match, Quotas
from service.match.papers import matched_papers
from service.match.program.program import Program
from service.match.report import write_report
from service.match.tables import write_scores


def made_program(corpus: Path, *, n_submissions: int, n_reviewers: int, n_papers: int) -> Program:
    """Make a conference from a corpus with years and authors."""
    papers = {each.id: each for each in read_corpus(corpus) if each.authors and each.year}
    by_year = sorted(papers.values(), key=lambda each: (-(each.year or 0), each.id))
    program = Program()
    program.submissions = [each.id for each in by_year[:n_submissions]]
    by_author: dict[str, list[Paper]] = {}
    for paper in by_year[n_submissions:]:
        for author in paper.authors:
            by_author.setdefault(author, []).append(paper)
    reviewers = sorted(by_author, key=lambda name: (-len(by_author[name]), name))[:n_reviewers]
    program.profiles = {name: [each.id for each in by_author[name][:n_papers]] for name in reviewers}
    used = {*program.submissions, *(each for ids in program.profiles.values() for each in ids)}
    program.papers = {each: papers[each] for each in sorted(used)}
    program.conflicts = {
        (each, author)
        for each in program.submissions
        for author in papers[each].authors
        if author in program.profiles
    }
    return program


class _Clock:
    """Stages with the seconds each took and the peak memory at its end."""

    def __init__(self) -> None:
        self.table = Table("stage", "s", "peak MiB")

    def measure(self, stage: str, work: Callable[[], object]) -> float:
        """Run ``work`` and record its time and the peak memory."""
        started = time.perf_counter()
        work()
        took = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.table.add_row(stage, f"{took:,.1f}", f"{peak:,.0f}")
        return took


def _silent(stage: str, done: int, total: int | None) -> None:
    """Ignore progress."""


def _matched(program: Program, data: Path, stop_after: int | None = None) -> Match:
    def stop(stage: str, done: int, total: int | None) -> None:
        if stop_after is not None and stage == "comparing" and done >= stop_after:
            os.kill(os.getpid(), 9)

    return Match(program, open_snapshot(data), data=data, n_threads=N_CORES, on_progress=stop)


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    for name, default in (("submissions", 2_000), ("reviewers", 3_000), ("papers", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--encoder", default="minilm")
    options = parser.parse_args()
    program = made_program(
        options.corpus,
        n_submissions=options.submissions,
        n_reviewers=options.reviewers,
        n_papers=options.papers,
    )
    console, clock = Console(), _Clock()
    data = options.out / "collection"
    annotator = load_annotator(options.encoder, device="cpu")
    encoding = clock.measure(
        f"encode and index {len(program.papers):,} papers",
        partial(matched_papers, program.papers, data, annotator, device="cpu", on_progress=_silent),
    )
    del annotator
    half = options.submissions // 2
    killed = multiprocessing.get_context("spawn").Process(target=_matched, args=(program, data, half))
    before = clock.measure(
        f"compare until killed after {half:,} submissions", lambda: (killed.start(), killed.join())
    )
    found: list[Match] = []
    after = clock.measure("compare the rest", lambda: found.append(_matched(program, data)))
    (match,) = found
    clock.measure("write scores and Parquet", lambda: write_scores(match, options.out))
    quotas = Quotas(3, max(4, 2 * 3 * options.submissions // options.reviewers), Aim.TOTAL)
    assigned = []
    clock.measure("assign three each", lambda: assigned.append(match.assigned(quotas)))
    clock.measure(
        "explain and write the report",
        lambda: write_report(
            options.out / "report.html", match, assigned[0], n_shown=5, command="", on_progress=_silent
        ),
    )
    console.print(clock.table)
    n_papers = len({each for ids in program.profiles.values() for each in ids})
    n_compared, compared = n_papers * len(match.submissions), before + after
    console.print(
        f"{n_compared:,} comparisons with {n_papers:,} papers for {match.values.size:,} pairs, "
        f"{1e6 * compared / n_compared:.1f} us each; comparing / encoding: {compared / encoding:.2f}; "
        f"mean affinity assigned {assigned[0].total / (3 * len(match.submissions)):.3f}, of all pairs "
        f"{np.nanmean(match.values[np.isfinite(match.values)]):.3f}"
    )


if __name__ == "__main__":
    main()
