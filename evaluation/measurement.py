"""Measurement of systems on a collection: their runs, and every figure with its interval."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from evaluation.collection import SETS, Collection, CollectionReader, EvalQuery
from evaluation.report.explained import ExplainedRanking
from evaluation.run import Run, read_trec
from evaluation.statistics.bootstrap import resamples_for
from evaluation.statistics.multiple import correct_named, n_pairs
from evaluation.statistics.summary import ALL, Comparison, Row, compare_each, summarise
from evaluation.systems.system import VectorSystem, parse
from evaluation.systems.systems import Systems
from evaluation.systems.vectors import VectorSource, present_encoders
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import load_encoder
from models.errors import InputError
from models.registry import resolve
from models.transport import Scorer
from models.types import Precision, ProgressFn

# How many queries are shown with alignments, and how many papers of each.
_N_EXPLAINED, _PAPERS_EXPLAINED = 6, 10


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure. No ``systems``: all of ``encoders`` and ``scorers``; no ``encoders``: all present.

    ``data`` is a data folder whose snapshot provides vectors, ``cache`` a folder that keeps vectors between
    runs. ``tau`` and ``words`` are in units of distance, ``specificity`` is per unit (None: the value that
    the service uses). ``limit_queries`` picks this many queries, spread over the collection. ``functions``
    are weights of function encoders, for the set of that name. ``published`` also measures the rankings found
    in a collection's folder when ``systems`` are given.
    """

    systems: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    scorers: tuple[Scorer, ...] = tuple(Scorer)
    tau: float | None = None
    words: float | None = None
    specificity: float | None = None
    data: Path | None = None
    cache: Path | None = None
    device: str = "auto"
    precision: Precision = Precision.FLOAT32
    limit_queries: int | None = None
    functions: tuple[Path, ...] = ()
    published: bool = False


@runtime_checkable
class MeasuresVectors(Protocol):
    """A test collection that also measures vectors, for example by classification."""

    def figures(
        self, path: Path, sources: Sequence[VectorSource], ranked: Sequence[Row], *, functions: Sequence[Path]
    ) -> Iterator[Row]:
        """Yield each encoder's figures; ``ranked`` are those of the rankings. Raises what ``load`` raises."""
        ...


@runtime_checkable
class HoldsRankings(Protocol):
    """A test collection with a folder that may contain published rankings."""

    def rankings(self, path: Path) -> Iterator[Run]:
        """Yield each ranking as a run; raises what ``load`` raises."""
        ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """The results; ``against_best`` compares the best run with each other run in the main measure.

    Rows also cover measurements that are not rankings (classification); runs do not.
    """

    collection: Collection
    runs: tuple[Run, ...]
    rows: tuple[Row, ...]
    against_best: tuple[tuple[str, Comparison], ...]
    explanations: tuple[ExplainedRanking, ...]

    @property
    def best(self) -> str:
        """The system that ``against_best`` compares with the others; empty if nothing is ranked."""
        others = {name for name, _ in self.against_best}
        return next((run.system for run in self.runs if run.system not in others), "")


def load_collection(name: str, path: Path, *, limit_queries: int | None = None) -> Collection:
    """Load the collection ``name`` below ``path``, with at most ``limit_queries`` queries, evenly spread."""
    return _limited(_reader(name).load(path), limit_queries)


def read_run(path: Path, collection: Collection) -> Run:
    """Read a run file over ``collection``; raises InputError if it has none of its queries or its papers."""
    run = read_trec(path)
    if not any(query.id in run.scores for query in collection.queries):
        raise InputError(
            f"{path} ranks papers for none of the {len(collection.queries)} queries of {collection.name}, "
            "such as "
            f"{collection.queries[0].id!r}; give the collection that the run was made on."
            if collection.queries
            else f"{collection.name} has no queries to rank, so runs cannot be compared on it."
        )
    ranked = _ranked(run, collection)
    if ranked and ranked.isdisjoint(collection.papers):
        raise InputError(
            f"{path} ranks no paper of {collection.name}: one of its ids is {min(ranked)!r}, one of the "
            f"collection's {next(iter(collection.papers), '')!r}; give papers the same ids."
        )
    return run


def measure(name: str, path: Path, request: Request, *, on_progress: ProgressFn) -> Measurement:
    """Rank and measure the collection ``name`` below ``path``.

    Raises UnknownNameError, CollectionMissingError, InputError, WeightsError or EncoderMismatchError.
    """
    for system in request.systems:
        parse(system)
    reader = _reader(name)
    collection = _limited(reader.load(path), request.limit_queries)
    snapshot = None if request.data is None else open_snapshot(request.data)
    open_source = _source_opener(request, snapshot, on_progress)
    systems = Systems(
        collection, open_source, tau=request.tau, words=request.words, specificity=request.specificity
    )
    encoders = _encoders(request, snapshot)
    runs: list[Run] = []
    published: list[Run] = []
    if collection.queries:
        names = list(dict.fromkeys(request.systems)) or systems.names(encoders, scorers=request.scorers)
        for number, system in enumerate(names):
            on_progress("systems", number, len(names))
            runs.append(systems.rank(system))
        on_progress("systems", len(names), len(names))
        if isinstance(reader, HoldsRankings) and (request.published or not request.systems):
            published += reader.rankings(path)
    runs += published
    collection = with_unanswered(collection, runs, read=published)
    rows = summarise(collection, runs) if runs else []
    if isinstance(reader, MeasuresVectors):
        sources = [systems.source(encoder) for encoder in encoders]
        rows += reader.figures(path, sources, rows, functions=request.functions)
        if request.limit_queries is not None:
            note = "--limit-queries applies only to rankings of papers."
            collection = replace(collection, notes=(*collection.notes, note))
    if not rows:
        raise InputError(f"None of the given systems can be measured on {name}; leave out --system.")
    best = best_run(runs, rows, collection)
    return Measurement(
        collection,
        tuple(runs),
        tuple(rows),
        tuple(_against(collection, best, runs)),
        tuple(_explained(systems, collection, runs, rows)),
    )


