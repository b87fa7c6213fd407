"""Evaluation of rhetorical functions: systems that give sentences vectors, on labelled sentences."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from evaluation.sets.functions import FunctionsSet, systems_measured
from evaluation.statistics.bootstrap import resamples_for
from evaluation.statistics.summary import Figures, SystemComparison
from evaluation.systems.vectors import VectorSource
from evaluation.tasks.ranking import corrected
from evaluation.tasks.sentences import MEASURES
from evaluation.tasks.task import TaskOptions
from models.encoder import load_encoder

_KEPT: Final = MEASURES[:2]


@dataclass(frozen=True, slots=True)
class Functions:
    """The task that measures an encoder's vectors of sentences: its own, its layers, function encoders.

    ``pairs`` are the systems to compare; ``{encoder}`` stands for the encoder's name.
    """

    pairs: tuple[tuple[str, str], ...] = ()

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure MAP@R and P@1 by label, and compare the pairs of systems that this encoder has."""
        encoder = load_encoder(options.encoder, device=options.device)
        source = VectorSource(
            encoder, name=options.encoder, cache=options.cache, on_progress=options.on_progress
        )
        labelled = FunctionsSet().labelled(path)
        found = dict(systems_measured(labelled, source))
        named = [tuple(name.format(encoder=options.encoder) for name in pair) for pair in self.pairs]
        pairs = [(a, b) for a, b in named if a in found and b in found]
        compared = [
            SystemComparison(a, b, comparison)
            for a, b in pairs
            for comparison in found[a].minus(found[b], _KEPT, n_resamples=resamples_for(len(pairs)))
        ]
        rows = chain.from_iterable(values.rows(system) for system, values in found.items())
        notes: tuple[str, ...] = (
            f"Sentences of {', '.join(file.name for file in FunctionsSet().files(path))}.",
        )
        if options.limit_queries is not None:
            notes = (*notes, "--limit-queries does not apply to labelled sentences.")
        return Figures(
            len(labelled.papers),
            0,
            tuple(row for row in rows if row.measure in _KEPT),
            corrected(compared),
            notes,
        )
