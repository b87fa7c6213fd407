"""The test-collection seam: papers, queries with the pools they rank, and graded judgements."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from models.types import Paper

SETS: Mapping[str, str] = MappingProxyType(
    {
        "beir": "evaluation.sets.beir:BeirSet",
        "csfcube": "evaluation.sets.csfcube:CsfcubeSet",
        "demo": "evaluation.sets.demo:DemoSet",
        "doris-mae": "evaluation.sets.doris_mae:DorisMaeSet",
        "functions": "evaluation.sets.functions:FunctionsSet",
        "iclr2022": "evaluation.sets.iclr2022:Iclr2022Set",
        "pairs": "evaluation.sets.pairs:PairsSet",
        "relish": "evaluation.sets.aspire.relish:RelishSet",
        "scidocs": "evaluation.sets.scidocs:ScidocsSet",
        "trec": "evaluation.sets.trec:TrecSet",
        "treccovid-rf": "evaluation.sets.aspire.treccovid:TreccovidRfSet",
    }
)


@dataclass(frozen=True, slots=True)
class EvalQuery:
    """One query of a test collection.

    ``selected`` are the sentences of ``paper`` that count (``None``: all). ``pool`` are the paper ids to
    rank, the query's own never among them (empty: the whole collection). ``facet`` and ``fold`` group queries
    in reports; ``cluster`` (the query paper) is what the bootstrap resamples. ``is_text`` marks a short query
    whose text stands in ``paper.abstract`` with an empty title.
    """

    id: str
    paper: Paper
    pool: tuple[str, ...]
    cluster: str
    selected: tuple[int, ...] | None = None
    facet: str = "all"
    fold: str = "all"
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Collection:
    """Papers, queries and judgements: ``qrels[query id][paper id]`` is a grade, 0 or more.

    A grade of at least ``relevant_from`` counts as relevant in binary measures. ``measures`` names those the
    collection reports (evaluation.measures), its main one first.
    """

    name: str
    papers: Mapping[str, Paper]
    queries: tuple[EvalQuery, ...]
    qrels: Mapping[str, Mapping[str, int]]
    relevant_from: int
    measures: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())


@runtime_checkable
class CollectionReader(Protocol):
    """One test collection: where its publishers offer it, the layout expected, and how it is read."""

    publisher: str
    layout: str

    def load(self, path: Path) -> Collection:
        """Read the collection below ``path``.

        Raises CollectionMissingError, naming publisher and layout, where it is not there.
        """
        ...
