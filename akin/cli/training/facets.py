"""The steps of ``akin train facets``: read labelled abstracts, train, write weights, measure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akin.cli.consoles import stderr
from evaluation.sets.files import locate
from indexer.corpus.read import CorpusReport, read_corpus
from indexer.corpus.sections import labelled_by_sections
from indexer.corpus.source import read_head
from indexer.files.durable import replace_file, storage_errors
from models.checksums import hash64
from models.counts import counted
from models.encoder import Encoder
from models.encoders.hashing import HashingEncoder
from models.errors import InputError
from models.facets import load_tagger, read_tagger
from models.training.pairs.leaks import letters_of
from models.types import Paper, ProgressFn

if TYPE_CHECKING:
    from evaluation.tasks.facets import FacetMeasurement


# One in four papers with section labels in the text keeps them, so that the tagger learns both styles.
_KEEPING_LABELS = 4
_MIN_PAPERS = 20


@dataclass(frozen=True, slots=True)
class LabelledPapers:
    """Abstracts with a facet on every sentence; ``held_out`` are kept to measure on.

    The first ``n_first`` of the ``learnt`` come from the first source; 0 if there is only one source.
    """

    learnt: Sequence[Paper]
    held_out: Sequence[Paper] = ()
    n_first: int = 0


def read_all_labelled(paths: Sequence[Path], *, held_out: float = 0.0) -> LabelledPapers:
    """Read the abstracts of several sources, each with ``read_labelled``.

    An abstract that is held out is not learnt from another source, nor under another id. How many were
    skipped for this is printed to stderr. Raises InputError if none is left.
    """
    read = [read_labelled(path, held_out=held_out) for path in paths]
    kept = tuple(paper for each in read for paper in each.held_out)
    known = set(map(_text, kept))
    learnt = [[paper for paper in each.learnt if not known or _text(paper) not in known] for each in read]
    for path, each, own in zip(paths, read, learnt, strict=True):
        _warn_of_skipped(path, len(each.learnt) - len(own), "that are also held out")
    if not any(learnt):
        raise InputError(f"All abstracts to learn from are also held out, at {held_out:g}; hold out fewer.")
    return LabelledPapers(tuple(paper for own in learnt for paper in own), kept, len(learnt[0]))


def _text(paper: Paper) -> str:
    """Return what is equal in copies of an abstract: its letters, without the labels of sections."""
    return letters_of((labelled_by_sections(paper) or paper).abstract)


def read_labelled(path: Path, *, held_out: float = 0.0) -> LabelledPapers:
    """Read the abstracts of a folder of CSAbstruct or PubMed RCT (the training part), a file, or a corpus.

    A corpus's papers count if all sentences have a facet, as in PubMed's labelled sections, or if their text
    has section labels; how many others were skipped is printed to stderr. A share ``held_out`` is drawn by
    id; their section labels are removed.
    Raises CollectionMissingError, BrokenRowError, InputError (also if there are too few).
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    from evaluation.sets.functions import FunctionsSet

    file = path if path.is_file() else locate(FunctionsSet(), path, "train.jsonl", "train.txt")
    found = _of_set(file) if path.is_dir() or _has_labels(file) else _of_corpus(file)
    if not found or (held_out and len(found) < _MIN_PAPERS):
        raise InputError(
            f"{file} holds {len(found)} abstracts whose sentences are labelled. Give CSAbstruct's layout, or "
            "a corpus whose papers have facets or section labels in their text (METHODS: ...)"
            f"{f', {_MIN_PAPERS} at least' if found else ''}."
        )
    kept = {name for name in found if hash64(f"held-out:{name}") / 2**64 < held_out}
    if len(kept) == len(found):
        raise InputError(
            f"A share of {held_out:g} holds out all {len(kept)} abstracts of {file}, so none is left to "
            "train on; hold out a smaller share."
        )
    return LabelledPapers(
        tuple(paper for name, (paper, _) in found.items() if name not in kept),
        tuple(plain for name, (_, plain) in found.items() if name in kept),
    )