def best_run(runs: Sequence[Run], rows: Sequence[Row], collection: Collection) -> Run | None:
    """Return the run that is first in the main measure over all queries; ``None`` if there are no runs."""
    values = {
        row.system: row.value
        for row in rows
        if (row.facet, row.fold, row.measure) == (ALL, ALL, collection.measures[0])
    }
    return max(runs, key=lambda run: values[run.system], default=None)


def _against(collection: Collection, best: Run | None, runs: Sequence[Run]) -> list[tuple[str, Comparison]]:
    if best is None:
        return []
    main = replace(collection, measures=collection.measures[:1])
    # The best run was chosen with these same queries, so any pair could have been the one compared.
    n_family = n_pairs(len(runs))
    n_resamples = resamples_for(n_family)
    others = [run for run in runs if run is not best]
    compared = compare_each(main, best, others, facet=ALL, n_resamples=n_resamples)
    found = [(run.system, comparison) for run, (comparison,) in zip(others, compared, strict=True)]
    return list(correct_named(found, n_family=n_family))


def with_unanswered(collection: Collection, runs: Sequence[Run], *, read: Sequence[Run]) -> Collection:
    """Return the collection with notes on queries that systems leave unanswered, and on unknown papers.

    Only runs that were ``read`` from files may rank papers that the collection does not have.
    """
    notes = (*_unanswered(collection, runs), *_unknown(collection, read))
    return replace(collection, notes=(*collection.notes, *notes))


def _ranked(run: Run, collection: Collection) -> set[str]:
    """Return all papers that a run ranks for the queries of a collection."""
    return {paper_id for query in collection.queries for paper_id in run.scores.get(query.id, ())}


def _unknown(collection: Collection, runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        ranked = _ranked(run, collection)
        if unknown := ranked - collection.papers.keys():
            yield (
                f"{run.system} ranks {len(unknown):,} of {len(ranked):,} papers that the collection does not "
                f"have, such as {min(unknown)}."
            )


def _unanswered(collection: Collection, runs: Sequence[Run]) -> Iterator[str]:
    leaving: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        missing = tuple(query.id for query in collection.queries if query.id not in run.scores)
        leaving.setdefault(missing, []).append(run.system)
    for missing, systems in leaving.items():
        if missing:
            who = f"{systems[0]} leaves" if len(systems) == 1 else f"{', '.join(systems)} leave"
            n_queries = "1 query" if len(missing) == 1 else f"{len(missing)} queries"
            yield f"{who} {n_queries} unanswered, which count 0; the first: {missing[0]}."


def _explained(
    systems: Systems, collection: Collection, runs: Sequence[Run], rows: Sequence[Row]
) -> list[ExplainedRanking]:
    """Explain some queries, evenly spread, with the best system that has a transport plan to show."""
    with_plan = [run for run in runs if systems.has_plan(run)]
    best = best_run(with_plan, rows, collection)
    if best is None:
        return []
    answered = [query for query in collection.queries if query.id in best.scores]
    return [
        ExplainedRanking(query.id, best.system, systems.explain(best, query, limit=_PAPERS_EXPLAINED))
        for query in _spread(answered, _N_EXPLAINED)
    ]


def _reader(name: str) -> CollectionReader:
    reader: CollectionReader = resolve(SETS, name, "test collection")()
    return reader


def _limited(collection: Collection, limit: int | None) -> Collection:
    if limit is None or limit >= len(collection.queries):
        return collection
    queries = tuple(_spread(collection.queries, limit))
    note = f"Only {limit} of {len(collection.queries)} queries."
    return replace(collection, queries=queries, notes=(*collection.notes, note))


def _spread(queries: Sequence[EvalQuery], n: int) -> list[EvalQuery]:
    """Return at most ``n`` queries in their order, evenly spaced within and over the facets."""
    by_facet = sorted(range(len(queries)), key=lambda place: queries[place].facet)
    taken = np.linspace(0, len(queries), num=min(n, len(queries)), endpoint=False).astype(int)
    return [queries[place] for place in sorted(by_facet[i] for i in taken)]


def _encoders(request: Request, snapshot: Snapshot | None) -> list[str]:
    """Return the encoders requested, directly or in system names; else the snapshot's; else all present."""
    named = [*request.encoders]
    named += [system.encoder for system in map(parse, request.systems) if isinstance(system, VectorSystem)]
    if not named and not request.systems:
        named = [snapshot.manifest.arguments["encoder"]] if snapshot else present_encoders()
    return list(dict.fromkeys(named))


def _source_opener(
    request: Request, snapshot: Snapshot | None, on_progress: ProgressFn
) -> Callable[[str], VectorSource]:
    def open_source(encoder: str) -> VectorSource:
        loaded = load_encoder(encoder, device=request.device, precision=request.precision)
        cache = request.cache
        if cache is not None and request.precision is not Precision.FLOAT32:
            cache /= request.precision  # the same encoder, but other vectors
        return VectorSource(loaded, name=encoder, cache=cache, snapshot=snapshot, on_progress=on_progress)

    return open_source
