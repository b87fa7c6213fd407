"""Transport on a device: a query against every paper of a made-up collection, without candidates."""

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.on_device.rows import Row, Sizes, same_top, seconds
from models.transport import Scorer, score_papers
from models.transport.whole import WholeCollection
from models.types import PackedVectors
from tests.support.examples.models.vectors import clustered_vectors


def rows(device: str, sizes: Sizes) -> Iterator[Row]:
    """Score papers of 4 to 16 float16 sentences for a query of 8, as unit vectors and with norm 12."""
    for regime, norm in (("unit vectors", 1.0), ("norm 12", 12.0)):
        query, wide, offsets = clustered_vectors(0, n_papers=sizes.papers, dim=sizes.dim, norm=norm)
        vectors = PackedVectors(wide.astype(np.float16), offsets)
        start = time.perf_counter()
        whole = WholeCollection(vectors, device=device)
        yield Row(
            f"{regime}: {len(whole):,} papers, {len(wide):,} sentences to the device",
            "s",
            time.perf_counter() - start,
        )
        checked = min(sizes.checked_papers, len(whole))
        n_rows = int(offsets[checked])
        kernels = partial(
            score_papers, query, vectors.rows[:n_rows].astype(np.float32), offsets[: checked + 1]
        )
        for scorer, most in ((Scorer.OT, len(whole)), (Scorer.EXACT_OT, checked)):
            part = whole
            if most < len(whole):
                part = WholeCollection(
                    PackedVectors(vectors.rows[:n_rows], offsets[: checked + 1]), device=device
                )
            on_cpu = checked / seconds(partial(kernels, scorer=scorer), 1)
            expected, found = kernels(scorer=scorer).scores, part.scores(query, scorer=scorer)
            scores = found.scores[:checked]
            yield Row(
                f"{regime}: {scorer} of {len(part):,} papers",
                "papers/s",
                len(part) / seconds(partial(part.scores, query, scorer=scorer), 1),
                on_cpu,
                float(np.abs(expected - scores).max()),
                1e-5,
                same_top(np.argsort(-expected), np.argsort(-scores)),
                note=f"{np.count_nonzero(~found.converged)} did not converge"
                + ("; solved on the processor" if scorer is Scorer.EXACT_OT else ""),
            )
