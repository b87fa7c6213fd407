"""The interface of test collections: papers, queries with the pools they rank, and graded judgements."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

from models.registry import resolve
from models.types import Paper

# The reader of each test collection, as ``module:name``, and a description.
_KNOWN: Final = {
    "beir": (
        "evaluation.sets.beir:BeirSet",
        "Any collection in BEIR's format: short texts as queries, the whole corpus to search.",
    ),
    "csfcube": (
        "evaluation.sets.csfcube:CsfcubeSet",
        "CSFCube: computer science papers similar to one in background, method or result.",
    ),
    "demo": (
        "evaluation.sets.demo:DemoSet",
        "The invented demo papers, which come with Akin: each a problem met with a method.",
    ),
    "doris-mae": (
        "evaluation.sets.doris_mae:DorisMaeSet",
        "DORIS-MAE: long questions of several aspects, each aspect judged on its own.",
    ),
    "functions": (
        "evaluation.sets.functions:FunctionsSet",
        "Labelled sentences: does a sentence find others with the same rhetorical function?",
    ),
    "iclr2022": (
        "evaluation.sets.iclr2022:Iclr2022Set",
        "ICLR 2022: similar papers of one conference, judged by experts.",
    ),
    "pairs": (
        "evaluation.sets.pairs:PairsSet",
        "Pairs of texts that belong together, such as the held-out co-citations of `akin train data`.",
    ),
    "relish": (
        "evaluation.sets.aspire.relish:RelishSet",
        "RELISH: biomedical papers, candidates judged by the authors of the query papers.",
    ),
    "scidocs": (
        "evaluation.sets.scidocs:ScidocsSet",
        "SciDocs: four ranking tasks, two classification tasks and a recommendation task.",
    ),
    "trec": (
        "evaluation.sets.trec:TrecSet",
        "Your own collection in TREC's form: a corpus, topics and qrels.",
    ),
    "treccovid-rf": (
        "evaluation.sets.aspire.treccovid:TreccovidRfSet",
        "TRECCOVID-RF: TREC-COVID with papers as queries, as ASPIRE's authors built it.",
    ),
}
SETS: Final[Mapping[str, str]] = MappingProxyType({name: where for name, (where, _) in _KNOWN.items()})
DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType({name: what for name, (_, what) in _KNOWN.items()})


@dataclass(frozen=True, slots=True)
class EvalQuery:
    """One query of a test collection.

    ``selected`` are the sentences of ``paper`` that count (``None``: all), chosen by their ``facet``, or
    ``by_number``, where the facet only groups. ``pool`` holds the ids of the
    papers to rank (empty: the whole collection), without the query's own and the ``excluded`` ones (see
    ``ranks``), so that queries can share one pool. ``facet`` and ``fold`` group queries in reports; the
    bootstrap resamples ``cluster`` (the query paper). ``is_text`` marks a short query whose text is in
    ``paper.abstract``, with an empty title.
    """

    id: str
    paper: Paper
    pool: tuple[str, ...]
    cluster: str
    selected: tuple[int, ...] | None = None
    facet: str = "all"
    fold: str = "all"
    is_text: bool = False
    by_number: bool = False
    excluded: frozenset[str] = frozenset()

    def ranks(self, paper_id: str) -> bool:
        """Return whether a paper of the pool is ranked: not the query's own, nor an excluded one."""
        return paper_id != self.paper.id and paper_id not in self.excluded


@dataclass(frozen=True, slots=True)
class Collection:
    """Papers, queries and judgements: ``qrels[query id][paper id]`` is a grade, 0 or more.

    A grade of at least ``relevant_from`` counts as relevant in binary measures. ``measures`` names the
    measures that the collection reports (evaluation.measures), the main one first. ``id_prefixes``: what
    stands before these paper ids in corpora, such as ``pmid:``; empty if corpora may have them as they are.
    """

    name: str
    papers: Mapping[str, Paper]
    queries: tuple[EvalQuery, ...]
    qrels: Mapping[str, Mapping[str, int]]
    relevant_from: int
    measures: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())
    id_prefixes: tuple[str, ...] = ("",)


@runtime_checkable
class CollectionReader(Protocol):
    """One test collection: where its publishers offer it, the expected layout, and how to read it."""

    publisher: str
    layout: str

    def load(self, path: Path) -> Collection:
        """Read the collection below ``path``.

        Raises CollectionMissingError, naming publisher and layout, if the collection is not there.
        """
        ...


@runtime_checkable
class UsesMorePapers(Protocol):
    """A test collection that measures more papers than those that ``load`` returns."""

    def used_papers(self, path: Path) -> Iterator[Paper]:
        """Yield the papers of all tasks, by the ids of corpora; raises what ``load`` raises."""
        ...


def papers_used(name: str, path: Path) -> Iterator[Paper]:
    """Yield every paper and every query that ``akin evaluate`` measures on the collection ``name``.

    Papers are yielded with each id that corpora may give them.

    Raises UnknownNameError, and what the collection's ``load`` raises.
    """
    reader: CollectionReader = resolve(SETS, name, "test collection")()
    if isinstance(reader, UsesMorePapers):
        yield from reader.used_papers(path)
        return
    collection = reader.load(path)
    yield from as_in_corpora(collection.papers.values(), collection.id_prefixes)
    yield from (query.paper for query in collection.queries)


def as_in_corpora(papers: Iterable[Paper], id_prefixes: Sequence[str]) -> Iterator[Paper]:
    """Yield each paper with each prefix before its id."""
    return (replace(paper, id=f"{prefix}{paper.id}") for paper in papers for prefix in id_prefixes)
