"""Tests of systems that compare words: their formulas, and reproducible word vectors."""

import numpy as np
import pytest

from evaluation.baselines.lexical import Bm25, TfIdf, words
from evaluation.baselines.word_vectors import WordVectors, train
from tests.support.examples.evaluation.system_examples import PAPERS


def test_words_are_stemmed_without_stop_words() -> None:
    """Case, endings, stop words and single letters do not count."""
    assert ["flood", "threaten", "river", "town"] == words("The floods threatened a river's towns.")


def test_bm25_is_lucenes_formula() -> None:
    """A score equals idf * tf / (tf + k1 (1 - b + b * length / mean length)), summed over query words."""
    documents = [["flood", "flood", "river"], ["river"], ["moth", "night"]]
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * 3 / 2))
    scores = Bm25(documents).scores(["flood", "unknown"])
    np.testing.assert_allclose(scores, [expected, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(Bm25(documents).scores(["unknown"]), np.zeros(3))
    np.testing.assert_allclose(Bm25(documents).scores(["flood", "flood"]), 2 * scores, rtol=1e-6)


def test_tf_idf_is_a_cosine() -> None:
    """A document has cosine 1 with itself and 0 with one that shares no word."""
    documents = [["flood", "river"], ["moth", "night"]]
    np.testing.assert_allclose(TfIdf(documents).scores(documents[0]), [1, 0])


def test_word_vectors_are_the_same_each_time() -> None:
    """Training twice gives the same scores; weighting changes them; unknown words score 0."""
    documents = [words(f"{each.title} {each.abstract}") for each in PAPERS.values()] * 20
    scores = [
        WordVectors(documents, train(documents), weighted=weighted).scores(documents[0])
        for weighted in (False, False, True)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    assert pytest.approx(1) == scores[0][0]
    assert not WordVectors(documents, train(documents), weighted=True).scores(["unheard"]).any()
