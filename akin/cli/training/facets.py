"""The steps of ``akin train facets``: labelled abstracts, what is read of them, the weights file."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.sets.files import locate
from indexer.files.durable import replace_file, storage_errors
from models.encoder import Encoder
from models.errors import InputError
from models.types import Paper, ProgressFn


def read_labelled(path: Path) -> list[Paper]:
    """The abstracts of one file, or of the training file of CSAbstruct's folder.

    Raises CollectionMissingError or BrokenRowError.
    """
    reader = importlib.import_module("evaluation.sets.functions").FunctionsSet()
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    file = path if path.is_file() else locate(reader, path, "train.jsonl")
    papers = list(reader.load(file).papers.values())
    if not papers:
        raise InputError(f"{file} holds no labelled abstract; expected one a line, as CSAbstruct has them.")
    return papers


def train_facets(
    papers: Sequence[Paper], encoder: Encoder | None, settings: Any, *, out: Path, on_progress: ProgressFn
) -> str:
    """Train a tagger under ``settings`` (TaggerSettings), write its weights to ``out``, and say how it went.

    ``encoder`` is ``None`` for a tagger of text alone.
    """
    training = importlib.import_module("models.training.facets")
    targets = [training.one_hot(paper) for paper in papers]
    states, fingerprint = [], None
    if encoder is not None:
        fingerprint = encoder.spec.fingerprint
        states = training.hidden_states(papers, encoder, layers=settings.layers, on_progress=on_progress)
    content = training.train_tagger(
        papers, states, targets, settings, encoder=fingerprint, on_progress=on_progress
    )
    with storage_errors(out):
        replace_file(out, content)
    return (
        f"Learnt from {len(papers):,} abstracts. Wrote {out} ({len(content) / 1e6:.2f} MB). Measure it with: "
        f"akin evaluate facets PATH --tagger {out}"
    )
