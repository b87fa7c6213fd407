"""The kinds of part that a suite has: each a value that says what to measure, and measures it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from evaluation.measurement import Request, measure
from evaluation.statistics.multiple import correct
from evaluation.statistics.summary import ALL, Compared, Row, compare
from evaluation.suite.figures import Figures
from evaluation.tasks import candidates as stage
from evaluation.tasks.facets import measure_facets
from evaluation.tasks.known_items import figure_rows, measure_items
from indexer.snapshot.snapshot import open_snapshot
from models.encoder import load_encoder
from models.types import ProgressFn
from service.settings import settings_of

# Of what a collection measures, what the suite keeps.
_N_MEASURES = 2


@dataclass(frozen=True, slots=True)
class How:
    """What all parts share: the encoder, where vectors are kept, and how many queries a quick look takes."""

    encoder: str
    cache: Path | None
    device: str
    limit_queries: int | None
    on_progress: ProgressFn


class Part(Protocol):
    """One section of the file; ``folder`` is where its collection lies below the suite's folder."""

    @property
    def folder(self) -> str:
        """Its name."""
        ...

    @property
    def what(self) -> str:
        """Its heading."""
        ...

    def measure(self, path: Path, how: How) -> Figures:
        """The figures of the collection below ``path``; raises what reading and measuring it raise."""
        ...


@dataclass(frozen=True, slots=True)
class Ranking:
    """A test collection ``set`` whose queries rank papers.

    ``systems`` are names in which ``{encoder}`` stands for the encoder's, none for all that there are;
    ``pairs`` those compared, over all queries. Published rankings that lie in the folder are measured too.
    """

    what: str
    folder: str
    set: str
    systems: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]

    def measure(self, path: Path, how: How) -> Figures:
        """The first two measures of the collection, by facet and fold."""
        request = Request(
            systems=tuple(name.format(encoder=how.encoder) for name in self.systems),
            encoders=() if self.systems else (how.encoder,),
            cache=how.cache,
            device=how.device,
            limit_queries=how.limit_queries,
            published=True,
        )
        found = measure(self.set, path, request, on_progress=how.on_progress)
        main = found.collection.measures[:_N_MEASURES]
        collection = replace(found.collection, measures=main)
        runs = {run.system: run for run in found.runs}
        pairs = [(a.format(encoder=how.encoder), b.format(encoder=how.encoder)) for a, b in self.pairs]
        pairs = [(a, b) for a, b in pairs if a in runs and b in runs]
        compared = [
            Compared(a, b, comparison)
            for a, b in pairs
            for comparison in compare(collection, runs[a], runs[b])
            if comparison.facet == ALL
        ]
        others = [row for row in found.rows if row.measure not in found.collection.measures]
        # One fold alone says what all folds say.
        folds = {row.fold for row in found.rows} - {ALL}
        kept = [row for row in found.rows if row.measure in main]
        rows = [row for row in kept if row.fold == ALL or len(folds) > 1] + others
        return Figures(
            len(collection.papers),
            len(collection.queries),
            tuple(rows),
            corrected(compared),
            collection.notes,
        )


@dataclass(frozen=True, slots=True)
class Facets:
    """The facet tagger beside simple baselines, on labelled sentences."""

    what: str
    folder: str

    def measure(self, path: Path, how: How) -> Figures:
        """Micro- and macro-F1, F1 of each facet, and the tagger less each other."""
        encoder = load_encoder(how.encoder, device=how.device)
        found = measure_facets(path, encoder, cache=how.cache, on_progress=how.on_progress)
        compared = tuple(Compared(found.tagger, name, each) for name, each in found.differences)
        sentences = f"{max(row.n for row in found.rows):,} labelled sentences."
        return Figures(found.n_papers, 0, found.rows, compared, (sentences, *found.notes))


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidate stage of an indexed collection, against exact search."""

    what: str
    folder: str
    backends: tuple[str, ...]

    def measure(self, path: Path, how: How) -> Figures:
        """Recall and what re-ranking would lose, at each depth."""
        found = stage.measure_candidates(
            path,
            backends=self.backends,
            n_queries=min(how.limit_queries or 50, 50),
            device=how.device,
            on_progress=how.on_progress,
        )
        rows = stage.figure_rows(found)
        return Figures(len(open_snapshot(path)), found[0].n, tuple(rows))


@dataclass(frozen=True, slots=True)
class Items:
    """Papers of an indexed collection asked for by their titles."""

    what: str
    folder: str

    def measure(self, path: Path, how: How) -> Figures:
        """How often the paper is first, or among the first ten, and what the default has more."""
        settings = settings_of(data=path, device=how.device)
        found = measure_items(settings, n_titles=how.limit_queries or 500, on_progress=how.on_progress)
        return Figures(found.n_papers, found.rows[0].found.n, tuple(figure_rows(found)))


def corrected(compared: Sequence[Compared]) -> tuple[Compared, ...]:
    """The comparisons of one part, corrected for their number."""
    found = correct([each.comparison for each in compared])
    return tuple(replace(each, comparison=one) for each, one in zip(compared, found, strict=True))


@dataclass(frozen=True, slots=True)
class Several:
    """Folders of one layout below one folder, as BEIR's; the figure over all is the mean of their figures."""

    what: str
    folder: str
    set: str
    systems: tuple[str, ...]

    def measure(self, path: Path, how: How) -> Figures:
        """Each collection's figures, under its name as the facet, and their mean, which has no interval."""
        of = {
            each.name: Ranking("", each.name, self.set, self.systems, ()).measure(each, how)
            for each in sorted(path.iterdir())
            if each.is_dir()
        }
        rows = [
            replace(row, set=path.name, facet=name)
            for name, figures in of.items()
            for row in figures.rows
            if (row.facet, row.fold) == (ALL, ALL)
        ]
        n_papers, n_queries = (sum(sizes) for sizes in zip(*map(_sizes, of.values()), strict=True))
        notes = tuple(f"{name}: {note}" for name, figures in of.items() for note in figures.notes)
        return Figures(n_papers, n_queries, (*rows, *_means(rows)), notes=notes)


def _means(rows: Sequence[Row]) -> list[Row]:
    """Of each system and measure the mean over the collections, where all of them have it."""
    n_sets = len({row.facet for row in rows})
    means = []
    for system, measured in dict.fromkeys((row.system, row.measure) for row in rows):
        found = [row for row in rows if (row.system, row.measure) == (system, measured)]
        if len(found) == n_sets:
            mean = sum(row.value for row in found) / n_sets
            means.append(replace(found[0], facet=ALL, value=mean, low=math.nan, high=math.nan, n=n_sets))
    return means


def _sizes(figures: Figures) -> tuple[int, int]:
    return figures.n_papers, figures.n_queries
