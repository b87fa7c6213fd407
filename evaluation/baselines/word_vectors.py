"""Word-vector baselines: the mean of a text's word vectors, plain or weighted by tf-idf, as in CSFCube."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from evaluation.baselines.lexical import Words

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

DIM = 200  # CSFCube's size; its vectors were trained on a larger corpus
_WINDOW = 5
_EPOCHS = 10


def train(documents: Sequence[Words]) -> "KeyedVectors":
    """Train word2vec (CBOW, 200 dimensions, window 5, 10 epochs) on the collection's own text.

    With one thread and a fixed seed, so every run on one machine gives the same vectors.
    """
    from gensim.models import Word2Vec  # noqa: PLC0415 - half a second, of use to two systems alone

    # A word in a single text says nothing about the others, except in a collection too small to have others.
    n_words = sum(map(len, documents))
    model = Word2Vec(
        documents,
        vector_size=DIM,
        window=_WINDOW,
        epochs=_EPOCHS,
        min_count=2 if n_words > 10_000 else 1,
        seed=0,
        workers=1,
    )
    return model.wv


class WordVectors:
    """Cosine of mean word vectors; ``weighted`` weights each word by tf-idf."""

    def __init__(self, documents: Sequence[Words], vectors: "KeyedVectors", *, weighted: bool) -> None:
        vectorizer = TfidfVectorizer if weighted else CountVectorizer
        self._vectorizer = vectorizer(analyzer=_as_is, vocabulary=vectors.key_to_index)
        self._words = vectors.vectors.astype(np.float64)
        counts = self._vectorizer.fit_transform(documents)
        self._documents = _unit(counts @ self._words)

    def scores(self, query: Words) -> Float64[np.ndarray, " n_papers"]:
        """Return the cosine of every document with ``query``; 0 for a text without a known word."""
        vector = _unit(self._vectorizer.transform([query]) @ self._words)[0]
        cosines: Float64[np.ndarray, " n_papers"] = self._documents @ vector
        return cosines


def _as_is(document: Words) -> Words:
    return document


def _unit(rows: Float64[np.ndarray, "n dim"]) -> Float64[np.ndarray, "n dim"]:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)
