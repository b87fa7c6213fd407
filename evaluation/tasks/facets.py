"""Evaluation of facet tagging against human labels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64, Real

from evaluation.baselines.facets import BASELINES, LabelledPapers, predict
from evaluation.sets.files import is_there, locate
from evaluation.sets.functions import FunctionsSet
from evaluation.statistics.bootstrap import Difference, bounds
from evaluation.statistics.multiple import correct_named
from evaluation.statistics.summary import ALL, Comparison, Figures, Row, SystemComparison
from evaluation.systems.vectors import VectorSource
from evaluation.tasks.classification import f1_of_classes, macro_f1
from evaluation.tasks.task import TaskOptions
from models.annotator import AnnotatedPaper, Annotator
from models.encoder import PAPERS_PER_CALL, Encoder, load_encoder
from models.encoders.hashing import HashingEncoder
from models.errors import InputError
from models.facets import FACETS, FacetTagger, facet_codes, load_tagger, read_tagger
from models.types import EncoderSpec, Paper, ProgressFn

NAME = "facets"
# Measures over all sentences, the main one first; F1 is for one facet.
MEASURES = ("micro-F1", "macro-F1")
F1 = "F1"

_TRAIN = "train.jsonl"
_N_FACETS = len(FACETS)
_LEARNED = (
    "The shipped taggers learned from CSAbstruct and SciFact: on papers of theirs, held out here or not, "
    "their figures are too good."
)


@dataclass(frozen=True, slots=True)
class FacetMeasurement:
    """The results of ``tagger`` and of the systems compared with it, on ``n_papers`` abstracts.

    ``differences`` are the tagger minus each other system in MEASURES. ``confusion[i, j]`` counts the
    sentences of FACETS[i] that the tagger labelled FACETS[j].
    """

    tagger: str
    n_papers: int
    rows: tuple[Row, ...]
    differences: tuple[tuple[str, Comparison], ...]
    confusion: Int64[np.ndarray, "5 5"]
    notes: tuple[str, ...]

    @property
    def best_baseline(self) -> str | None:
        """The baseline with the highest micro-F1; ``None`` if no baseline was trained here."""
        micro = {row.system: row.value for row in self.rows if row.measure == MEASURES[0]}
        return max((name for name in BASELINES if name in micro), key=lambda name: micro[name], default=None)

    @property
    def compared(self) -> tuple[SystemComparison, ...]:
        """The differences with the names of both systems."""
        return tuple(SystemComparison(self.tagger, name, each) for name, each in self.differences)


@dataclass(frozen=True, slots=True)
class Facets:
    """The task that compares the facet tagger with simple baselines, on labelled sentences."""

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure micro-F1, macro-F1 and the F1 of each facet, and the tagger minus each other system."""
        encoder = load_encoder(options.encoder, device=options.device)
        found = measure_facets(path, encoder, cache=options.cache, on_progress=options.on_progress)
        sentences = f"{max(row.n for row in found.rows):,} labelled sentences."
        return Figures(found.n_papers, 0, found.rows, found.compared, (sentences, *found.notes))


