"""Trials of size, for real: `make trials` runs them, each in minutes and gigabytes of disk."""

import resource
import time
from pathlib import Path

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import delete_papers
from indexer.collection.growth import grow, prepare_segments
from indexer.collection.merging import compact
from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment_writer import KeptPart
from models.encoder import Encoder
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.trials.sizes import MadePart

N_PAPERS, N_CHARACTERS, PART_PAPERS = 1_100_000, 2_000, 10_000


@pytest.mark.trial
def test_more_than_2_gib_of_abstracts_are_compacted(tmp_path: Path, hashing: Encoder) -> None:
    """A segment with more text than one Arrow column can hold is read, trimmed and compacted."""
    data = tmp_path / "data"
    report = build_quietly(
        write_corpus(tmp_path / "c.jsonl", many_papers(2)), data, hashing, backend="flat", dtype="float16"
    )
    started = time.perf_counter()
    parts = [MadePart(first, PART_PAPERS, N_CHARACTERS) for first in range(0, N_PAPERS, PART_PAPERS)]
    new = prepare_segments(data / "building" / "made", parts, like=report.manifest, device="cpu")
    grow(data, None, new, like=report.manifest, keep=1)
    made_s = time.perf_counter() - started
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, [f"p{number}" for number in range(0, 1_000, 10)], catalog, keep=1)
    snapshot = open_snapshot(data)
    abstracts = snapshot.segments[0].column("abstract").nbytes
    assert abstracts > 2**31
    started = time.perf_counter()
    manifest = compact(data, snapshot, device="cpu", keep=1)
    took_s = time.perf_counter() - started
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sys_line = (
        f"{abstracts / 2**30:.2f} GiB of abstracts: made in {made_s:.0f} s, compacted in {took_s:.0f} s, "
    )
    print(sys_line + f"peak memory {peak_gib:.1f} GiB")  # noqa: T201 - what a trial is run for
    compacted = open_snapshot(data)
    assert N_PAPERS - 100 == manifest.n_papers == len(compacted)
    assert compacted.find("p990") is None
    for number in (1, 999, 1_000, N_PAPERS - 1):
        paper = compacted.paper(compacted.position(f"p{number}"))
        assert (f"Paper {number}", f"{number} ") == (paper.title, paper.abstract[: len(f"{number} ")])
    last = KeptPart(compacted.segments[0].itself, np.array([0, len(compacted) - 1]))
    assert ["p1", f"p{N_PAPERS - 1}"] == last.table()["id"].to_pylist()
