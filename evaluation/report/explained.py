"""Explained rankings of single queries: which sentences of each paper matched, and its relevance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.collection import Collection, EvalQuery
from evaluation.measures import pool_grades
from evaluation.report.charts import heat_map
from models.errors import InputError
from models.types import Alignment, RankedPaper

MAX_PAPERS = 10


@dataclass(frozen=True, slots=True)
class ExplainedRanking:
    """The results of ``system`` for one query, best first; grades are those of the collection.

    Papers without alignments (from a system that has no transport plan) are shown without shading.
    """

    query_id: str
    system: str
    papers: tuple[RankedPaper, ...]


@dataclass(frozen=True, slots=True)
class ReadableSentence:
    """A sentence as shown: number, text, share of the match, and the share relative to the heaviest."""

    number: int
    text: str
    share: float
    shade: float


@dataclass(frozen=True, slots=True)
class ReadablePaper:
    """One paper of an explained ranking, ready to be shown; ``chart`` is empty without alignments."""

    title: str
    id: str
    year: int | None
    score: float
    grade: int | None
    relevant: bool
    sentences: tuple[ReadableSentence, ...]
    chart: Markup


@dataclass(frozen=True, slots=True)
class ReadableRanking:
    """An explained ranking, ready to be shown; ``selected`` is empty if the whole abstract counts."""

    query: EvalQuery
    system: str
    selected: frozenset[int]
    found: tuple[ReadablePaper, ...]
    n_relevant: int


def readable(collection: Collection, explained: ExplainedRanking, *, name: str) -> ReadableRanking:
    """Prepare the first MAX_PAPERS of ``explained`` with grades and charts; ``name`` makes ids unique.

    Raises InputError if the query is not in the collection.
    """
    query = next((query for query in collection.queries if query.id == explained.query_id), None)
    if query is None:
        raise InputError(
            f"A ranking explains query {explained.query_id!r}, which is not in {collection.name}; explain "
            "queries of the reported collection."
        )
    grades = collection.qrels.get(query.id, {})
    papers = explained.papers[:MAX_PAPERS]
    # Every paper gets the same columns, so that the charts can be compared.
    columns = sorted({column for paper in papers for _, column in _cells(paper.alignments)})
    return ReadableRanking(
        query=query,
        system=explained.system,
        selected=frozenset(query.selected or ()),
        found=tuple(
            _found(
                ranked,
                columns,
                grade=grades.get(ranked.paper.id),
                from_grade=collection.relevant_from,
                name=f"{name}-{rank}",
            )
            for rank, ranked in enumerate(papers)
        ),
        n_relevant=sum(
            grade >= collection.relevant_from
            for paper_id, grade in pool_grades(query, collection).items()
            if paper_id in collection.papers
        ),
    )


def _found(
    ranked: RankedPaper, columns: Sequence[int], *, grade: int | None, from_grade: int, name: str
) -> ReadablePaper:
    cells = _cells(ranked.alignments)
    shares = _shares(cells)
    heaviest = max(shares.values(), default=1.0)
    numbers = range(len(ranked.paper.sentences))
    chart = Markup()
    if cells:
        chart = heat_map(
            cells,
            numbers,
            columns,
            name=name,
            title=f"Alignment with {ranked.paper.title or ranked.paper.id}, weights in percent",
        )
    return ReadablePaper(
        title=ranked.paper.title,
        id=ranked.paper.id,
        year=ranked.paper.year,
        score=ranked.score,
        grade=grade,
        relevant=grade is not None and grade >= from_grade,
        sentences=tuple(
            ReadableSentence(
                i, ranked.paper.sentences[i].text, shares.get(i, 0.0), shares.get(i, 0.0) / heaviest
            )
            for i in numbers
        ),
        chart=chart,
    )


def _cells(alignments: Sequence[Alignment]) -> dict[tuple[int, int], tuple[float, float]]:
    """Return weight and distance by (sentence, query sentence); empty if whole papers were compared."""
    return {
        (a.sentence, a.query_sentence): (a.weight, a.distance)
        for a in alignments
        if a.sentence is not None and a.query_sentence is not None
    }


def _shares(cells: Mapping[tuple[int, int], tuple[float, float]]) -> dict[int, float]:
    """Return the share of the match that each sentence of the paper has."""
    shares: dict[int, float] = {}
    for (sentence, _), (weight, _) in cells.items():
        shares[sentence] = shares.get(sentence, 0.0) + weight
    return shares
