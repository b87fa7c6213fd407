"""Ranking: systems answer the queries of one or several test collections."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from evaluation.measurement import Request, measure
from evaluation.statistics.bootstrap import resamples_for
from evaluation.statistics.multiple import correct
from evaluation.statistics.summary import ALL, Figures, Row, SystemComparison, compare
from evaluation.tasks.task import TaskOptions
from models.errors import CollectionMissingError, InputError

# How many of a collection's measures are kept.
_N_MEASURES: Final = 2


@dataclass(frozen=True, slots=True)
class Ranking:
    """A test collection ``set`` with queries that rank papers.

    ``systems`` are names in which ``{encoder}`` is replaced by the encoder's name; empty: all systems.
    ``pairs`` are the systems to compare, over all queries. Published rankings in the folder are measured too.
    """

    set: str
    systems: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure the first two measures of the collection, by facet and fold."""
        request = Request(
            systems=tuple(name.format(encoder=options.encoder) for name in self.systems),
            encoders=() if self.systems else (options.encoder,),
            cache=options.cache,
            device=options.device,
            limit_queries=options.limit_queries,
            published=True,
        )
        found = measure(self.set, path, request, on_progress=options.on_progress)
        main = found.collection.measures[:_N_MEASURES]
        collection = replace(found.collection, measures=main)
        runs = {run.system: run for run in found.runs}
        pairs = [
            (a.format(encoder=options.encoder), b.format(encoder=options.encoder)) for a, b in self.pairs
        ]
        pairs = [(a, b) for a, b in pairs if a in runs and b in runs]
        compared = [
            SystemComparison(a, b, comparison)
            for a, b in pairs
            for comparison in compare(
                collection, runs[a], runs[b], facet=ALL, n_resamples=resamples_for(len(pairs))
            )
        ]
        others = [row for row in found.rows if row.measure not in found.collection.measures]
        # A single fold gives the same figures as all folds.
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
class MultiSetRanking:
    """A ranking on each subfolder of a folder, such as BEIR's; the overall figure is the mean of theirs."""

    ranking: Ranking

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure each collection, with its name as the facet, and their mean, which has no interval.

        A folder without a collection, or with one that cannot be read, is left out, with a note. Raises
        CollectionMissingError if none can be measured.
        """
        of: dict[str, Figures] = {}
        left: list[str] = []
        for folder in sorted(each for each in path.iterdir() if each.is_dir()):
            try:
                of[folder.name] = self.ranking.measure(folder, options)
            except InputError as error:
                reason = str(error).partition("\n")[0].replace(str(folder), folder.name)
                left.append(f"Left out: {reason if folder.name in reason else f'{folder.name}: {reason}'}")
        if not of:
            raise CollectionMissingError(
                f"{path} holds no folder with a collection; give one with a folder for each collection. "
                + " ".join(left[:3])
            )
        rows = [
            replace(row, set=path.name, facet=name)
            for name, figures in of.items()
            for row in figures.rows
            if (row.facet, row.fold) == (ALL, ALL)
        ]
        n_papers = sum(figures.n_papers for figures in of.values())
        n_queries = sum(figures.n_queries for figures in of.values())
        notes = [f"{name}: {note}" for name, figures in of.items() for note in figures.notes]
        return Figures(n_papers, n_queries, (*rows, *_means(rows)), notes=(*notes, *left))


def corrected(compared: Sequence[SystemComparison]) -> tuple[SystemComparison, ...]:
    """Correct the comparisons of one task for their number."""
    found = correct([each.comparison for each in compared])
    return tuple(replace(each, comparison=one) for each, one in zip(compared, found, strict=True))


def _means(rows: Sequence[Row]) -> list[Row]:
    """Return, for each system and measure, the mean over the collections, if all of them have it."""
    n_sets = len({row.facet for row in rows})
    means = []
    for system, measured in dict.fromkeys((row.system, row.measure) for row in rows):
        found = [row for row in rows if (row.system, row.measure) == (system, measured)]
        if len(found) == n_sets:
            mean = sum(row.value for row in found) / n_sets
            means.append(replace(found[0], facet=ALL, value=mean, low=math.nan, high=math.nan, n=n_sets))
    return means
