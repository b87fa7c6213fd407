"""Tests of large collections, which take minutes and gigabytes of disk in `make trials`."""

import resource
import time
from pathlib import Path

import numpy as np
import pytest

from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.growth import prepare_segments, publish_added
from indexer.collection.merging import compact
from indexer.files.data_folder import CATALOG_FILE
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.segment_writer import KeptPart
from models.encoder import Encoder
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.trials.settings import print_figure
from tests.support.trials.sizes import MadePart

# Papers, and characters per abstract; in the trial over 2 GiB together, more than an Arrow column holds.
SAMPLE = (3_000, 20)
TRIAL = pytest.param(1_100_000, 2_000, marks=pytest.mark.trial)


@pytest.mark.parametrize(("n_papers", "n_characters"), [SAMPLE, TRIAL])
def test_any_size_of_abstracts_is_compacted(
    tmp_path: Path, hashing: Encoder, n_papers: int, n_characters: int
) -> None:
    """Segments are read and compacted, even with more text than one Arrow column can hold."""
    data = tmp_path / "data"
    report = build_quietly(
        write_corpus(tmp_path / "c.jsonl", many_papers(2)), data, hashing, backend="flat", dtype="float16"
    )
    started = time.perf_counter()
    size = min(n_papers // 3, 10_000)
    parts = [MadePart(first, size, n_characters) for first in range(0, n_papers, size)]
    new = prepare_segments(data / "building" / "made", parts, like=report.manifest, device="cpu")
    publish_added(data, None, new, like=report.manifest, keep=1)
    made_s = time.perf_counter() - started
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, [f"p{number}" for number in range(0, 1_000, 10)], catalog, keep=1)
    snapshot = open_snapshot(data)
    abstracts = snapshot.segments[0].column("abstract").nbytes
    assert abstracts >= n_papers * n_characters
    assert abstracts > 2**31 or (n_papers, n_characters) == SAMPLE
    started = time.perf_counter()
    manifest = compact(data, snapshot, device="cpu", keep=1)
    took_s = time.perf_counter() - started
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print_figure(
        f"{abstracts / 2**30:.2f} GiB of abstracts: made in {made_s:.0f} s, compacted in {took_s:.0f} s, "
        f"peak memory {peak_gib:.1f} GiB"
    )
    compacted = open_snapshot(data)
    assert n_papers - 100 == manifest.n_papers == len(compacted)
    assert compacted.find("p990") is None
    for number in (1, 999, 1_000, n_papers - 1):
        paper = compacted.paper(compacted.position(f"p{number}"))
        assert (f"Paper {number}", f"{number} ") == (paper.title, paper.abstract[: len(f"{number} ")])
    last = KeptPart(compacted.segments[0].itself, np.array([0, len(compacted) - 1]))
    assert ["p1", f"p{n_papers - 1}"] == last.table()["id"].to_pylist()
