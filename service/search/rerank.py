"""Re-rank: score candidates by transport on full-precision vectors and explain each score by its plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from indexer.snapshot import Snapshot
from models.transport import SERVING, Plan, Plans, Scorer, TransportSettings
from models.types import (
    Alignment,
    Candidate,
    EncoderSpec,
    Highlight,
    Omitted,
    Paper,
    RankedPaper,
    Unit,
)
from service.context import check_deadline, stage
from service.search.aspect import Aspect, Selection, focused
from service.search.compare import compare

# Cells lighter than this are left out of an explanation; 10,000 of them move a score by 1e-5 at distance 10.
_LIGHTEST = 1e-10

# The most cells and highlights of one result, so that no answer grows with the square of its abstracts.
MOST_ALIGNMENTS = 64
MOST_HIGHLIGHTS = 32

# The marginals' temperature, in units of distance: unit vectors lie closer together than raw ones. Measured:
# docs/why.md, "A temperature for unit vectors".
_TAU_OF_UNIT_VECTORS = 0.15


def default_tau(spec: EncoderSpec) -> float:
    """The temperature that an encoder was tuned at, or else that suits its vectors."""
    if spec.tau is not None:
        return spec.tau
    return _TAU_OF_UNIT_VECTORS if spec.normalised else SERVING.tau


# Papers whose vectors are read at once.
_TOGETHER = 256


@dataclass(frozen=True, slots=True)
class Part:
    """Query sentences that are compared with a paper by one plan, which counts ``weight`` times in its score.

    ``sentences[i]`` is the number, in the whole query abstract, of the sentence behind ``vectors[i]``.
    The weight is 1 for the part that papers should be like, negative for one they should be unlike.
    """

    vectors: Float32[np.ndarray, "n_query dim"]
    sentences: tuple[int, ...]
    weight: float = 1.0


def query_parts(
    aspect: Aspect, selection: Selection, vectors: Float32[np.ndarray, "n_sentence dim"], *, unit: Unit
) -> list[Part]:
    """The sentences to be like, turned by the focus; then those to be unlike, as they are."""
    if unit is Unit.DOCUMENT:
        return [Part(vectors, selection.like)]
    parts = [Part(focused(vectors, selection.like, focus=aspect.turn), selection.like)]
    if aspect.unlike is not None and selection.unlike:
        # Unturned: the topic they carry is what to keep away from.
        parts.append(Part(vectors[list(selection.unlike)], selection.unlike, -aspect.unlike.weight))
    return parts


def rerank(
    snapshot: Snapshot,
    parts: Sequence[Part],
    candidates: Sequence[Candidate],
    *,
    skip: int = 0,
    limit: int,
    scorer: Scorer,
    settings: TransportSettings,
    unit: Unit,
) -> list[RankedPaper]:
    """The best ``limit`` candidates but the first ``skip``, with their alignments, best first.

    Ties are broken by position. Raises DeadlineError.
    """
    positions = np.array([candidate.position for candidate in candidates], dtype=np.int64)
    with stage("rerank"):
        compared = [
            _compare(snapshot, parts, together, scorer=scorer, settings=settings)
            for together in np.split(positions, range(_TOGETHER, len(positions), _TOGETHER))
        ]
    totals = np.concatenate([total_scores(parts, plans) for plans in compared])
    best = np.lexsort((positions, -totals))[skip : skip + limit].tolist()
    with stage("explain"):
        return [
            explain(
                snapshot.paper(int(positions[i])),
                parts,
                [plans[i % _TOGETHER] for plans in compared[i // _TOGETHER]],
                unit=unit,
            )
            for i in best
        ]


def _compare(
    snapshot: Snapshot,
    parts: Sequence[Part],
    positions: Int64[np.ndarray, " k"],
    *,
    scorer: Scorer,
    settings: TransportSettings,
) -> list[Plans]:
    """Each part's plans with the papers at ``positions``."""
    rows, offsets = snapshot.gather(positions)
    return [compare(part.vectors, rows, offsets, scorer=scorer, settings=settings) for part in parts]


def total_scores(parts: Sequence[Part], compared: Sequence[Plans]) -> Float64[np.ndarray, " k"]:
    """The score of each paper: the sum of its parts', each counting its weight."""
    totals: Float64[np.ndarray, " k"] = np.sum(
        [part.weight * plans.scores for part, plans in zip(parts, compared, strict=True)], axis=0
    )
    return totals


def highlights(
    paper: Paper, weights: Float64[np.ndarray, " n_sentence"], *, lightest: float = 0.0
) -> tuple[Highlight, ...]:
    """The sentences heavier than ``lightest``, heaviest first, at most MOST_HIGHLIGHTS of them."""
    heaviest = np.argsort(-weights, kind="stable")[:MOST_HIGHLIGHTS].tolist()
    return tuple(
        Highlight(j, paper.sentences[j].start, paper.sentences[j].end, float(weights[j]))
        for j in heaviest
        if weights[j] > lightest
    )


def whole_paper(paper: Paper) -> tuple[Highlight, ...]:
    """All of the abstract, where there is one vector a paper."""
    return (Highlight(None, 0, len(paper.abstract), 1.0),)


def explain(paper: Paper, parts: Sequence[Part], plans: Sequence[Plan], *, unit: Unit) -> RankedPaper:
    """A paper with its score and the cells of the plans that make it up, each part's heaviest first.

    Cells weigh as much as their part does, so those of a contrast are negative. Past MOST_ALIGNMENTS, shared
    equally by the parts, a part's lightest cells are summed up. Highlights are the sentences that match what
    the paper should be like, the first part; the lightest past MOST_HIGHLIGHTS are left out.

    Row ``i`` of a plan belongs to its part's query sentence ``i``, column ``j`` to sentence ``j``; with one
    vector a paper, the only cell belongs to the two whole abstracts. Raises DeadlineError.
    """
    check_deadline()
    if unit is Unit.DOCUMENT:
        cell = Alignment(None, None, 1.0, float(plans[0].cost[0, 0]))
        return RankedPaper(paper, plans[0].score, (cell,), whole_paper(paper), plans[0].converged)
    paired = list(zip(parts, plans, strict=True))
    cells = [list(_cells(part, plan)) for part, plan in paired]
    most = max(MOST_ALIGNMENTS // len(cells), 1)
    return RankedPaper(
        paper,
        score=sum(part.weight * plan.score for part, plan in paired),
        alignments=tuple(cell for of_part in cells for cell in of_part[:most]),
        highlights=highlights(paper, plans[0].mass.sum(axis=0), lightest=_LIGHTEST),
        converged=all(plan.converged for plan in plans),
        omitted=tuple(_summed(of_part[most:]) for of_part in cells if len(of_part) > most),
    )


def _summed(cells: Sequence[Alignment]) -> Omitted:
    weight = sum(cell.weight for cell in cells)
    return Omitted(len(cells), weight, sum(cell.weight * cell.distance for cell in cells) / weight)


def _cells(part: Part, plan: Plan) -> Iterator[Alignment]:
    i, j = np.nonzero(plan.mass > _LIGHTEST)
    masses, distances = plan.mass[i, j], plan.cost[i, j]
    order = np.lexsort((j, i, -masses))
    for row, column, mass, distance in zip(
        *(values[order].tolist() for values in (i, j, masses, distances)), strict=True
    ):
        yield Alignment(part.sentences[row], column, part.weight * mass, distance)
