"""Tests of a service under long load: nothing fails, memory stays flat, no handle is left open."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path

import pytest

from benchmarks.serving.soak import write_page
from benchmarks.suite.rows import machine
from indexer.collection.build import build
from indexer.encoding.arguments import BuildArguments
from indexer.snapshot.opening import open_snapshot
from models.annotator import load_annotator
from tests.support.annotators import hashing_annotator
from tests.support.builds import collection, many_papers, quiet, write_corpus
from tests.support.servers.processes import AKIN, AKIN_WITHOUT_WEIGHTS, service_process
from tests.support.trials.settings import print_figure
from tests.support.trials.soak import Held, Soak, for_seconds

HOUR_S = 3600.0
ROUNDS = 4
FEW = 12  # files and threads that come and go with requests
MIB_AN_HOUR = 16  # memory that an allocator keeps comes and goes, too


def shown(number: int, held: Held) -> None:
    """Print a line every 50 rounds."""
    if number % 50 == 0:
        print_figure(f"round {number}: {held}")


def soaked(data: Path, program: Sequence[str], goes_on: Callable[[int], bool], n_readers: int) -> Soak:
    """Run a service over ``data`` under load while ``goes_on``; return what was seen."""
    snapshot = open_snapshot(data)
    ids = [snapshot.paper(int(position)).id for position in snapshot.positions[:50]]
    del snapshot
    with service_process(data, program=program, AKIN_RATE="0") as (process, client):
        soak = Soak(str(client.base_url), process.pid, ids, n_readers)
        soak.run(goes_on, shown)
    return soak


def test_a_service_answers_under_mixed_load_and_leaves_no_thread(tmp_path: Path) -> None:
    """In a few rounds every request is answered as it should be, and threads do not grow."""
    data = collection(tmp_path, n_papers=60, annotator=hashing_annotator())
    soak = soaked(data, AKIN_WITHOUT_WEIGHTS, lambda number: number < ROUNDS, 1)
    before, after = soak.grown("threads")
    assert [] == soak.wrong
    assert after <= before + FEW


@pytest.mark.trial
def test_a_service_holds_no_more_after_an_hour(tmp_path: Path) -> None:
    """With the default encoder, memory has no slope, and files and threads do not grow.

    The series of readings is written to ``AKIN_SOAK_JSON``, if that is set, and a page next to it.
    """
    data, n_papers, n_readers = tmp_path / "data", 1_000, 2
    build(
        [write_corpus(tmp_path / "papers.jsonl", many_papers(n_papers))],
        data,
        load_annotator("minilm", device="cpu"),
        arguments=BuildArguments("minilm", device="cpu"),
        on_progress=quiet,
    )
    seconds = float(os.environ.get("AKIN_SOAK_S", HOUR_S))
    soak = soaked(data, AKIN, for_seconds(seconds), n_readers)
    slope, grown = soak.memory_per_hour(), {what: soak.grown(what) for what in ("files", "threads")}
    print_figure(f"{len(soak.held)} rounds, {soak.n_requests:,} requests; {slope:.1f} MiB an hour; {grown}")
    if "AKIN_SOAK_JSON" in os.environ:
        file = Path(os.environ["AKIN_SOAK_JSON"])
        figures = {
            "machine": machine(),
            "seconds": seconds,
            "papers": n_papers,
            "readers": n_readers,
            "requests": soak.n_requests,
            "wrong": len(soak.wrong),
            "slope_mib_an_hour": slope,
            "held": [astuple(each) for each in soak.held],
        }
        file.write_text(json.dumps(figures) + "\n", encoding="utf-8")
        write_page(file)
    assert [] == soak.wrong
    assert slope <= MIB_AN_HOUR
    for what, (before, after) in grown.items():
        assert after <= before + FEW, what
