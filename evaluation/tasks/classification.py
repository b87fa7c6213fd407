"""SciDocs classification: a linear classifier on paper vectors."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int64, Real
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from evaluation.statistics.bootstrap import COVERAGE, N_RESAMPLES
from evaluation.statistics.summary import Row
from evaluation.tasks.recommendation import EncodePapers, vectors_by_id
from models.types import Paper

# Candidates for the inverse strength of regularisation (semantics 4.2).
INVERSE_STRENGTHS = tuple(np.logspace(-4, 2, 7))
N_VALIDATION_FOLDS = 3


class Examples(NamedTuple):
    """The ids of papers, and the class of each."""

    papers: tuple[str, ...]
    labels: tuple[str, ...]


def classify(
    task: str,
    train: Examples,
    test: Examples,
    papers: Mapping[str, Paper],
    encode: EncodePapers,
    *,
    system: str,
) -> Row:
    """Return the macro-F1 in percent of a linear SVM, its strength chosen by cross-validation in ``train``.

    Like SciDocs' classification.py: squared hinge loss, three folds, selection by accuracy; only the train
    side is used, and the validation side is left for tuning encoders. The original uses lightning's
    LinearSVC, this code scikit-learn's, which also learns an intercept. The interval resamples the test
    papers; the classifier is not trained again.
    """
    vectors, row_of = vectors_by_id(papers, encode)
    machine = GridSearchCV(
        LinearSVC(loss="squared_hinge", random_state=42), {"C": INVERSE_STRENGTHS}, cv=N_VALIDATION_FOLDS
    )
    machine.fit(_matrix(train.papers, vectors, row_of), train.labels)
    predicted = machine.predict(_matrix(test.papers, vectors, row_of))
    confusion = _confusion(test.labels, [str(label) for label in predicted])
    value = float(macro_f1(confusion[None])[0])
    low, high = _bounds(confusion)
    return Row("scidocs", system, task, "all", "macro-F1", value, low, high, len(test.papers))


def macro_f1(confusion: Real[np.ndarray, "n n_classes n_classes"]) -> Float64[np.ndarray, " n"]:
    """Return macro-F1, in percent, for each table of counts ``confusion[i, true, predicted]``.

    A class that neither occurs nor is predicted in a table is ignored there.
    """
    mean: Float64[np.ndarray, " n"] = np.nanmean(f1_of_classes(confusion), axis=1)
    return mean


def f1_of_classes(
    confusion: Real[np.ndarray, "n n_classes n_classes"],
) -> Float64[np.ndarray, "n n_classes"]:
    """Return the F1 of each class, in percent; nan if a class neither occurs nor is predicted in a table."""
    hits = np.diagonal(confusion, axis1=1, axis2=2).astype(np.float64)  # (n, n_classes)
    sizes = (confusion.sum(axis=1) + confusion.sum(axis=2)).astype(np.float64)
    undefined = np.full_like(hits, np.nan)
    f1: Float64[np.ndarray, "n n_classes"] = np.divide(200.0 * hits, sizes, out=undefined, where=sizes > 0)
    return f1


def _bounds(confusion: Int64[np.ndarray, "n_classes n_classes"]) -> tuple[float, float]:
    """Return the 95 % interval of macro-F1; resampling papers is resampling cells of the table."""
    n_papers, n_classes = int(confusion.sum()), len(confusion)
    drawn = np.random.default_rng(0).multinomial(n_papers, confusion.ravel() / n_papers, size=N_RESAMPLES)
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(macro_f1(drawn.reshape(-1, n_classes, n_classes)), (tail, 1 - tail))
    return float(low), float(high)


def _confusion(labels: Sequence[str], predicted: Sequence[str]) -> Int64[np.ndarray, "n_classes n_classes"]:
    classes = {label: i for i, label in enumerate(sorted({*labels, *predicted}))}
    table = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(table, ([classes[label] for label in labels], [classes[label] for label in predicted]), 1)
    return table


def _matrix(
    paper_ids: Sequence[str], vectors: Float32[np.ndarray, "n_rows dim"], row_of: Mapping[str, int]
) -> Float32[np.ndarray, "n_papers dim"]:
    """Return the vector of each paper; the last row of ``vectors`` is for papers without metadata."""
    return vectors[[row_of.get(paper_id, -1) for paper_id in paper_ids]]
