"""Retrieval of sentences: each is a query, all others its pool, and those with its label are relevant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float32, Float64, Int64

from evaluation.statistics.bootstrap import N_RESAMPLES, differences, intervals
from evaluation.statistics.summary import ALL, Comparison, Row

MEASURES: Final = ("MAP@R", "P@1", "Rprec")
# Bytes for the similarities of one block of query sentences and their order.
BLOCK_BYTES = 64 * 1024 * 1024
_BYTES_PER_PAIR = 40  # similarity 4, order 8, the sort's own 8, relevance and its precision 20


@dataclass(frozen=True, slots=True)
class SentenceValues:
    """The values of one system, by measure and then by sentence, in percent.

    ``labels`` and ``clusters`` are by sentence, too; the bootstrap resamples clusters.
    """

    labels: Mapping[str, str]
    clusters: Mapping[str, str]
    values: Mapping[str, Mapping[str, float]]

    def rows(self, system: str) -> list[Row]:
        """Return the figures over all sentences, and over those of each label (as ``facet``)."""
        rows = []
        for facet in (ALL, *sorted(set(self.labels.values()))):
            kept = [each for each, label in self.labels.items() if facet in {ALL, label}]
            table = {name: {each: own[each] for each in kept} for name, own in self.values.items()}
            for measure, found in intervals(table, {each: self.clusters[each] for each in kept}).items():
                figures = (found.value, found.low, found.high, found.n)
                rows.append(Row("functions", system, facet, ALL, measure, *figures))
        return rows

    def minus(
        self, other: "SentenceValues", measures: Sequence[str] = MEASURES, *, n_resamples: int = N_RESAMPLES
    ) -> list[Comparison]:
        """Return the lead over ``other`` in each measure, over all sentences, paired by sentence.

        Raises InputError if one of them lacks a sentence of the other.
        """
        return [
            Comparison(measure, ALL, found)
            for measure in measures
            for found in differences(
                self.values[measure], {0: other.values[measure]}, self.clusters, n_resamples=n_resamples
            ).values()
        ]


def sentence_values(
    vectors: Float32[np.ndarray, "n_rows dim"], labels: Mapping[str, str], clusters: Mapping[str, str]
) -> SentenceValues:
    """Measure the vectors of the sentences that ``labels`` names, in its order."""
    found = retrieval_by_label(vectors, np.unique(list(labels.values()), return_inverse=True)[1])
    values = {name: dict(zip(labels, own.tolist(), strict=True)) for name, own in found.items()}
    return SentenceValues(labels, clusters, values)


def retrieval_by_label(
    vectors: Float32[np.ndarray, "n_rows dim"],
    labels: Int64[np.ndarray, " n_rows"],
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Mapping[str, Float64[np.ndarray, " n_rows"]]:
    """Measure each row as a query against all others by cosine, in percent; ties keep the row order.

    R is the number of other rows with the query's label. P@1; Rprec, the precision at rank R; MAP@R, the sum
    over the relevant ranks i <= R of the precision at i, divided by R (Musgrave et al., ECCV 2020). A query
    with a label that no other row has scores 0. Queries are processed in blocks of about ``block_bytes`` of
    memory.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    n_rows = len(unit)
    n_relevant = np.bincount(labels)[labels] - 1
    values = {measure: np.zeros(n_rows) for measure in MEASURES}
    n_block = max(1, block_bytes // (_BYTES_PER_PAIR * max(n_rows, 1)))
    for start in range(0, n_rows, n_block):
        block = np.arange(start, min(start + n_block, n_rows))
        similarity = unit[block] @ unit.T  # (n_block, n_rows)
        similarity[np.arange(len(block)), block] = -np.inf  # the query itself ranks last, beyond every R
        order = np.argsort(-similarity, axis=1, kind="stable")
        depth = max(int(n_relevant[block].max()), 1)
        relevant = labels[order[:, :depth]] == labels[block, None]  # (n_block, depth)
        counted = relevant & (np.arange(depth) < n_relevant[block, None])
        precision = np.cumsum(counted, axis=1) / np.arange(1, depth + 1)
        r = np.maximum(n_relevant[block], 1)
        values["P@1"][block] = 100.0 * counted[:, 0]
        values["Rprec"][block] = 100.0 * counted.sum(axis=1) / r
        values["MAP@R"][block] = 100.0 * (precision * counted).sum(axis=1) / r
    return values
