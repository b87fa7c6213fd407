"""The steps of ``akin train facets``: labelled abstracts, unlabelled ones to learn from, the weights file."""

import importlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from akin.function_training import paper_ids
from indexer.build import ProgressFn
from indexer.corpus import CorpusReport, read_corpus
from indexer.durable import replace_file, storage_errors
from models.encoder import Encoder
from models.errors import InputError
from models.language import language_of
from models.types import Paper

# Abstracts worth learning from: not a fragment, not a book.
_SENTENCES = range(3, 21)


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """``n_papers`` abstracts drawn by ``seed`` from the first of ``corpora``, less those in ``exclude``."""

    corpora: tuple[Path, ...]
    n_papers: int
    exclude: Path | None
    seed: int


def read_labelled(path: Path) -> list[Paper]:
    """The abstracts of CSAbstruct's training file, or of its folder; raises InputError or CorpusError."""
    sets = importlib.import_module("evaluation.sets.functions")
    file = path / "train.jsonl" if path.is_dir() else path
    return list(sets.FunctionsSet().load(file).papers.values())


def draw_unlabelled(wanted: Unlabelled, *, on_progress: ProgressFn) -> list[Paper]:
    """English abstracts of usual length, drawn without order; raises InputError where there are too few."""
    if not wanted.corpora:
        return []
    excluded = paper_ids(wanted.exclude)

    def usable() -> Iterator[Paper]:
        report = CorpusReport()
        for corpus in wanted.corpora:
            for paper in read_corpus(corpus, report=report):
                if paper.id not in excluded and len(paper.sentences) in _SENTENCES:
                    yield paper

    # A window of the corpus, several times as large as what is drawn: a corpus often comes in some order.
    window = list(islice(usable(), 10 * wanted.n_papers))
    random.Random(wanted.seed).shuffle(window)  # noqa: S311 - nothing secret
    english = (paper for paper in window if language_of(paper.abstract) == "en")
    drawn = list(islice(english, wanted.n_papers))
    on_progress("drawing", len(drawn), wanted.n_papers)
    if len(drawn) < wanted.n_papers:
        raise InputError(
            f"{wanted.n_papers:,} unlabelled abstracts were asked for; {len(drawn):,} are usable."
        )
    return drawn


def train_facets(
    labelled: Sequence[Paper],
    unlabelled: Sequence[Paper],
    encoder: Encoder | None,
    settings: Any,
    *,
    out: Path,
    on_progress: ProgressFn,
) -> str:
    """Train a tagger under ``settings`` (TaggerSettings), write its weights to ``out``, and say how it went.

    ``encoder`` is ``None`` for a tagger of text alone. With ``unlabelled`` papers, a first tagger tells their
    facets from their abstracts alone, and the tagger that is kept learns them with their titles in view.
    """
    training = importlib.import_module("models.training.facets")

    def states(papers: Sequence[Paper]) -> list[Any]:
        if encoder is None:
            return []
        return training.hidden_states(papers, encoder, layers=settings.layers, on_progress=on_progress)  # type: ignore[no-any-return] # imported late

    fingerprint = None if encoder is None else encoder.spec.fingerprint
    targets = [training.one_hot(paper) for paper in labelled]
    read = states(labelled)
    content = training.train_tagger(
        labelled, read, targets, settings, encoder=fingerprint, on_progress=on_progress
    )
    if unlabelled:
        with storage_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            replace_file(out, content)
        first = importlib.import_module("models.taggers.sequence").SequenceTagger(out)
        told = first.tag(unlabelled, states([replace(paper, title="") for paper in unlabelled]))
        content = training.train_tagger(
            [*labelled, *unlabelled],
            [*read, *states(unlabelled)],
            [*targets, *told],
            settings,
            encoder=fingerprint,
            on_progress=on_progress,
        )
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, content)
    return (
        f"Learnt from {len(labelled):,} labelled and {len(unlabelled):,} other abstracts. "
        f"Wrote {out} ({len(content) / 1e6:.2f} MB). Measure it with: akin evaluate facets"
    )
