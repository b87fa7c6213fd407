"""Tests of a service under long load: nothing fails, memory stays flat, no handle is left open."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.snapshot.opening import open_snapshot
from tests.support.annotators import hashing_annotator
from tests.support.builds import collection
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS, service_process
from tests.support.trials.settings import print_figure
from tests.support.trials.soak import Held, Soak, for_seconds

HOUR_S = 3600.0
ROUNDS = 4
FEW = 12  # files and threads that come and go with requests


def shown(number: int, held: Held) -> None:
    """Print a line every 50 rounds."""
    if number % 50 == 0:
        print_figure(f"round {number}: {held}")


@pytest.mark.parametrize(
    ("goes_on", "n_readers", "n_papers", "most"),
    [
        # In a few rounds a process still allocates what it keeps.
        pytest.param(
            lambda: lambda number: number < ROUNDS,
            1,
            60,
            {"threads": FEW},
            id="rounds",
        ),
        pytest.param(
            lambda: for_seconds(float(os.environ.get("AKIN_SOAK_S", HOUR_S))),
            2,
            3_000,
            {"threads": FEW, "files": FEW, "memory_mib": 16},
            id="hour",
            marks=pytest.mark.trial,
        ),
    ],
)
def test_a_service_holds_no_more_after_an_hour(
    tmp_path: Path,
    goes_on: Callable[[], Callable[[int], bool]],
    n_readers: int,
    n_papers: int,
    most: dict[str, int],
) -> None:
    """Memory, files and threads do not grow from the third quarter of the rounds to the last."""
    data = collection(tmp_path, n_papers=n_papers, annotator=hashing_annotator())
    snapshot = open_snapshot(data)
    ids = [snapshot.paper(int(position)).id for position in snapshot.positions[:50]]
    del snapshot
    with service_process(data, program=AKIN_WITHOUT_WEIGHTS, AKIN_RATE="0") as (process, client):
        soak = Soak(str(client.base_url), process.pid, ids, n_readers)
        soak.run(goes_on(), shown)
    grown = {what: soak.grown(what) for what in ("memory_mib", "files", "threads")}
    print_figure(f"{len(soak.held)} rounds, {soak.n_requests:,} requests; {grown}")
    assert [] == soak.wrong
    for what, more in most.items():
        before, after = grown[what]
        assert after <= before + more, what
