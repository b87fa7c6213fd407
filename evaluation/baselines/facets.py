"""Baselines for facet taggers: logistic regression on position, sentence vectors or n-grams."""

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from models.facets import FACETS
from models.types import Paper

# Distinct positions at either end of an abstract; positions further in count as the last of them.
_N_PLACES = 12
_MAX_NGRAM = 3
# N-grams found in fewer sentences are left out.
_MIN_SENTENCES = 3
# The weight of a neighbour's n-grams, relative to the sentence's own.
_NEIGHBOUR_WEIGHT = 0.5
_MAX_ITERATIONS = 1_000


class LabelledPapers(NamedTuple):
    """Papers whose sentences have facets, with the vectors of each paper's first sentences."""

    papers: Sequence[Paper]
    vectors: Sequence[Float32[np.ndarray, "n_kept dim"]]

    @property
    def codes(self) -> Int64[np.ndarray, " n_rows"]:
        """The facet of each sentence as its index in FACETS, concatenated over the papers."""
        codes = {facet: code for code, facet in enumerate(FACETS)}
        return np.array([codes[s.facet] for p in self.papers for s in p.sentences if s.facet is not None])

    @property
    def lengths(self) -> list[int]:
        """The number of sentences of each paper."""
        return [len(paper.sentences) for paper in self.papers]


class Baseline(NamedTuple):
    """The features of train and tested sentences for a regression, and its inverse regularisation."""

    describe: Callable[[LabelledPapers, LabelledPapers], tuple[sparse.csr_array, sparse.csr_array]]
    inverse_strength: float


def predict(
    baseline: Baseline, train: LabelledPapers, tested: LabelledPapers
) -> Int64[np.ndarray, " n_rows"]:
    """Fit a regression to ``train`` and predict the facets of the sentences of ``tested``, as codes."""
    train_rows, tested_rows = baseline.describe(train, tested)
    machine = LogisticRegression(C=baseline.inverse_strength, max_iter=_MAX_ITERATIONS)
    codes: Int64[np.ndarray, " n_rows"] = machine.fit(train_rows, train.codes).predict(tested_rows)
    return codes


def _by_position(train: LabelledPapers, tested: LabelledPapers) -> tuple[sparse.csr_array, sparse.csr_array]:
    return _positions(train.lengths), _positions(tested.lengths)


def _by_last_layer(
    train: LabelledPapers, tested: LabelledPapers
) -> tuple[sparse.csr_array, sparse.csr_array]:
    train_rows, tested_rows = (
        _in_place(sparse.csr_array(_rows(each)), each.lengths, weight=1.0) for each in (train, tested)
    )
    return train_rows, tested_rows


def _by_ngrams(train: LabelledPapers, tested: LabelledPapers) -> tuple[sparse.csr_array, sparse.csr_array]:
    vectoriser = TfidfVectorizer(
        ngram_range=(1, _MAX_NGRAM),
        min_df=min(_MIN_SENTENCES, len(train.papers)),
        sublinear_tf=True,
        token_pattern=r"\w+|%",  # noqa: S106 - no secret
    )
    vectoriser.fit(_texts(train))
    train_rows, tested_rows = (
        _in_place(
            sparse.csr_array(vectoriser.transform(_texts(each))), each.lengths, weight=_NEIGHBOUR_WEIGHT
        )
        for each in (train, tested)
    )
    return train_rows, tested_rows


BASELINES = MappingProxyType(
    {
        "position": Baseline(_by_position, 1.0),
        "last-layer": Baseline(_by_last_layer, 1.0),
        "n-grams": Baseline(_by_ngrams, 4.0),
    }
)


def _texts(labelled: LabelledPapers) -> list[str]:
    return [sentence.text for paper in labelled.papers for sentence in paper.sentences]


def _rows(labelled: LabelledPapers) -> Float32[np.ndarray, "n_rows dim"]:
    """Concatenate the vectors; a sentence beyond the encoder's token limit gets zeros."""
    missing = (n - len(own) for n, own in zip(labelled.lengths, labelled.vectors, strict=True))
    padded = [np.pad(own, ((0, n), (0, 0))) for n, own in zip(missing, labelled.vectors, strict=True)]
    return np.concatenate(padded)


def _positions(lengths: Sequence[int]) -> sparse.csr_array:
    """Describe each sentence's position: from the beginning, from the end, and relative to the length."""
    eye = np.eye(_N_PLACES)
    blocks = []
    for n in lengths:
        places = np.arange(n)
        ends = (np.minimum(places, _N_PLACES - 1), np.minimum(n - 1 - places, _N_PLACES - 1))
        share = (places + 0.5) / n
        blocks.append(np.column_stack([eye[ends[0]], eye[ends[1]], share, np.full(n, 1 / n)]))
    return sparse.csr_array(np.concatenate(blocks))


def _in_place(own: sparse.csr_array, lengths: Sequence[int], *, weight: float) -> sparse.csr_array:
    """Join each sentence's features, its neighbours' in the abstract times ``weight``, and its position."""
    paper = np.repeat(np.arange(len(lengths)), lengths)
    same = (paper[1:] == paper[:-1]).astype(np.float64)
    before = sparse.diags_array(weight * same, offsets=-1, shape=(len(paper), len(paper)))
    after = sparse.diags_array(weight * same, offsets=1, shape=(len(paper), len(paper)))
    return sparse.csr_array(sparse.hstack([own, before @ own, after @ own, _positions(lengths)]))