def _has_labels(file: Path) -> bool:
    """Return whether a file has the layout of CSAbstruct or of PubMed RCT."""
    head = read_head(file).lstrip().partition("\n")[0]
    return head.startswith("###") or (head.startswith("{") and '"labels"' in head and '"sentences"' in head)


# Each id with the paper to learn from, and the paper to measure on, without labels in its text.
_Found = dict[str, tuple[Paper, Paper]]


def _of_set(file: Path) -> _Found:
    from evaluation.sets.functions import read_labelled_sentences

    labelled = read_labelled_sentences(file)
    _warn_of_skipped(file, labelled.n_blank, "without a sentence")
    return {name: (paper, paper) for name, paper in labelled.papers.items()}


def _of_corpus(file: Path) -> _Found:
    report = CorpusReport()
    found = dict(_labelled_papers(file, report))
    _warn_of_skipped(file, report.papers - len(found), "without labels on all sentences")
    _warn_of_skipped(file, report.without_abstract, "without an abstract")
    for first in report.broken_rows[:1]:
        _warn_of_skipped(file, report.broken, f"that cannot be used, the first at {first}")
    return found


def _warn_of_skipped(file: Path, n: int, which: str) -> None:
    if n:
        text = f"{file}: skipped {counted(n, 'abstract')} {which}."
        stderr.print(text, style="yellow", soft_wrap=True)


def _labelled_papers(file: Path, report: CorpusReport) -> Iterator[tuple[str, tuple[Paper, Paper]]]:
    """Yield the id of each labelled paper, with the paper to learn from and the paper to measure on."""
    for paper in read_corpus(file, report=report):
        if all(sentence.facet is not None for sentence in paper.sentences):
            yield paper.id, (paper, paper)
        elif (plain := labelled_by_sections(paper)) is not None:
            keeps = hash64(f"labels:{paper.id}") % _KEEPING_LABELS == 0
            learnt = labelled_by_sections(paper, keep_labels=True) if keeps else plain
            yield paper.id, (learnt or plain, plain)


def train_facets(
    papers: LabelledPapers,
    encoder: Encoder | None,
    settings: Any,
    *,
    out: Path,
    later: bool = True,
    on_progress: ProgressFn,
) -> "FacetMeasurement | None":
    """Train a tagger with ``settings`` (TaggerSettings), write its weights to ``out``, and measure it.

    With ``later``, copies of some abstracts that start at a later sentence are added (``drop_beginnings``).
    Half the ensemble is trained on the first source alone, unchanged, so that it stays as good there.
    ``encoder`` is ``None`` for a tagger of text alone. Returns figures on the held-out papers, next to those
    of Akin's own tagger, or ``None`` without such papers. Raises InputError if ``out`` has the name of that
    tagger.
    """
    shipped = load_tagger((encoder or HashingEncoder()).spec)
    if papers.held_out and shipped.spec.name == out.stem:
        raise InputError(
            f"{out} has the name of the weights that come with Akin; choose another name for the file."
        )
    from models.training import facets as training

    learnt = [*papers.learnt, *(training.drop_beginnings(papers.learnt) if later else ())]
    targets = [training.one_hot(paper) for paper in learnt]
    states, fingerprint = [], None
    if encoder is not None:
        fingerprint = encoder.spec.fingerprint
        states = training.hidden_states(learnt, encoder, layers=settings.layers, on_progress=on_progress)
    content = training.train_tagger(
        learnt,
        states,
        targets,
        settings,
        encoder=fingerprint,
        on_progress=on_progress,
        n_own=papers.n_first or len(papers.learnt),
    )
    with storage_errors(out):
        replace_file(out, content)
    if not papers.held_out:
        return None
    from evaluation.tasks import facets as measuring

    found: FacetMeasurement = measuring.compare_taggers(
        papers.held_out,
        encoder or HashingEncoder(),
        [read_tagger(out), shipped],
        on_progress=on_progress,
    )
    return found