def measure_facets(
    path: Path,
    encoder: Encoder,
    *,
    tagger: Path | None = None,
    cache: Path | None = None,
    open_tagger: Callable[[EncoderSpec], FacetTagger] = load_tagger,
    on_progress: ProgressFn,
) -> FacetMeasurement:
    """Measure the tagger that fits ``encoder`` on CSAbstruct's labels, read from ``path`` as by FunctionsSet.

    ``tagger``: weights to measure instead. Compared with it are the tagger that they would replace, the one
    that reads only text and, if the folder holds a train side that is not itself measured, BASELINES trained
    on it; ``cache`` keeps its vectors. Intervals resample abstracts. Raises CollectionMissingError,
    BrokenRowError, InputError (no papers, labels that are no facets, a name used twice), and what encoder and
    taggers raise.
    """
    usual = open_tagger(encoder.spec)
    measured = usual if tagger is None else read_tagger(tagger)
    annotator = Annotator(encoder, tagger=measured)
    # An encoder without hidden layers gets the tagger that needs none.
    surface = open_tagger(HashingEncoder().spec)
    collection = FunctionsSet().load(path)
    papers = list(collection.papers.values())
    if not papers:
        raise InputError(f"{path} holds no labelled abstract to measure on.")
    if any(sentence.facet is None for paper in papers for sentence in paper.sentences):
        raise InputError(f"The labels of {path} are not facets; measure with `akin evaluate functions`.")
    name = measured.spec.name
    annotated = _annotate(annotator, papers, on_progress)
    predicted = {name: _codes([each.probabilities for each in annotated])}
    if name in BASELINES or any(
        name == other.spec.name and measured.spec != other.spec for other in (usual, surface)
    ):
        raise InputError(
            f"{tagger} has the name of another system in this table; choose another name for the file."
        )
    predicted[surface.spec.name] = _codes(surface.tag(papers, []))
    if usual.spec.name not in predicted:
        replaced = _annotate(Annotator(encoder, tagger=usual), papers, on_progress)
        predicted[usual.spec.name] = _codes([each.probabilities for each in replaced])
    tested = LabelledPapers(papers, [each.encoded.sentences for each in annotated])
    notes, file = list(collection.notes), FunctionsSet().file(path)
    if file.name.startswith(_TRAIN):
        notes.append(
            "The shipped taggers learned from these abstracts: the figures do not apply to other abstracts."
        )
    elif is_there(file.parent, _TRAIN):
        predicted |= _of_baselines(_train_side(file.parent, encoder, cache, on_progress), tested, on_progress)
    else:
        notes.append(f"No baselines, which need {_TRAIN} beside {file.name}.")
    tables = {system: confusions(tested.codes, codes, tested.lengths) for system, codes in predicted.items()}
    rows, differences = summarise_confusions(tables)
    confusion = tables[name].sum(axis=0)
    return FacetMeasurement(name, len(papers), tuple(rows), tuple(differences), confusion, tuple(notes))


def compare_taggers(
    papers: Sequence[Paper], encoder: Encoder, taggers: Sequence[FacetTagger], *, on_progress: ProgressFn
) -> FacetMeasurement:
    """Compare the first of ``taggers`` with each other one, on ``papers`` whose sentences all have a facet.

    The names of the taggers must differ. Raises what encoder and taggers raise.
    """
    tables = {}
    for tagger in taggers:
        annotated = _annotate(Annotator(encoder, tagger=tagger), papers, on_progress)
        tested = LabelledPapers(papers, [each.encoded.sentences for each in annotated])
        codes = _codes([each.probabilities for each in annotated])
        tables[tagger.spec.name] = confusions(tested.codes, codes, tested.lengths)
    rows, differences = summarise_confusions(tables)
    name = taggers[0].spec.name
    notes = ("Papers held out.", _LEARNED)
    return FacetMeasurement(
        name, len(papers), tuple(rows), tuple(differences), tables[name].sum(axis=0), notes
    )


def confusions(
    true: Int64[np.ndarray, " n_rows"], predicted: Int64[np.ndarray, " n_rows"], lengths: Sequence[int]
) -> Int64[np.ndarray, "n_papers 5 5"]:
    """Count, for each paper, how often sentences of one facet (codes) were predicted as another."""
    paper = np.repeat(np.arange(len(lengths)), lengths)
    tables = np.zeros((len(lengths), _N_FACETS, _N_FACETS), dtype=np.int64)
    np.add.at(tables, (paper, true, predicted), 1)
    return tables


