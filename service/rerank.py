"""Re-rank: score candidates by transport on full-precision vectors and explain each score by its plan."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64

from indexer.segment import Segment
from models.transport import SERVING, Plan, Scorer, TransportSettings, score_papers
from models.types import Alignment, Candidate, EncoderSpec, Highlight, PackedVectors, Paper, RankedPaper, Unit

# Cells lighter than this are left out of an explanation; 10,000 of them move a score by 1e-5 at distance 10.
_LIGHTEST = 1e-10

# The marginals' temperature, in units of distance: unit vectors lie closer together than raw ones. Measured:
# docs/why.md, "A temperature for unit vectors".
_TAU_OF_UNIT_VECTORS = 0.15


def default_tau(spec: EncoderSpec) -> float:
    """The temperature that suits the vectors of an encoder."""
    return _TAU_OF_UNIT_VECTORS if spec.normalised else SERVING.tau


def rerank(
    segment: Segment,
    query: Float32[np.ndarray, "n_query dim"],
    candidates: Sequence[Candidate],
    *,
    query_sentences: Sequence[int],
    limit: int,
    scorer: Scorer,
    settings: TransportSettings,
    unit: Unit,
) -> list[RankedPaper]:
    """The best ``limit`` candidates with their alignments, best first; ties are broken by position.

    ``query_sentences[i]`` is the number, in the whole query abstract, of the sentence behind ``query[i]``.
    """
    positions = np.array([candidate.position for candidate in candidates], dtype=np.int64)
    rows, offsets = gather(segment.vectors, positions)
    plans = score_papers(query, rows, offsets, scorer=scorer, settings=settings)
    best = np.lexsort((positions, -plans.scores))[:limit]
    return [
        explain(segment.paper(int(positions[i])), plans[int(i)], query_sentences, unit=unit) for i in best
    ]


def gather(
    vectors: PackedVectors, positions: Int64[np.ndarray, " k"]
) -> tuple[Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " k_plus_1"]]:
    """The vectors of the papers at ``positions``, end to end, with their offsets."""
    starts = vectors.offsets[positions]
    lengths = vectors.offsets[positions + 1] - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return vectors.rows[rows].astype(np.float32), offsets


def explain(paper: Paper, plan: Plan, query_sentences: Sequence[int], *, unit: Unit) -> RankedPaper:
    """A paper with its score and the cells of the plan that make it up, heaviest first.

    Row ``i`` of the plan belongs to query sentence ``query_sentences[i]``, column ``j`` to sentence ``j``;
    with one vector a paper, the only cell belongs to the two whole abstracts.
    """
    if unit is Unit.DOCUMENT:
        whole = Highlight(None, 0, len(paper.abstract), 1.0)
        cell = Alignment(None, None, 1.0, float(plan.cost[0, 0]))
        return RankedPaper(paper, plan.score, (cell,), (whole,), plan.converged)
    i, j = np.nonzero(plan.mass > _LIGHTEST)
    weights, distances = plan.mass[i, j], plan.cost[i, j]
    order = np.lexsort((j, i, -weights))
    cells = zip(*(column[order].tolist() for column in (i, j, weights, distances)), strict=True)
    alignments = tuple(Alignment(query_sentences[i], j, weight, distance) for i, j, weight, distance in cells)
    shares = plan.mass.sum(axis=0)  # (n_sentence,)
    highlights = tuple(
        Highlight(j, paper.sentences[j].start, paper.sentences[j].end, float(shares[j]))
        for j in np.argsort(-shares, kind="stable").tolist()
        if shares[j] > _LIGHTEST
    )
    return RankedPaper(paper, plan.score, alignments, highlights, plan.converged)
