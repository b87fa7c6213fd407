"""Tests of generations swapped under load in a separate process: no search fails or mixes two."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from indexer.snapshot.opening import open_snapshot
from tests.support.annotators import hashing_annotator
from tests.support.builds import collection
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS, service_process
from tests.support.trials.settings import trials
from tests.support.trials.swaps import Seen, run


@pytest.mark.parametrize(
    ("n_swaps", "n_papers", "n_listed"),
    [
        # The same within the process of the test: tests/service/collection/test_live.py.
        (4, 100, 50),
        pytest.param(trials(1_000), 3_000, 1_000, marks=pytest.mark.trial),
    ],
)
def test_swaps_under_load(tmp_path: Path, n_swaps: int, n_papers: int, n_listed: int) -> None:
    """Each change shows, each answer is of one generation, and the pages of a list fit together."""
    data = collection(tmp_path, n_papers=n_papers, annotator=hashing_annotator())
    snapshot = open_snapshot(data)
    drawn = np.random.default_rng(0).choice(snapshot.positions, 9, replace=False)
    ids = [snapshot.paper(int(position)).id for position in drawn]
    seen = Seen(n_listed)
    # Without a rate limit, as one client sends all requests without pause.
    with service_process(data, program=AKIN_WITHOUT_WEIGHTS, AKIN_RATE="0") as (_, client):
        shown_s = run(client, ids, n_swaps, seen)
    table = Table("what", "median ms", "p95 ms", title=f"{n_swaps:,} swaps, {seen.searches:,} searches")
    for name, took_ms in (("a change shows after", [1000 * s for s in shown_s]), ("a search", seen.took_ms)):
        table.add_row(name, f"{np.median(took_ms):.0f}", f"{np.percentile(took_ms, 95):.0f}")
    Console().print(table, f"{seen.lists:,} lists of {n_listed:,} read")
    assert ([], [], []) == (seen.failed, seen.mixed, seen.unfit)
    assert min(seen.searches, seen.lists) > 0