def summarise_confusions(
    tables: Mapping[str, Int64[np.ndarray, "n_papers 5 5"]],
) -> tuple[list[Row], list[tuple[str, Comparison]]]:
    """Return the figures of every system, and the first minus each other, from the same resamples."""
    counts = np.concatenate([table.reshape(len(table), -1) for table in tables.values()], axis=1)
    counts = counts.astype(np.float64)
    everything = counts.sum(axis=0, keepdims=True)
    systems = list(tables)
    bounded = bounds(counts, _all_figures)
    values = _all_figures(everything)[0]
    n_true = next(iter(tables.values())).sum(axis=(0, 2))
    n = int(n_true.sum())
    found = [
        Difference(float(value), float(low), float(high), n, float(p))
        for value, low, high, p in zip(values, *bounded, strict=True)
    ]
    n_each = len(MEASURES) + _N_FACETS
    rows = [
        row
        for i, system in enumerate(systems)
        for row in _rows(system, found[i * n_each : (i + 1) * n_each], n_true.tolist())
    ]
    pairs = [(system, measure) for system in systems[1:] for measure in MEASURES]
    differences = [
        (system, Comparison(measure, ALL, difference))
        for (system, measure), difference in zip(pairs, found[len(systems) * n_each :], strict=True)
    ]
    return rows, list(correct_named(differences))


def f1_figures(confusion: Real[np.ndarray, "n 5 5"]) -> Float64[np.ndarray, "n 7"]:
    """Return MEASURES, then the F1 of each of FACETS, in percent, for each ``confusion[i, true, predicted]``.

    Every sentence has one facet and gets one, so micro-F1 is the share of correct sentences.
    """
    right = np.trace(confusion, axis1=1, axis2=2)
    micro = 100.0 * right / confusion.sum(axis=(1, 2))
    return np.column_stack([micro, macro_f1(confusion), f1_of_classes(confusion)])


def _all_figures(counts: Float64[np.ndarray, "n n_counts"]) -> Float64[np.ndarray, "n n_figures"]:
    """Return the figures of every system, one after another, then the first system minus each other."""
    figures = f1_figures(counts.reshape(-1, _N_FACETS, _N_FACETS)).reshape(len(counts), -1, 2 + _N_FACETS)
    against = figures[:, :1, : len(MEASURES)] - figures[:, 1:, : len(MEASURES)]
    return np.concatenate([figures.reshape(len(counts), -1), against.reshape(len(counts), -1)], axis=1)


def _rows(system: str, figures: Sequence[Difference], n_true: Sequence[int]) -> Iterator[Row]:
    names = [(ALL, measure) for measure in MEASURES] + [(facet.value, F1) for facet in FACETS]
    sizes = [sum(n_true)] * len(MEASURES) + list(n_true)
    for (facet, measure), n, figure in zip(names, sizes, figures, strict=True):
        if not np.isnan(figure.value):
            yield Row(NAME, system, facet, ALL, measure, figure.value, figure.low, figure.high, n)


def _annotate(annotator: Annotator, papers: Sequence[Paper], on_progress: ProgressFn) -> list[AnnotatedPaper]:
    annotated: list[AnnotatedPaper] = []
    for start in range(0, len(papers), PAPERS_PER_CALL):
        annotated += annotator.annotate(papers[start : start + PAPERS_PER_CALL])
        on_progress("tagging", len(annotated), len(papers))
    return annotated


def _train_side(
    folder: Path, encoder: Encoder, cache: Path | None, on_progress: ProgressFn
) -> LabelledPapers:
    reader = FunctionsSet()
    papers = list(reader.load(locate(reader, folder, _TRAIN)).papers.values())
    source = VectorSource(encoder, cache=cache, on_progress=on_progress)
    return LabelledPapers(papers, [each.sentences for each in source.of(papers, stage="train side")])


def _of_baselines(
    train: LabelledPapers, tested: LabelledPapers, on_progress: ProgressFn
) -> dict[str, Int64[np.ndarray, " n_rows"]]:
    predicted = {}
    for number, (name, baseline) in enumerate(BASELINES.items(), start=1):
        predicted[name] = predict(baseline, train, tested)
        on_progress("baselines", number, len(BASELINES))
    return predicted


def _codes(probabilities: Sequence[np.ndarray]) -> Int64[np.ndarray, " n_rows"]:
    """Return the most probable facet of each sentence, concatenated over the papers."""
    codes: Int64[np.ndarray, " n_rows"] = np.concatenate([facet_codes(own) for own in probabilities])
    return codes
