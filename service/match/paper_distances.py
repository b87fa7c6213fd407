"""Distances of a collection's papers from a given paper, and the sentences and words that make them near.

A paper's distance is that of ``ot`` between whole abstracts plus the weighted distance of their words
(semantics 2).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
from jaxtyping import Float32, Float64, Int64

from indexer.snapshot.snapshot import Snapshot
from models.errors import MissingVectorsError
from models.transport import SERVING, score_in_blocks
from models.types import EncoderSpec, RankedPaper, Unit
from service.search.aspect import Part
from service.search.explain import explain
from service.search.query import MAX_ALIGNMENTS
from service.search.rerank import default_tau
from service.search.seeds import EncodedSeed
from service.search.words import QueryVectors, QueryWords, default_weight

# Sampled papers of the collection that measure the usual distance of a paper.
_SAMPLE_PAPERS: Final = 100
# Papers whose vectors are read at once: about 50 MB.
_BLOCK_PAPERS: Final = 4_096
# A smaller usual distance means that the whole collection consists of copies of the paper.
_MIN_DISTANCE: Final = 1e-6


def expect_sentences(spec: EncoderSpec, remedy: str) -> None:
    """Raise MissingVectorsError with ``remedy`` for an encoder that has no vectors of sentences."""
    if spec.unit is Unit.DOCUMENT:
        raise MissingVectorsError(
            f"The encoder {spec.name!r} has one vector per paper, but papers are compared sentence by "
            f"sentence here; {remedy}."
        )


class PaperDistances:
    """Compares papers with those of a collection, block by block, with ``n_threads`` threads.

    ``words`` is the weight of words next to sentences; ``None`` takes the default of the encoder.

    Raises MissingVectorsError for a collection of document vectors.
    """

    def __init__(self, snapshot: Snapshot, *, words: float | None = None, n_threads: int = 1) -> None:
        spec = snapshot.manifest.encoder
        expect_sentences(spec, "index with a sentence encoder such as minilm")
        self.snapshot = snapshot
        self._n_threads = n_threads
        self._settings = replace(SERVING, tau=default_tau(spec))
        weight = default_weight(spec) if words is None else words
        self._weight = weight if snapshot.words is not None else 0.0
        self.sample = snapshot.sample(_SAMPLE_PAPERS)

    def indexed(self, position: int) -> EncodedSeed:
        """Return the paper at ``position`` with its vectors."""
        return EncodedSeed(self.snapshot.paper(position), self.snapshot.vectors(position), position)

    def distances(
        self, seeds: Sequence[EncodedSeed], positions: Int64[np.ndarray, " k"]
    ) -> Float64[np.ndarray, "n_seeds k"]:
        """Return the distances of papers at ``positions`` from each of ``seeds``; raises DeadlineError."""
        words = [self._words(each) for each in seeds]
        blocks = []
        with ThreadPoolExecutor(self._n_threads) as threads:
            for first, last in pairwise([*range(0, len(positions), _BLOCK_PAPERS), len(positions)]):
                block = positions[first:last]
                beside = partial(self._beside, block, *self.snapshot.gather(block))
                # Each in a copy of this context, which has the deadline.
                begun = [
                    threads.submit(copy_context().run, beside, each, own)
                    for each, own in zip(seeds, words, strict=True)
                ]
                blocks.append(np.array([each.result() for each in begun]).reshape(len(seeds), len(block)))
        return np.hstack([np.empty((len(seeds), 0)), *blocks])

    def usual(self, seed: EncodedSeed) -> float:
        """Return the mean distance of a paper from a sample of the others, above 0; 1 without others."""
        sample = self.sample[self.sample != (-1 if seed.position is None else seed.position)]
        usual = float(self.distances([seed], sample).mean()) if len(sample) else 1.0
        return max(usual, _MIN_DISTANCE)

    def compared(
        self, seed: EncodedSeed, other: EncodedSeed, *, max_alignments: int = MAX_ALIGNMENTS
    ) -> RankedPaper:
        """Return ``other`` with its score (minus its distance), explained; raises DeadlineError."""
        offsets = np.array([0, len(other.vectors)])
        plan = score_in_blocks(seed.vectors, other.vectors, offsets, settings=self._settings)[0]
        part, counts = Part(seed.vectors, tuple(range(len(seed.vectors)))), np.ones(1)
        words = self._words(seed)
        if other.position is None or not words.weight:
            matched = words.matched_text(other.paper)
        else:
            distance = float(words.distances(np.array([other.position]))[0, 0])
            matched = words.matched(other.position, counts, distance=distance, paper=other.paper)
        return explain(
            other.paper,
            [part],
            [(0, plan)],
            counts,
            unit=Unit.SENTENCE,
            max_alignments=max_alignments,
            words=matched,
        )

    def _words(self, seed: EncodedSeed) -> QueryVectors:
        words = self.snapshot.words if self._weight else None
        return QueryVectors(words, [QueryWords(seed.paper)], weight=self._weight)

    def _beside(
        self,
        positions: Int64[np.ndarray, " k"],
        rows: Float32[np.ndarray, "n_rows dim"],
        offsets: Int64[np.ndarray, " k_plus_1"],
        seed: EncodedSeed,
        words: QueryVectors,
    ) -> Float64[np.ndarray, " k"]:
        distances: Float64[np.ndarray, " k"] = -score_in_blocks(
            seed.vectors, rows, offsets, settings=self._settings
        ).scores
        if words.weight:
            distances = distances + words.weight * words.distances(positions)[0]
        return distances
